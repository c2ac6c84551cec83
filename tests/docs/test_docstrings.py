"""Every public name tells what it is, what it raises, and shows an example; that the examples hold
is tested with their modules.
"""

from __future__ import annotations

import doctest
import inspect
from typing import Any

import pytest

import einalg as ea
from docs.pages.api import VALUES
from einalg.language.ops.definition.registry import OPERATORS

PUBLIC = {name: getattr(ea, name) for name in ea.__all__ if name not in VALUES}
CLASSES = {name: value for name, value in PUBLIC.items() if inspect.isclass(value)}
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value)}


def text_of(value: Any) -> str:
    """The docstring of an object, or of its class where it has none of its own; an inherited one
    does not count.
    """
    own = (
        value
        if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value)
        else type(value)
    )
    return inspect.cleandoc(own.__doc__ or "")


def examples(text: str) -> list[doctest.Example]:
    return doctest.DocTestParser().get_examples(text)


def test_the_names_are_there() -> None:
    assert len(CLASSES) > 15 and len(FUNCTIONS) > 8 and len(OPERATORS) > 90


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_sentence_and_an_example(name: str) -> None:
    text = text_of(PUBLIC[name])
    first, _, _ = text.partition("\n")
    assert len(first.split()) > 2, f"ea.{name} says nothing"
    assert any(example.want or "import" not in example.source for example in examples(text)), (
        f"ea.{name} has no example"
    )


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_has_a_sentence_and_an_example(name: str) -> None:
    text = text_of(OPERATORS[name])
    assert text and not text.startswith(">>>")
    assert any(f"{name}(" in example.source for example in examples(text)), (
        f"ops.{name} has no example that calls it"
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_tells_what_it_raises(name: str) -> None:
    text = " ".join(text_of(FUNCTIONS[name]).lower().split())
    assert "raises `" in text or "raises nothing" in text


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_tells_what_it_raises(name: str) -> None:
    """Itself, or in the text of the operator to which it refers for its parameters."""
    text = text_of(OPERATORS[name])
    told = [text, *(text_of(op) for other, op in OPERATORS.items() if f"`{other}`" in text)]
    assert any("Raises `ShapeError`" in " ".join(part.split()) for part in told)


@pytest.mark.parametrize("name", CLASSES)
def test_what_a_public_class_offers_is_documented(name: str) -> None:
    ours = [
        kind for kind in CLASSES[name].__mro__ if kind.__module__.startswith(("einalg", "derive"))
    ]
    members = {
        k: v for kind in reversed(ours) for k, v in vars(kind).items() if not k.startswith("_")
    }
    offered = {
        k: v
        for k, v in members.items()
        if inspect.isfunction(v) or isinstance(v, (property, classmethod, staticmethod))
    }
    assert not [k for k, v in offered.items() if not inspect.getdoc(v)]
