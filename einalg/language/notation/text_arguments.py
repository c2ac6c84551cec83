"""Public functions that take text in the place of an expression, with shapes as `parse` does."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Set
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

import numpy as np

from einalg.boundary import public, unknown_option
from einalg.errors import EinalgError
from einalg.language.index.size import Size, as_axis_extent
from einalg.language.interpreters import reference
from einalg.language.ir.program import Program
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor
from einalg.language.notation.parser import parse

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
WORD = re.compile(r"[^\W\d]\w*")
READ_WORD = re.compile(r"[^\W\d]\w*(?=\s*[\[.])")

# The remedy of a tensor without a shape, where a function takes shapes, and where it takes arrays.
GIVE_SHAPE = re.compile(r"give its shape: parse\(\.\.\., (\w+)=(\(.*?\))\)")
SHAPE = r"give its shape: parse(..., \1=\2)"
ARRAY = r"give its array: parse(..., \1=np.ones(\2))"


def reads_text(
    *places: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Decorate a public function whose parameters `places` are expressions: text is read in their
    place, with the shapes that are given by the names of its tensors.

    The function declares `**tensors`, and is called without them. A tensor may have the name of a
    parameter that is given by place. Where one expression is text and another is not, the tensors
    of the other are known to the text.

    >>> @reads_text("expr")
    ... def shape(expr, depth=1, **tensors):
    ...     return expr.shape
    >>> shape("O[i,j] = A[j,i]", A=(4, 5))
    (5, 4)
    >>> shape("O[i,j] = expr[j,i]", expr=(4, 5))
    (5, 4)
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        parameters = signature(function).parameters
        in_order = list(parameters)
        options = {
            key for key, kind in parameters.items() if kind.kind is not Parameter.VAR_KEYWORD
        }

        @wraps(function)
        def call(*arguments: Parameters.args, **named: Parameters.kwargs) -> Result:
            name: str = function.__qualname__.removesuffix(".__init__")
            by_place = dict(zip(in_order, arguments))
            values: dict[str, Any] = {**named, **by_place}
            texts = {place: values[place] for place in places if _is_text(values.get(place))}
            tensors = _tensors(name, texts, named, options, by_place.keys())
            known = {}
            for place in places:
                known.update(_inputs(values.get(place)))
            known.update(tensors)
            read = {place: _parsed(name, text, known) for place, text in texts.items()}
            positional = [read.get(key, value) for key, value in zip(in_order, arguments)]
            positional += arguments[len(positional) :]
            rest = {}
            for key, value in named.items():
                if key in options and key not in tensors:
                    rest[key] = value
            for place in rest.keys() & read.keys():
                rest[place] = read[place]
            return function(*positional, **rest)  # pyright: ignore

        return public(call)

    return decorate


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_shape(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(as_axis_extent(size) is not None for size in value)
    return isinstance(value, (Tensor, Size))


def _tensors(
    name: str,
    texts: Mapping[str, str],
    named: Mapping[str, Any],
    options: set[str],
    by_place: Set[str],
) -> dict[str, Any]:
    """Return the named arguments that are tensors of a text; `UseError` for one that is neither
    this nor an option.

    A shape of a tensor that the text does not name is left aside, so that several texts can share
    shapes.
    """
    text = "\n".join(texts.values())
    words, read = set(WORD.findall(text)), set(READ_WORD.findall(text))
    tensors = {}
    for option, value in named.items():
        is_free = option not in options or option in by_place
        if option in read or (option in words and is_free):
            tensors[option] = value
        elif option not in options and not (texts and _is_shape(value)):
            raise unknown_option(name, option, value, sorted(options - {"self"}))
    return tensors


def _inputs(value: Any) -> dict[str, Any]:
    if isinstance(value, Tensor):
        return {value.name: value}
    if isinstance(value, (Program, Scope)):
        return {key: t for key, t in value.tensors.items() if t.role != "intermediate"}
    return {}


def _parsed(name: str, text: str, tensors: Mapping[str, Any], argument: str = SHAPE) -> Any:
    """Read a text; a remedy that is an argument of `parse` is one of the function."""
    try:
        return parse(text, **tensors)
    except EinalgError as error:
        error.args = (GIVE_SHAPE.sub(argument.replace("parse", name), error.message),)
        raise


@public
def evaluate(expr: Any, /, *unnamed: Any, **arrays: Any) -> Any:
    """Return the value of an expression on arrays given by name: an ndarray, or a dict of them for
    a program of several outputs.

    Text in the place of an expression is read with the shapes of the arrays. Integers and
    `Fraction`s are computed exactly (the result is of dtype object where it holds fractions);
    anything else in float64. Shapes are those of the tensors, in elements. Raises `ShapeError` for
    a missing, surplus or misshapen array, `NotationError` for anything but an expression. This is
    the slow, exact reference; use a compiled candidate for real sizes.

    >>> import einalg as ea
    >>> ea.evaluate("O[i] += A[i,j]", A=[[1, 2, 3], [4, 5, 6]])
    array([ 6, 15])
    >>> ea.evaluate(ea.parse("O[i] += A[i,j]", A=(2, 2)), A=[[1, 2], [3, 4]])
    array([3, 7])
    """
    if _is_text(expr):
        words = set(WORD.findall(expr))
        shapes = {name: np.shape(value) for name, value in arrays.items() if name in words}
        expr = _parsed("evaluate", expr, shapes, ARRAY)
    return reference.evaluate(expr, *unnamed, **arrays)
