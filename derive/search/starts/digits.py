"""Indices that long products read by their digits, taken apart, so that an order can split them.

In the product of a Kronecker product with a vector, `A[p//4,q//4]*B[p%4,q%4]*x[q]`, no factor can
be summed before the others as long as `q` is one index.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from derive.contraction.ordering import long_products
from derive.rewriting.moves import Move, Rule, apply
from derive.rewriting.paths import scope_at
from derive.rules.intra import variable_substitution
from derive.rules.intra.variable_substitution import TRAVERSAL
from einalg.language.index.affine import Index
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program
from einalg.language.ir.traversal import accesses

MAX_SPLITS = 12


def digits_apart(program: Program, rules: Mapping[str, Rule]) -> tuple[Program, list[Move]]:
    """Return the program with two indices for each that a long product reads by digits, and moves.

    >>> import einalg as ea
    >>> from derive.rules import ALL
    >>> from einalg.language.ir.program import as_program
    >>> text = "O[p:8] = Sum[q:8](A[p//4,q//4]*B[p%4,q%4]*x[q])"
    >>> start = as_program(ea.parse(text, A=(2, 2), B=(4, 4), x=8))
    >>> print(digits_apart(start, ALL)[0]["O"].body)
    (L[p1:2, p2:4](Sum[q1:2, q2:4](A[p1, q1]*B[p2, q2]*x[4*q1 + q2])))[p//4, p%4]
    """
    moves: list[Move] = []
    while len(moves) < MAX_SPLITS:
        move = _next_split(program)
        if move is None or move.rule not in rules:
            break
        program = apply(program, move, rules)
        moves.append(move)
    return program, moves


def _next_split(program: Program) -> Move | None:
    """Return a move that takes an index of a long product apart; None where all are."""
    for place in long_products(program):
        scope = scope_at(program, place.path)
        node = place.node(scope)
        by_digits = set[str]() if node is None else _read_by_digits(node)
        if by_digits:
            for args in variable_substitution.find(scope):
                if args["target"] in {TRAVERSAL, place.position} and _splits(args, by_digits):
                    return Move(variable_substitution.RULE.name, place.path, args)
    return None


def _read_by_digits(node: Reduce) -> set[str]:
    """Return the names of the indices that occur in a quotient or a remainder."""
    names: set[str] = set()
    for access in accesses(node.body):
        for subscript in access.subscripts:
            for atom, _ in subscript.terms:
                if not isinstance(atom, Index):
                    names |= {index.name for index in atom.argument.indices}
    return names


def _splits(args: Mapping[str, Any], names: Container[str]) -> bool:
    """Tell whether a substitution makes two indices of one of the names, and leaves the others."""
    replaced = args["backward"].keys() - args["forward"].keys()
    return len(args["forward"]) > len(args["backward"]) and all(name in names for name in replaced)
