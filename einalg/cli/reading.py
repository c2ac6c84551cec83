"""Expressions from a text, a file or the standard input, with the tensors that options describe."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

import einalg as ea
from einalg.cli.arguments import Shape
from einalg.program import Program, as_program

STATEMENT = re.compile(r"(?:\s*#.*\n)*\s*(\w+)\s*(?:\[[^=]*\])?\s*\+?=(?!=)")


def programs(sources: Iterable[str], shapes: Mapping[str, Shape], weights: Iterable[str] = ()) -> list[Program]:
    """Each source as a program; a usage error for a shape or a weight that is of none of their inputs."""
    roles = dict.fromkeys(weights, "weight")
    tensors = {name: ea.tensor(name, shape, dtype or "f32", roles.get(name, "input")) for name, (shape, dtype) in shapes.items()}
    found = [_program(text_of(source), tensors) for source in sources]
    inputs = {name for program in found for name in program.inputs}
    for name in (*shapes, *roles):
        if name not in inputs:
            raise click.UsageError(f"{name} is no input of the expression; its inputs: {', '.join(sorted(inputs)) or 'none'}")
    return found


def _program(text: str, tensors: Mapping[str, Any]) -> Program:
    """The program of a text; a single statement keeps its name."""
    parsed = ea.parse(text, **tensors)
    name = STATEMENT.match(text)
    return as_program(parsed, name[1]) if name else as_program(parsed)


def text_of(source: str) -> str:
    """The text itself, or what stands in the file, or in the standard input where it is `-`."""
    if source == "-":
        return sys.stdin.read()
    if "[" in source or "=" in source:
        return source
    if not Path(source).is_file():
        raise click.UsageError(f"{source!r} is neither an expression nor a file")
    try:
        return Path(source).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{source} holds no text") from None
