"""Shapes as options that are named like tensors: `--A 1,64,56,56`, `--x 8:f64`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

import click

Shape = tuple[tuple[int | str, ...], str | None]
EXAMPLE = "e.g. 1,64,56,56 or 8,8:f64, or N,64 with a symbolic size"
EXTENT = r"(?:\d+|[^\W\d]\w*)"
ONNX = ".onnx"  # the suffix of a model's file


def divided(words: Sequence[str], options: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The texts among words, and the values of `--NAME VALUE` and `--NAME=VALUE`; `options` are
    suggested for what is neither.

    >>> divided(["O[i] = A[i]", "--A", "4", "--B=5"], [])
    (['O[i] = A[i]'], {'A': '4', 'B': '5'})
    """
    texts, named = [], {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            texts.append(word)
            continue
        name, equals, value = word.removeprefix("--").partition("=")
        value = value if equals else next(rest, "")
        is_misspelt = value.isidentifier() and bool(_nearest(f"--{name}", options))
        if not word.startswith("--") or not name.isidentifier() or not _is_shape(value):
            is_misspelt = True
        if is_misspelt:
            raise click.UsageError(_no_option(word.partition("=")[0], value, options))
        if name in named:
            raise click.UsageError(f"the shape of {name} is given twice")
        named[name] = value
    return texts, named


def without_dashes(texts: Sequence[str]) -> str:
    """The remedy where a text is a shape without the dashes of an option; else nothing.

    >>> without_dashes(["O[i] = A[i]", "A=4"])
    '\\n  shapes are options: --A 4'
    """
    for text in texts:
        name, _, value = text.partition("=")
        if name.isidentifier() and _is_shape(value):
            return f"\n  shapes are options: --{name} {value}"
    return ""


def _is_shape(value: str) -> bool:
    return re.fullmatch(rf"(\(\)|{EXTENT}(,{EXTENT})*)(:\w+)?", value) is not None


def _nearest(word: str, options: Sequence[str]) -> list[str]:
    return get_close_matches(word, options, 1)


def _no_option(word: str, value: str, options: Sequence[str]) -> str:
    near = _nearest(word, options)
    if not near:
        return f"{word} is no option, and as the shape of a tensor {value!r} is wrong: {EXAMPLE}"
    message = f"there is no option {word}: did you mean {near[0]}?"
    name = word.removeprefix("--")
    if _is_shape(value):
        message += f"\n  the shape of a tensor {name} is given by --shape {name}={value}"
    return message


def named_values(entries: Iterable[str], option: str) -> dict[str, str]:
    """`NAME=VALUE` entries of an option by name; the name may hold anything.

    >>> named_values(["x:0=1,3"], "--shape")
    {'x:0': '1,3'}
    """
    values = {}
    for entry in entries:
        name, equals, value = entry.rpartition("=")
        if not equals or not name or not value:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {entry!r}")
        values[name] = value
    return values


def parsed_shapes(named: Mapping[str, str]) -> dict[str, Shape]:
    """Shape and dtype (None where none is named) by name.

    >>> parsed_shapes({"A": "N,64:f16", "s": "()"})
    {'A': (('N', 64), 'f16'), 's': ((), None)}
    """
    shapes = {}
    for name, value in named.items():
        if not _is_shape(value):
            raise click.UsageError(f"{value!r} is no shape for {name}: {EXAMPLE}")
        extents, _, dtype = value.partition(":")
        sizes = [_extent(entry) for entry in extents.strip("()").split(",") if entry]
        shapes[name] = tuple(sizes), dtype or None
    return shapes


def _extent(text: str) -> int | str:
    """Return a number; a word, the name of a symbolic size, as it is."""
    return int(text) if text.isdecimal() else text
