"""Mutants differ exactly in their regions, and what corrects them gives every value back."""

from __future__ import annotations

from typing import Any

import islpy as isl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from bench.partial import REGIONS, Region, convolution, phases, side_by_side, tiles
from derive.proof.exact.compare import compare_exactly
from derive.rewriting.moves import Move, apply, moves
from derive.rules import ALL
from derive.rules.partial.mutants import Mutant
from derive.rules.partial.mutations import core_of, mutated, proposed
from derive.rules.partial.partial_substitution import correction
from derive.rules.partial.regions import Blocks, covers_of
from einalg.language.analysis.sizes import allowed_sizes
from einalg.language.ir.program import as_program
from einalg.testing import strategies
from tests.helpers.batches import examples
from tests.helpers.regions import points
from tests.helpers.rule_checks import check_on

RULE = ALL["partial substitution"]


@pytest.mark.parametrize("case", REGIONS, ids=lambda case: case.name)
def test_regions_of_convolutions(case: Region) -> None:
    """Where windows have their halos, nothing differs, and the mutant is equal as it is."""
    scope, mutations = case.expression(), case.mutations
    result = correction(scope, mutations)
    differing = int(result.region.count_val().to_python())
    assert differing / np.prod(scope.shape) == pytest.approx(case.share, abs=1e-12)
    assert bool(result.covers) == (case.share > 0)
    corrected = apply(as_program(scope), Move(RULE.name, ("O",), {"mutations": mutations}), ALL)
    assert ea.prove(scope, corrected).verdict == "proved"
    if not result.covers:
        assert ea.prove(scope, mutated(scope, mutations)).verdict == "proved"


def test_a_halo_that_is_one_point_too_small_is_seen() -> None:
    scope = convolution((4, 2, 9, 9), 2, 5)
    assert correction(scope, side_by_side(2, 11)).covers == ()
    assert correction(scope, side_by_side(2, 10)).covers


