"""Conditions on indices: linear forms compared with zero, as `where=` takes them (design §2)."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd
from typing import Any

import sympy
from sympy import And, Basic
from sympy.core.relational import Relational

from einalg.errors import NotationError
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.node import Node


class Constraint(Node, Basic):
    """`form >= 0` or `form == 0`, an integer condition that cuts a domain.

    >>> i, j = Index("i"), Index("j")
    >>> Constraint(i - j, ">=")
    i >= j
    """

    __slots__ = ("form", "relation")
    _fields = ("form", "relation")

    def __new__(cls, form: Any, relation: Any) -> Constraint:
        form, relation = affine(form), str(relation)
        common = gcd(*(c for _, c in form.terms))
        if common > 1 and (relation == ">=" or form.const % common == 0):
            terms = tuple((a, c // common) for a, c in form.terms)
            form = Affine.from_normal_form(terms, form.const // common)
        if relation == "==" and form.terms and form.terms[0][1] < 0:
            form = form.scaled(-1)
        if not form.terms:
            form, relation = _decided(form.const, relation), ">="
        return cls._build(form, relation)

    @property
    def indices(self) -> frozenset[Index]:
        return self.form.indices

    @property
    def truth(self) -> bool | None:
        """True or False where the condition is constant, else None."""
        if self.form.terms:
            return None
        if self.relation == ">=":
            return self.form.const >= 0
        return self.form.const == 0

    def holds(self, env: Any) -> Any:
        """Return whether the condition holds where every index has the value `env[index]`."""
        value = self.form.evaluate(env)
        if self.relation == ">=":
            return value >= 0
        return value == 0

    def substitute(self, mapping: Any) -> Constraint:
        form = self.form.substitute(mapping)
        if form is self.form:
            return self
        return Constraint(form, self.relation)

    def sides(self) -> tuple[Affine, Affine]:
        """Return the condition with every coefficient positive: `left relation right`."""
        form = self.form
        positive = tuple(term for term in form.terms if term[1] > 0)
        left = Affine.from_normal_form(positive, max(form.const, 0))
        return left, left.plus(form, -1)

    def _sympystr(self, printer: Any) -> str:
        if self.truth is False:
            return "Eq(1, 0)"  # SymPy's, for Python's own False may be a comparison of structures
        left, right = self.sides()
        if self.relation == "==":
            return f"Eq({left}, {right})"
        if left.terms:
            return f"{left} >= {right}"
        return f"{right} <= {left}"

    def _latex(self, printer: Any) -> str:
        left, right = self.sides()
        if self.relation == "==":
            return rf"{printer._print(left)} = {printer._print(right)}"
        if left.terms:
            return rf"{printer._print(left)} \ge {printer._print(right)}"
        return rf"{printer._print(right)} \le {printer._print(left)}"


def _decided(number: int, relation: str) -> Affine:
    """Return the one form of all conditions that hold, and that of all that fail: `0 >= 0` and
    `-1 >= 0`.
    """
    holds = number >= 0 if relation == ">=" else number == 0
    return affine(int(holds) - 1)


def constraints(condition: Any) -> tuple[Constraint, ...]:
    """Read `where=`: a comparison of indices, several joined by `&`, or a tuple of them."""
    distinct: set[Constraint] = set()
    for part in _conjuncts(condition):
        constraint = _from_relational(part)
        if constraint.truth is not True:
            distinct.add(constraint)
    return tuple(sorted(distinct, key=_sort_key))


def _sort_key(constraint: Constraint) -> tuple[Any, ...]:
    return constraint.form.sort_tuple, constraint.relation


def _conjuncts(condition: Any) -> Iterator[Any]:
    if condition is None or condition is sympy.true:
        return
    if isinstance(condition, (tuple, list, sympy.Tuple)):
        for part in condition:
            yield from _conjuncts(part)
    elif isinstance(condition, And):
        for part in condition.args:
            yield from _conjuncts(part)
    else:
        yield condition


def _from_relational(part: Any) -> Constraint:
    if isinstance(part, Constraint):
        return part
    if isinstance(part, bool):
        raise NotationError(
            f"where= takes comparisons of indices, not {part}\n"
            "  `==` compares structure: write sympy.Eq(i, j)"
        )
    if part is sympy.false:
        return Constraint(-1, ">=")
    if isinstance(part, Relational):
        left, right = _side(part, part.lhs), _side(part, part.rhs)
        if isinstance(part, sympy.Eq):
            return Constraint(left - right, "==")
        if isinstance(part, (sympy.GreaterThan, sympy.StrictGreaterThan)):
            left, right = right, left
        if not isinstance(part, sympy.Ne):
            is_strict = isinstance(part, (sympy.StrictLessThan, sympy.StrictGreaterThan))
            return Constraint(right - left - int(is_strict), ">=")
    raise NotationError(
        f"where= takes comparisons of indices joined by &, not {part}\n"
        "  for a union of domains, write a sum of two padded scopes; "
        "for `!=`, split into `<` and `>`"
    )


def _side(part: Any, value: Any) -> Affine:
    try:
        return affine(value)
    except NotationError:
        message = f"where= compares indices, and {value} in {part} is not index arithmetic"
        raise NotationError(
            f"{message}\n"
            "  any other condition goes into the body: Piecewise((a, condition), (0, True))"
        ) from None
