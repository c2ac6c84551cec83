"""Expressions from a text, a file or the standard input, with the tensors that options describe."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

import einalg as ea
from einalg.cli.shape_options import ONNX, Shape
from einalg.language.ir.program import Program, as_symbolic_program

SAVED = DERIVATION, HISTORY = "einalg derivation", "einalg history"  # of which there are files
STATEMENT = re.compile(r"(?:\s*#.*\n)*\s*(\w+)\s*(?:\[[^=]*\])?\s*\+?=(?!=)")


def programs(
    sources: Iterable[str], shapes: Mapping[str, Shape], weights: Iterable[str] = ()
) -> list[Program]:
    """Return each source as a program.

    Raises a usage error for a shape or a weight that is of none of their inputs.
    """
    roles = dict.fromkeys(weights, "weight")
    tensors = {}
    for name, (shape, dtype) in shapes.items():
        tensors[name] = ea.tensor(name, shape, dtype or "f32", roles.get(name, "input"))
    parsed = [_program(text_of(source), tensors) for source in sources]
    inputs: set[str] = set()
    for program in parsed:
        inputs.update(program.inputs)
    for name in (*shapes, *roles):
        if name not in inputs:
            known = ", ".join(sorted(inputs)) or "none"
            raise click.UsageError(f"{name} is no input of the expression; its inputs: {known}")
    return parsed


def _program(text: str, tensors: Mapping[str, Any]) -> Program:
    """The program of a text; a single statement keeps its name."""
    parsed = ea.parse(text, **tensors)
    name = STATEMENT.match(text)
    if name is None:
        return as_symbolic_program(parsed)
    return as_symbolic_program(parsed, name[1])


def text_of(source: str) -> str:
    """The text itself, or what stands in the file, or in the standard input where it is `-`; a
    usage error where that is a record.
    """
    if source == "-":
        return _expression(sys.stdin.read(), "the standard input")
    if "[" in source or "=" in source:
        return source
    if Path(source).suffix == ONNX and not Path(source).exists():
        raise click.UsageError(f"{source}: no such file")
    if not Path(source).is_file():
        raise click.UsageError(
            f"{source!r} is neither an expression nor a file\n"
            '  write an expression in quotes, e.g. "O[i] += A[i,j]", or the path of a file'
        )
    return _expression(_content(Path(source)), source)


def is_model(source: str) -> bool:
    """Tell whether a source is the file of an ONNX model."""
    return Path(source).suffix == ONNX and Path(source).is_file()


def saved_kind(source: str) -> str | None:
    """Return the kind of record that a file is, such as `einalg derivation`; None for a text, the
    standard input and any other file.
    """
    if source == "-" or "[" in source or "=" in source or not Path(source).is_file():
        return None
    return _kind(_content(Path(source)))


def _content(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} holds no text") from None


def _kind(text: str) -> str | None:
    """Return the kind of a record; None for a text that is none."""
    if not text.lstrip().startswith("{"):  # as no expression does
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    kind = record.get("format") if isinstance(record, dict) else None
    return kind if isinstance(kind, str) else None


def _expression(text: str, where: str) -> str:
    """A text that may be an expression; a usage error for JSON."""
    kind = _kind(text)
    if kind in SAVED:
        raise click.UsageError(
            f"{where} holds an {kind}, no expression\n  einalg show {where} shows it"
        )
    if kind is not None or text.lstrip().startswith("{"):
        raise click.UsageError(
            f"{where} holds no expression\n  einalg show reads what einalg derive --save FILE wrote"
        )
    return text
