"""The operators that programs are generated of: those of rule files, and functions of tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from derive.substitutions.graphs.kinds import KINDS, WrongOperation
from einalg.errors import UseError
from einalg.language.ops import OPERATORS
from einalg.options import shown

ALIASES = {"add": "ewadd", "mul": "ewmul", "avg_pool2d": "poolavg", "max_pool2d": "poolmax"}
UNIT_STRIDE, WINDOW = (1, 1), (3, 3)
DEFAULTS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "concat": {"axis": (0, 1)},
    "split": {"axis": (0, 1), "n": (2,)},
    "transpose": {"perm": ((1, 0),)},
    "matmul": {"act": ("none",)},
    "conv2d": {"stride": (UNIT_STRIDE,), "pad": ("same",), "act": ("none", "relu")},
    "poolavg": {"kernel": (WINDOW,), "stride": (UNIT_STRIDE,), "pad": ("same",)},
    "poolmax": {"kernel": (WINDOW,), "stride": (UNIT_STRIDE,), "pad": ("same",)},
    "enlarge": {"kernel": (WINDOW,)},
    "const_iconv": {"kernel": (WINDOW,)},
    "const_pool": {"kernel": (WINDOW,)},
}


@dataclass(frozen=True)
class OperatorChoice:
    """An operator of `kinds`, or a function of tensors, with values for its parameters.

    A kind that reads nothing has the shape of its result, which context gives elsewhere.
    """

    name: str
    parameters: tuple[tuple[str, Any], ...]
    arity: int
    function: Callable[..., Any] | None = None
    shape: tuple[int, ...] | None = None

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.parameters)
        return f"{self.name}({values})" if values else self.name


def operators_of(items: Any, shapes: Iterable[tuple[int, ...]]) -> tuple[OperatorChoice, ...]:
    """Return the operators that a request names, with all values of their parameters. Operators
    that read nothing are made at each of some shapes that they may have.
    """
    if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
        raise UseError(
            f"operators must be several, not {shown(items)}\n"
            '  e.g. operators=["relu", "add", ("concat", {"axis": [0]})]'
        )
    operators: dict[OperatorChoice, None] = {}
    known_shapes = list(dict.fromkeys(shapes))
    for item in items:
        for operator in _operators(item):
            if operator.arity or operator.function is not None:
                operators[operator] = None
                continue
            for shape in known_shapes:
                operators[OperatorChoice(operator.name, operator.parameters, 0, shape=shape)] = None
    _check_names(operators)
    if not operators:
        raise UseError('there are no operators\n  give some: operators=["relu", "add"]')
    return tuple(operators)


def _check_names(operators: Iterable[OperatorChoice]) -> None:
    """Raise `UseError` where a name does not tell a function from other operators."""
    functions: dict[str, Any] = {}
    for operator in operators:
        if operator.function is None:
            continue
        first = functions.setdefault(operator.name, operator.function)
        if operator.name in KINDS or first is not operator.function:
            raise UseError(
                f"a function is called {operator.name}, as another operator is\n"
                f'  give it a name of its own, or give the other one by its name: "{operator.name}"'
            )


def _operators(item: Any) -> list[OperatorChoice]:
    name, choices = item, None
    if isinstance(item, (tuple, list)) and len(item) == 2:
        name, choices = item
    if choices is not None and not isinstance(choices, Mapping):
        raise UseError(
            f"the parameters of {shown(name)} must be lists of values by name, not "
            f"{shown(choices)}\n"
            '  e.g. ("concat", {"axis": [0, 1]})'
        )
    if isinstance(name, str):
        kind = ALIASES.get(name, name)
        if kind in KINDS:
            return _of_kind(kind, DEFAULTS.get(kind, {}) if choices is None else choices)
        if name not in OPERATORS:
            raise UseError(
                f"there is no operator {shown(name)}\n"
                f"  known are {', '.join(sorted(KINDS))}, and those of ea.ops, or give a function"
            )
        return _of_function(name, OPERATORS[name], choices or {})
    if callable(name):
        return _of_function(getattr(name, "__name__", "function"), name, choices or {})
    raise UseError(
        f"{shown(item)} is no operator\n"
        "  give a name, a function of tensors, or one of these with its parameters"
    )


def _of_kind(name: str, choices: Mapping[str, Any]) -> list[OperatorChoice]:
    kind = KINDS[name]
    operators = []
    for parameters in _values(name, choices):
        values = {key: _hashable(value) for key, value in parameters.items()}
        try:
            kind.check(values, kind.least)
        except WrongOperation as error:
            raise UseError(f"operator {name} {error}\n  give another value") from None
        operators.append(OperatorChoice(name, tuple(sorted(values.items())), kind.least))
    return operators


def _of_function(
    name: str, function: Callable[..., Any], choices: Mapping[str, Any]
) -> list[OperatorChoice]:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise UseError(f"{name} has no signature\n  give a function of tensors") from None
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    unknown = [key for key in choices if key not in signature.parameters]
    if unknown and inspect.Parameter.VAR_KEYWORD not in kinds:
        raise UseError(
            f"{name} has no parameter {shown(unknown[0])}\n"
            f"  it has {', '.join(signature.parameters)}"
        )
    arity = 0
    for parameter in signature.parameters.values():
        is_positional = parameter.kind in (
            inspect.Parameter.POSITIONAL_ONLY,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
        )
        if is_positional and parameter.default is parameter.empty:
            arity += parameter.name not in choices
    operators = []
    for parameters in _values(name, choices):
        values = {key: _hashable(value) for key, value in parameters.items()}
        operators.append(OperatorChoice(name, tuple(sorted(values.items())), arity, function))
    return operators


def _values(name: str, choices: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every choice of one value for each parameter."""
    for key, values in choices.items():
        if not isinstance(key, str) or not isinstance(values, (list, tuple)) or not values:
            raise UseError(
                f"parameter {shown(key)} of {name} must have a list of values, not "
                f"{shown(values)}\n"
                "  e.g. [0, 1]"
            )
    return [dict(zip(choices, values)) for values in product(*choices.values())]


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, (list, tuple)) else value
