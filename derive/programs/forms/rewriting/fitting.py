"""Statements of a program that may be those of a pattern, whatever their indices and sizes are."""

from __future__ import annotations

from typing import Any

import sympy

from derive.programs.forms.rewriting.patterns import RulePattern
from derive.programs.forms.rewriting.reads import may_be_alike
from einalg.language.index.affine import IndexArithmetic
from einalg.language.index.size import is_number
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.tensor import Access, Padded
from einalg.language.ir.traversal import accesses, reductions

COMMUTATIVE = (sympy.Add, sympy.Mul, sympy.Max, sympy.Min)


class Fitting:
    """What may be matched of a pattern and a program, each pair of statements looked at once."""

    def __init__(self, pattern: RulePattern, program: Program):
        self.pattern = pattern
        self.patterns, self.statements = dict(pattern.before), dict(program)
        self.known: dict[tuple[str, str], bool] = {}

    def of_statement(self, name: str, other: str) -> bool:
        """Say whether a statement of the program may be one of the pattern."""
        known = self.known.get((name, other))
        if known is None:
            known = self._of_body(self.patterns[name].body, self.statements[other].body)
            self.known[name, other] = known
        return known

    def _of_body(self, body: Any, other: Any) -> bool:
        if isinstance(body, Access):
            return self._of_read(body, other)
        if isinstance(body, Reduce):
            return self._of_reduction(body, other)
        if isinstance(body, IndexArithmetic) or not body.args:
            return body == other
        if body.func is not getattr(other, "func", None) or len(body.args) > len(other.args):
            return False
        if isinstance(body, COMMUTATIVE):
            return all(any(self._of_body(one, two) for two in other.args) for one in body.args)
        return all(self._of_body(one, two) for one, two in zip(body.args, other.args))

    def _of_reduction(self, body: Reduce, other: Any) -> bool:
        least = sum(is_number(it.extent) and it.extent > 1 for it in body.iterators)
        if not isinstance(other, Reduce):  # nor is it one where all indices have one value
            return not least and self._of_body(body.body, other)
        several = sum(it.extent > 1 for it in other.iterators)
        if body.op != other.op or several > len(body.iterators) or least > len(other.iterators):
            return False
        return self._of_body(body.body, other.body)

    def _of_read(self, body: Access, other: Any) -> bool:
        if body in self.pattern.whole_reads and is_stored(other):
            return True
        if not may_be_alike(body, other):
            return False
        if body.tensor.name not in self.patterns:
            return True
        name = other.tensor.name
        return name in self.statements and self.of_statement(body.tensor.name, name)


def is_stored(term: Any) -> bool:
    """Say whether an expression may be the elements of a tensor: it reads some, and reduces and
    pads none.
    """
    reads = list(accesses(term))
    if not reads or any(isinstance(access.base, Padded) for access in reads):
        return False
    return next(reductions(term), None) is None
