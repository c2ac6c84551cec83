"""The operators, from the registry and the templates of `einalg.ops`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from docs.pages.markdown import first_sentence, table
from einalg.language.ops.definition.registry import OPERATORS
from einalg.language.ops.templates import PLAIN, TEMPLATES

INTRODUCTION = """# Operators

An operator is a function of `ea.ops`. It takes tensors or expressions, and gives an expression:
its definition. The same definition types the operator in a program, is matched against
expressions, and is the reference in tests. Every operator raises `ShapeError` if its arguments do
not fit, and the message begins with the operator's name.

The column *matched as* has the operators that `ea.derive` looks for. If a piece of a program
equals one of them, a library can compute it. `ops=[...]`, `ea.distance(expr, name)` and
`d.why_not(name)` take the names of that column.
"""


def page() -> str:
    """The whole page: an overview, and every operator in full, by module."""
    matched = matched_names()
    overview = [
        [
            f"[`{name}`](#{_address(name)})",
            _summary(op),
            ", ".join(f"`{m}`{{.name}}" for m in matched.get(name, ())),
        ]
        for name, op in sorted(OPERATORS.items())
    ]
    parts = [
        INTRODUCTION,
        f"There are {len(OPERATORS)}.",
        table(("operator", "what it is", "matched as"), overview),
    ]
    for module, names in by_module().items():
        parts += [
            f"## {_title(module)}",
            inspect.getdoc(sys.modules[module]) or "",
            *(f"::: {module}.{name}" for name in names),
        ]
    return "\n\n".join(parts)


def by_module() -> Mapping[str, list[str]]:
    """The names of the operators that each module defines."""
    found: dict[str, list[str]] = {}
    for name, function in OPERATORS.items():
        found.setdefault(function.__module__, []).append(name)
    return found


def matched_names() -> Mapping[str, list[str]]:
    """For every definition the names under which it is matched."""
    found: dict[str, list[str]] = {}
    for template in (*TEMPLATES, *PLAIN):
        names = found.setdefault(template.definition, [])
        if template.name not in names:
            names.append(template.name)
    return found


def _summary(function: Callable[..., Any]) -> str:
    return first_sentence(inspect.getdoc(function) or "")


def _address(name: str) -> str:
    return f"{OPERATORS[name].__module__}.{name}"


def _title(module: str) -> str:
    return module.rpartition(".")[2].replace("_", " ").capitalize()
