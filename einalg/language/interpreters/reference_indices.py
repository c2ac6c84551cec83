"""Indices of the reference evaluator: the points of domains, and the values of index forms at them
(design §2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from operator import itemgetter
from typing import Any

from einalg.language.index.affine import Affine, FloorDiv, Index, IndexQuotient
from einalg.language.index.constraint import Constraint

Point = tuple[int, ...]
Environment = dict[str, int]  # the value of every index, by name
Points = Callable[[Environment], Iterator[tuple[Point, Environment]]]


def box_points(box: Iterable[tuple[int, int]]) -> Iterator[Point]:
    """Return the points of a box in row-major order."""
    return product(*(range(low, high) for low, high in box))


def domain_points(iterators: Any, where: Any) -> Points:
    """Return the function from the values of outer indices to every point of a domain, with the
    values of all indices there, which hold until the next point.
    """
    names = [it.index.name for it in iterators]
    box = [(it.low, it.high) for it in iterators]
    conditions = [_condition(constraint) for constraint in where]

    def points(outer: Environment) -> Iterator[tuple[Point, Environment]]:
        env = dict(outer)
        for point in box_points(box):
            env.update(zip(names, point))
            for holds in conditions:
                if not holds(env):
                    break
            else:
                yield point, env

    return points


def _condition(constraint: Constraint) -> Callable[[Environment], bool]:
    value = form_function(constraint.form)
    if constraint.relation == ">=":
        return lambda env: value(env) >= 0
    return lambda env: value(env) == 0


def point_function(subscripts: Sequence[Affine]) -> Callable[[Environment], Point]:
    """Return the function from the values of indices to the point that is read.

    >>> point_function([Index("h"), 2*Index("r")])({"h": 4, "r": 7})
    (4, 14)
    """
    indices = [subscript.as_affine().as_index() for subscript in subscripts]
    names = [index.name for index in indices if index is not None]
    if len(names) == len(subscripts) > 1:
        return itemgetter(*names)
    functions = [form_function(subscript.as_affine()) for subscript in subscripts]
    return lambda env: tuple([function(env) for function in functions])


def form_function(form: Affine) -> Callable[[Environment], int]:
    """Return the function from the values of indices to that of an index form.

    >>> form_function(2*Index("h") + Index("r")//3 - 1)({"h": 4, "r": 7})
    9
    """
    index = form.as_index()
    if index is not None:
        return itemgetter(index.name)
    const = form.const
    indices, quotients = [], []
    for atom, coefficient in form.terms:
        if isinstance(atom, Index):
            indices.append((atom.name, coefficient))
        else:
            quotients.append((_quotient(atom), coefficient))
    if not quotients and 0 < len(indices) <= 2:
        return _short_form(indices, const)

    def value(env: Environment) -> int:
        total = const
        for name, coefficient in indices:
            total += coefficient * env[name]
        for quotient, coefficient in quotients:
            total += coefficient * quotient(env)
        return total

    return value


def _short_form(indices: Sequence[tuple[str, int]], const: int) -> Callable[[Environment], int]:
    """Return the function of a form of one or two indices, which most subscripts are."""
    (first, factor), *others = indices
    if not others:
        return lambda env: factor * env[first] + const
    ((second, other_factor),) = others
    return lambda env: factor * env[first] + other_factor * env[second] + const


def _quotient(atom: IndexQuotient) -> Callable[[Environment], int]:
    argument, divisor = form_function(atom.argument), atom.divisor
    if isinstance(atom, FloorDiv):
        return lambda env: argument(env) // divisor
    return lambda env: argument(env) % divisor
