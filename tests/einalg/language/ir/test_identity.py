"""The identity of scopes: equal exactly up to names of indices, order of conditions and of
commutative operands.
"""

from __future__ import annotations

import sympy
from hypothesis import given
from hypothesis import strategies as st

import einalg as ea
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, rebuild, substitute
from einalg.language.ir.scope import Scope, with_positional_names
from einalg.testing import strategies


def renamed(scope, names):
    """The scope with its indices, and those of its reductions, called otherwise."""

    def leaf(node):
        if not isinstance(node, Reduce):
            return node
        fresh = {
            it.index: Index(f"{it.index}_{names[len(it.index.name) % len(names)]}")
            for it in node.iterators
        }
        iterators = [LoopIndex(fresh[it.index], it.low, it.high) for it in node.iterators]
        forms = {i: j + 0 for i, j in fresh.items()}
        return Reduce(
            node.op,
            iterators,
            [c.substitute(forms) for c in node.where],
            rebuild(substitute(node.body, forms), leaf),
        )

    own = {i: Index(f"{name}{k}") for k, (i, name) in enumerate(zip(scope.indices, names))}
    forms = {i: j + 0 for i, j in own.items()}
    iterators = [LoopIndex(own[it.index], it.low, it.high) for it in scope.iterators]
    return Scope(
        iterators,
        [c.substitute(forms) for c in scope.where],
        rebuild(substitute(scope.body, forms), leaf),
    )


@given(
    strategies.scopes(max_points=60, functions=True, truths=True), st.permutations(["z", "a", "m"])
)
def test_names_do_not_count(scope, names):
    other = renamed(scope, names)
    assert scope.identity == other.identity and hash(scope) == hash(other) and scope == other


@given(
    strategies.scopes(max_indices=2, max_points=6, nested=False),
    strategies.scopes(max_indices=2, max_points=6, nested=False),
)
def test_it_tells_the_same_scopes_apart_as_positional_names(one, other):
    assert (one == other) == (with_positional_names(one) == with_positional_names(other))


def test_what_counts():
    i, j = ea.indices("i j")
    A, B = ea.tensor("A", (3, 3)), ea.tensor("B", (3, 3))
    start = ea.L[i, j](A[i, j] * B[j, i])
    assert start == ea.L[j, i](B[i, j] * A[j, i])
    for other in (
        ea.L[i, j](A[i, j] * B[i, j]),
        ea.L[i, j](A[i, j] + B[j, i]),
        ea.L[i, j](A.pad(0, 0)[i, j] * B[j, i]),
        ea.L[i, j:2](A[i, j] * B[j, i]),
        ea.L[i, j](A[i, j] * B[j, i], where=i >= j),
        ea.L[i, j](A[i, j] * B[j, i] ** 2),
        ea.L[i, j](2 * A[i, j] * B[j, i]),
    ):
        assert other != start


def test_equations_have_no_sides():
    i, j, x, y = ea.indices("i j x y")
    A = ea.tensor("A", (3, 3))
    import sympy

    one, other = (
        ea.L[i, j](A[i, j], where=sympy.Eq(i + 1, j)),
        ea.L[y, x](A[y, x], where=sympy.Eq(y + 1, x)),
    )
    assert one == other != ea.L[i, j](A[i, j], where=sympy.Eq(i, j + 1))


def test_a_number_is_the_same_as_index_arithmetic_without_an_index():
    """SymPy takes one for the other: the second product here has the sum of the first."""
    scope = ea.parse("O[i:4] = B[i]*(sinh(i) + 1)", B=(4,))
    total, read = sorted(scope.body.args, key=lambda factor: not factor.is_Add)
    function = next(term for term in total.args if not term.is_number)
    bodies = [(function + one) * read for one in (affine(1), sympy.Integer(1))]
    for body in bodies:
        assert Scope(scope.iterators, scope.where, body) == scope