def mask_of(region: Any, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return which points of an output are in a set."""
    mask = np.zeros(shape, bool)
    for point in points(region):
        mask[point] = True
    return mask


@st.composite
def window_expressions(draw: st.DrawFn, has_sizes: bool = False) -> Any:
    """Draw convolutions and pooling of all strides, dilations, paddings and sizes; convolutions of
    symbolic numbers of channels, filters and some images if that is asked for.
    """
    images, channels, filters = draw(st.integers(1, 4)), draw(st.integers(1, 2)), 2
    if has_sizes:
        images, channels, filters = draw(st.sampled_from(["N", images])), "C", "F"
    axes, subscripts, pads, shape, kernel, sizes = [], [], [], [], [], {}
    for axis, tap in (("h", "r"), ("w", "s"))[: draw(st.integers(1, 2))]:
        extent, taps = draw(st.integers(2, 8)), draw(st.integers(1, 3))
        stride, dilation = draw(st.integers(1, 2)), draw(st.integers(1, 3))
        before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        needed = (taps - 1) * dilation + 1
        points = (extent + before + after - needed) // stride + 1
        if points < 1:
            extent, points = extent + needed, (extent + before + after) // stride + 1
        axes.append(f"{axis}:{points}")
        subscripts.append(f"{stride}*{axis}+{dilation}*{tap}-{before}")
        pads.append(f"({before},{after})")
        shape.append(extent)
        kernel.append(taps)
        sizes[tap] = taps
    view = f"A.pad(0,0,{','.join(pads)})[n,c,{','.join(subscripts)}]"
    taps = ",".join(f"{name}:{size}" for name, size in sizes.items())
    if has_sizes or draw(st.booleans()):
        text = f"O[n,f,{','.join(axes)}] = Sum[c,{taps}]({view}*K[f,c,{','.join(sizes)}])"
        return ea.parse(text, A=(images, channels, *shape), K=(filters, channels, *kernel))
    text = f"O[n,c,{','.join(axes)}] = Max[{taps}]({view})"
    return ea.parse(text, A=(images, channels, *shape))


def values(program: Any, seed: int) -> Any:
    """Return the value of a program on random whole numbers that depend on a seed."""
    rng = np.random.default_rng(seed)
    inputs = sorted(program.inputs.items())
    arrays = {name: rng.integers(-30, 30, tensor.shape) for name, tensor in inputs}
    return np.asarray(ea.evaluate(program, **arrays))


@settings(max_examples=examples(12, at_night=250))
@given(scope=window_expressions(), data=st.data())
def test_random_mutants_differ_in_their_regions_and_nowhere_else(scope: Any, data: Any) -> None:
    mutants = ea.mutants(scope, factors=data.draw(st.sampled_from([(2,), (3,), (2, 5)])))
    if not mutants:
        return
    mutant: Mutant = data.draw(st.sampled_from(mutants))
    assert set(mutant.program.inputs) == set(mutant.original.inputs)
    region = mask_of(mutant.region, scope.shape)
    differs = np.zeros(scope.shape, bool)
    for seed in range(6):
        differs |= values(mutant.original, seed) != values(mutant.program, seed)
    assert not (differs & ~region).any()
    assert mutant.share == region.mean()
    if "Sum" in str(scope):
        assert (differs == region).all()


@settings(max_examples=6)
@given(scope=window_expressions(has_sizes=True), data=st.data())
def test_random_mutants_differ_in_their_regions_at_all_sizes(scope: Any, data: Any) -> None:
    mutants = ea.mutants(scope, factors=(2, 3))
    if not mutants:
        return
    mutant: Mutant = data.draw(st.sampled_from(mutants))
    sizes = {name: data.draw(st.integers(1, 4)) for name in mutant.original.sizes}
    original, program = mutant.original.at(**sizes), mutant.program.at(**sizes)
    region = mask_of(_at_sizes(mutant.region, **sizes), original["O"].shape)
    differs = np.zeros(original["O"].shape, bool)
    for seed in range(3):
        differs |= values(original, seed) != values(program, seed)
    assert (differs == region).all()
    if mutant.is_equal:
        assert mutant.corrected() == mutant.program


@settings(max_examples=10)
@given(data=st.data())
def test_random_mutants_of_a_group_differ_in_their_regions_and_nowhere_else(data: Any) -> None:
    """Where one of two sums is computed otherwise, the other one spreads what differs."""
    height, taps = data.draw(st.integers(6, 12)), data.draw(st.sampled_from([3, 5]))
    pad, dilation = taps // 2, data.draw(st.integers(1, 2))
    text = (
        f"T[h:{height}] = Sum[r:{taps}](A.pad({pad})[h+r-{pad}]*K[r])\n"
        f"O[h:{height}] = Sum[s:3](T.pad({dilation})[h+{dilation}*s-{dilation}]*L[s])"
    )
    mutants = ea.mutants(text, factors=(2, 3), A=(height,), K=(taps,), L=(3,))
    mutant: Mutant = data.draw(st.sampled_from(mutants))
    region = mask_of(mutant.region, (height,))
    differs = np.zeros(height, bool)
    for seed in range(4):
        differs |= values(mutant.original, seed) != values(mutant.program, seed)
    assert not (differs & ~region).any()
    assert (differs == region).all() or not mutant.is_region_exact
    corrected = mutant.corrected()
    assert (values(corrected, 9) == values(mutant.original, 9)).all()
    assert ea.prove(mutant.original, corrected).verdict == "proved"


@settings(max_examples=examples(12, at_night=250))
@given(scope=window_expressions(), data=st.data())
def test_random_corrections_give_every_value_back(scope: Any, data: Any) -> None:
    mutations: list[Any] = []
    for _ in range(data.draw(st.integers(1, 2))):
        offered = list(proposed(core_of(scope, mutations), (2, 3)))
        if offered:
            mutations.append(data.draw(st.sampled_from(offered)))
    program = as_program(scope)
    try:
        corrected = apply(program, Move(RULE.name, ("O",), {"mutations": mutations}), ALL)
    except ea.RuleError as error:
        assert "all over" in str(error) or "too many parts" in str(error)
        return
    for seed in range(2):
        assert (values(program, seed) == values(corrected, seed)).all()
    assert ea.prove(program, corrected).verdict == "proved"


def test_random_expressions_keep_every_value() -> None:
    check_on(RULE, 15, strategies.scopes, min_moves=1)


def test_covers_of_a_cross_are_whole_rows_and_columns() -> None:
    covers = correction(convolution((1, 8, 14, 14), 4, 3, 2), phases(2, 7)).covers
    cross = [tuple(blocks.points for blocks in cover[2:]) for cover in covers]
    assert sorted(cross) == [(2, 14), (14, 2)]


def test_an_equal_mutant_is_its_own_correction() -> None:
    blur = ea.parse("O[i] += A.pad(1)[i+r-1]*K[r]", A=(12,), K=(3,))
    for mutant in ea.mutants(blur, factors=(2, 3, 5)):
        corrected = mutant.corrected()
        assert (corrected == mutant.program) == mutant.is_equal
        assert ea.prove(blur, corrected).verdict == "proved"


def test_a_function_of_a_correction_is_proved() -> None:
    """Its argument is 0 at rows that read padding alone, which the mutant says in other words."""
    text = (
        "T[f,h:7,w:8] = Sum[c:3,r:2,s:5]"
        "(A.pad(0,(0,4),(3,4))[3*f+c,2*h+r,w+s-3]*K[f,c,r,s])\n"
        "O[f,h,w] = Max(T[f,h,w], 0)"
    )
    mutation = {"kind": "subscript", "read": 0, "axis": 2, "index": "s", "coefficient": 0}
    move = Move(RULE.name, ("T",), {"mutations": [{**mutation, "shift": 2}]})
    program = ea.parse(text, A=(9, 11, 5), K=(3, 3, 2, 5))
    assert ea.prove(program, apply(as_program(program), move, ALL)).verdict == "proved"


def test_mutants_of_several_outputs_say_where_each_differs() -> None:
    text = "T[i] += A.pad(1)[i+r-1]*K[r]\nO[i] = Max(T[i], 0)\nP[i] = T[i] + A[i]"
    cut = [m for m in ea.mutants(text, A=(12,), K=(3,)) if not m.is_equal]
    regions = {name: str(region) for name, region in cut[0].regions.items()}
    assert regions == {"O": "{ [i] : 5 <= i <= 6 }", "P": "{ [i] : 5 <= i <= 6 }"}
    assert ea.prove(ea.parse(text, A=(12,), K=(3,)), cut[0].corrected()).verdict == "proved"


def test_a_region_along_a_diagonal_is_covered_by_slices() -> None:
    scope = ea.parse("O[n,h] = Sum[r:3](A.pad(0,1)[n,h+r-1])", A=(3, 2))
    abut = {"kind": "abut", "index": "n", "into": "h", "parts": 3}
    corrected = correction(scope, [abut])
    assert corrected.share == pytest.approx(4 / 6)
    after = apply(as_program(scope), Move(RULE.name, ("O",), {"mutations": [abut]}), ALL)
    assert ea.prove(scope, after).verdict == "proved"


def test_covers_hold_blocks_that_repeat() -> None:
    mutants = ea.mutants("O[i] += A.pad(1)[i+r-1]*K[r]", A=(12,), K=(3,), factors=(4,))
    assert covers_of(mutants[-1].region, (12,)) == [(Blocks(2, 3, 3, 2),)]


def test_the_text_of_a_region_says_rows_and_columns_without_quotients() -> None:
    mutants = ea.mutants(convolution((1, 2, 14, 14), 2, 3, 2), depth=2)
    crosses = [m for m in mutants if [x.get("pitch") for x in m.mutations] == [7, 7]]
    assert "w = 12]" in str(crosses[0].region)
    assert not any("exists" in str(cross.region) for cross in crosses)


REFUSED = [
    ([{"kind": "turn", "index": "h"}], "no mutation 'turn'"),
    (tiles("z", 2), "no index z"),
    (tiles("h", 99), "tiles have fewer"),
    ([{"kind": "tile"}], "cannot be applied"),
    (side_by_side(9, 14), "are joined"),
    (phases(2, 1), "of its phases"),
    (
        [{"kind": "subscript", "read": 7, "axis": 0, "index": "r", "coefficient": 1, "shift": 0}],
        "7",
    ),
]


@pytest.mark.parametrize(("mutations", "message"), REFUSED)
def test_mutations_that_there_are_not(mutations: list[Any], message: str) -> None:
    program = as_program(convolution((4, 2, 9, 9), 2, 3))
    with pytest.raises(ea.RuleError, match=message):
        apply(program, Move(RULE.name, ("O",), {"mutations": mutations}), ALL)


def test_what_differs_everywhere_is_neither_listed_nor_substituted() -> None:
    scope = ea.parse("O[i:6] += A[i+r]*K[r]", A=(8,), K=(3,))
    other = {"kind": "subscript", "read": 0, "axis": 0, "index": "r", "coefficient": 0, "shift": 1}
    assert all(mutant.share < 1 for mutant in ea.mutants(scope))
    with pytest.raises(ea.RuleError, match="differs at every point"):
        apply(as_program(scope), Move(RULE.name, ("O",), {"mutations": [other]}), ALL)


def test_what_has_gaps_is_not_arranged() -> None:
    scope = ea.parse(
        "O[n:2,h:8] = Sum[r:3]((L[r:3,n:2,t:-1:9](A.pad(0,1)[n,t], where=(t+1>=r, r+6>=t)))"
        "[r,n,h+r-1])",
        A=(2, 8),
    )
    assert {mutation["kind"] for mutation in proposed(scope, (2, 3))} == {"subscript"}
    assert all(mutant.share < 1 for mutant in ea.mutants(scope))


SIZED = "O[n:N,f,h:H] = Sum[c,r:3](A.pad(0,0,1)[n,c,h+r-1]*K[f,c,r])"


@pytest.mark.parametrize("parts", [2, 3])
def test_neighbours_of_any_size_differ_at_their_border(parts: int) -> None:
    shapes = {"A": ("N", 2, "H"), "K": (3, 2, 3)}
    mutants = ea.mutants(SIZED, factors=(parts,), **shapes)
    assert [mutant.mutations[0]["kind"] for mutant in mutants] == ["abut"]
    assert mutants[0].share is None and mutants[0].is_region_exact
    with pytest.raises(ea.RuleError, match="numbers for"):
        mutants[0].corrected()
    program = mutants[0].original
    for images, height in ((4, 5), (7, 4), (1, 4), (5, 6)):
        sized = program.at(N=images, H=height)
        move = mutants[0].move
        region = mask_of(_at_sizes(mutants[0].region, N=images, H=height), (images, 3, height))
        differs = np.zeros((images, 3, height), bool)
        for seed in range(4):
            after = mutants[0].program.at(N=images, H=height)
            differs |= values(sized, seed) != values(after, seed)
        assert (differs == region).all()
        corrected = apply(sized, move, ALL)
        assert ea.prove(sized, corrected).verdict == "proved"


def _at_sizes(region: Any, **sizes: int) -> Any:
    """Return a region with numbers in the places of its sizes."""
    for name, number in sizes.items():
        place = region.find_dim_by_name(isl.dim_type.param, name)
        if place >= 0:
            region = region.fix_val(isl.dim_type.param, place, isl.Val(number))
    return region.project_out(isl.dim_type.param, 0, region.dim(isl.dim_type.param))


@pytest.mark.parametrize("case", REGIONS, ids=lambda case: case.name)
def test_regions_of_convolutions_of_all_sizes(case: Region) -> None:
    scope = case.of_all_sizes()
    assert {"C", "F"} <= scope.sizes.keys()
    comparison = compare_exactly(scope, mutated(scope, case.mutations), allowed_sizes(scope))
    numbers = dict(zip("NC", case.shape), F=case.filters)
    assert comparison.region is not None
    at_numbers = _at_sizes(comparison.region, **numbers)
    assert at_numbers == correction(case.expression(), case.mutations).region


def test_axes_of_symbolic_sizes_are_not_arranged() -> None:
    scope = ea.parse("O[n:4,h:H] = Sum[r:3](A.pad(0,1)[n,h+r-1])", A=(4, "H"))
    for mutation in (*tiles("h", 2), {**side_by_side(2, 9)[0], "into": "h"}, phases(2, 9)[0]):
        with pytest.raises(ea.RuleError, match="the range of h has no numbers, but 0 to H"):
            mutated(scope, [mutation])


@pytest.mark.parametrize("extent", ["(W+1)//2", "W//2", "(W-2)//3"])
def test_mutants_of_steps_over_axes_of_symbolic_sizes(extent: str) -> None:
    text = f"O[n:N, w:{extent}] = Sum[k:3](A.pad(0,4)[n, 2*w+k-1]*K[k])"
    shapes = {"A": ("N", ea.size("W", at_least=2)), "K": (3,)}
    (mutant,) = ea.mutants(text, **shapes)
    numbers = {"N": 4, "W": 11}
    before, after = mutant.original.at(**numbers), mutant.program.at(**numbers)
    assert ea.prove(before, after).region == _at_sizes(mutant.regions["O"], **numbers)


@pytest.mark.parametrize("dilation", [2, 3, 5])
def test_phases_of_a_dilation_are_proposed(dilation: int) -> None:
    offered = list(moves(as_program(convolution((1, 2, 15, 4), 2, 3, dilation)), [RULE]))
    phases = {move.args["mutations"][0].get("phases") for move in offered}
    assert dilation in phases


def test_a_session_offers_mutants() -> None:
    session = ea.Session(ea.parse("O[h] += A.pad(1)[h+r-1]*K[r]", A=(8,), K=(3,)))
    offered = list(moves(session.expr, [RULE]))
    assert [move.args["mutations"][0]["halo"] for move in offered] == [False, True]
    assert offered[0] in [numbered.move for numbered in session.moves("partial substitution")]
