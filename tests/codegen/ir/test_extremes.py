"""Extremes in the loop IR: pairs of elements reach every element, and no other one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codegen.ir.extremes import ExtremeStore, loop_over_pairs, pair_distance, with_extremes
from codegen.ir.nodes import Alloc, Apply, Buf, For, IndexNumber, Number, Predicate, Ref, Store
from einalg.language.index.affine import Index
from einalg.language.index.constraint import Constraint
from einalg.language.index.convert import affine

j = Index("j")
LARGEST, OTHER = Ref(Buf("m", (), "f32", "reg"), ()), Ref(Buf("n", (), "f32", "reg"), ())
ONE = Number(1, "f32")


@given(st.integers(2, 5000), st.sampled_from([1, 2, 4, 8, 16, 32]))
def test_pairs_are_all_elements(count: int, width: int) -> None:
    half = pair_distance(count, width)
    assert half <= count <= 2 * half
    assert half % min(width, half) == 0


def vector_loop(*body: Store | Alloc, count: int = 100) -> For:
    return For(j, affine(3), affine(3 + count), (3, 3 + count), body, "vec")


def test_the_second_of_a_pair_is_the_same_value_at_another_step() -> None:
    index, condition = IndexNumber(affine(j) * 2), Predicate((Constraint(affine(j) - 5, ">="),))
    value = Apply("select", (condition, index, ONE), "f32")
    pairs = loop_over_pairs(vector_loop(Store(LARGEST, "max", value)))
    assert pairs is not None and pairs.loop.extent == 64
    one, two = pairs.values
    assert one == value
    assert str(two).count("j + 31") == 1 and str(two).count("2*j + 72") == 1


def test_loops_that_do_more_have_no_pairs() -> None:
    element = Store(Ref(Buf("A", (9,), "f32"), (affine(j),)), "=", ONE)
    largest = Store(LARGEST, "max", ONE)
    assert loop_over_pairs(vector_loop(element)) is None
    assert loop_over_pairs(vector_loop(Store(LARGEST, "+=", ONE))) is None
    assert loop_over_pairs(vector_loop(largest, element)) is None
    assert loop_over_pairs(vector_loop(largest, count=1)) is None


def test_stores_that_are_one_extreme() -> None:
    first, second = Store(LARGEST, "=", ONE), Store(LARGEST, "max", OTHER)
    assert with_extremes([first, second]) == [ExtremeStore(LARGEST, "max", (ONE, OTHER))]
    for following in (
        Store(LARGEST, "min", OTHER),
        Store(OTHER, "max", ONE),
        Store(LARGEST, "max", Apply("neg", (LARGEST,), "f32")),
        Store(LARGEST, "+=", ONE),
    ):
        statements = [first, second, following]
        assert with_extremes(statements) == [ExtremeStore(LARGEST, "max", (ONE, OTHER)), following]
    assert with_extremes([second, second]) == [second, second]
