"""The table of library operators: each is a function from tensors and parameters to an expression
(design §5).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from einalg.boundary import public
from einalg.errors import EinalgError, ShapeError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

OPERATORS: dict[str, Callable[..., Any]] = {}


def operator(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Register a public function as the operator of that name; its errors begin with the name of
    the operator.

    An operator that calls another one is the one that its errors name. Every einalg error becomes a
    `ShapeError`, because what is wrong is an argument. A function of the same name in another
    module raises `ValueError`; a module that is loaded again replaces its own.

    >>> from einalg.language.ops import matmul
    >>> "matmul" in OPERATORS
    True
    """
    name = function.__name__  # pyright: ignore
    if name in OPERATORS and OPERATORS[name].__module__ != function.__module__:
        raise ValueError(
            f"operator {name} is defined twice: in {OPERATORS[name].__module__} and in "
            f"{function.__module__}"
        )

    @wraps(function)
    def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except EinalgError as error:
            raise _named(name, error) from None

    OPERATORS[name] = public(checked)
    return OPERATORS[name]


def _named(name: str, error: EinalgError) -> ShapeError:
    problem = getattr(error, "problem", error.message)
    named = ShapeError(f"{name}: {problem}")
    named.problem = problem  # pyright: ignore
    return named
