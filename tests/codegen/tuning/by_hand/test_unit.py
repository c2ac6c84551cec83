"""Steps by hand: what is possible is applied, what is not is refused in words, and any sequence of
steps computes the statement.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codegen.hardware.cpu import CpuModel, machine
from codegen.ir.nodes import Function
from codegen.tuning.by_hand.choices import ScheduleChoice, ScheduleChoices
from codegen.tuning.by_hand.moves import ScheduleMove, move_from_record
from codegen.tuning.by_hand.unit import ScheduledUnit, applied, possible_moves
from codegen.tuning.spaces.holes import UNKNOWN
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.spaces.unit_spaces import OPERATOR_SPACES, SPACE_CARDS, starts, unit_spaces
from derive.matching import match
from einalg.errors import RuleError
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import as_program
from einalg.testing import strategies
from tests.helpers.batches import batches
from tests.helpers.contractions import UNSHRUNK
from tests.helpers.kernels import agrees, evaluated, quick_compiler, run_functions
from tests.helpers.random_programs import SLOW
from tests.helpers.units import KINDS, unit_of

TARGETS = [CpuModel(32, 16), CpuModel(64, 32, cores=2, turns=2)]
BATCH, STEPS = 12, 4


def scheduled(unit: CodeUnit, target: CpuModel | None = None) -> ScheduledUnit:
    firsts = tuple(starts(unit, target or machine()))
    return ScheduledUnit((unit.name,), unit, firsts, firsts[0])


def with_random_steps(unit: ScheduledUnit, rng: Random, steps: int = STEPS) -> ScheduledUnit:
    for _ in range(steps):
        possible = list(possible_moves(unit))
        if possible:
            unit = applied(unit, rng.choice(possible).move)
    return unit


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("target", TARGETS, ids=str)
def test_every_number_has_a_card(kind: str, target: CpuModel) -> None:
    for space in unit_spaces(unit_of(kind), target):
        for hole in space.holes(space.start()):
            assert hole.card != UNKNOWN and hole.choices
            assert SPACE_CARDS[space.name][hole.name] == hole.card


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_possible_or_refused_in_words(kind: str) -> None:
    """What is listed is applied as it says; any other choice says why not, and a remedy."""
    for first in scheduled(unit_of(kind), TARGETS[0]).starts:
        unit = scheduled(unit_of(kind), TARGETS[0]).with_candidate(first)
        listed = {(p.move.part, p.move.values) for p in possible_moves(unit)}
        for hole in first.space.holes(first.point):
            for value in hole.choices:
                values = ((hole.name, value),)
                if value == hole.value or first.space.name == "loops":  # which are slow to write
                    continue
                move = ScheduleMove(unit.name, None, values, hole.part)
                assert move_from_record(move.as_record()) == move
                if (hole.part, values) in listed:
                    (after,) = [
                        other
                        for other in first.space.holes(
                            first.space.with_values(first.point, dict(values), hole.part)
                        )
                        if (other.name, other.part) == (hole.name, hole.part)
                    ]
                    assert after.value == value
                else:
                    with pytest.raises(RuleError, match=r"is not possible: .+\n  .+"):
                        applied(unit, move)


@pytest.mark.parametrize(
    "kind, values, reason",
    [
        ("matmul", {"rows": 12, "vectors": 4}, "needs 52 registers, and 14 are free"),
        ("matmul", {"lanes": 7}, "lanes is 8 here"),
        ("matmul", {"rows": "6"}, "rows is a whole number"),
        ("matmul", {"rows": True}, "rows is of type int"),
        ("matmul", {"pack_left": 1}, "pack_left is True or False"),
        ("matmul", {"row": 6}, "there is no number row: the code has lanes, rows"),
        ("matmul", {"rows": 0}, "rows is from 1 to 16 here"),
        ("conv2d", {"filters": 3, "vectors": 16}, "registers, and 11 are free"),
        (
            "depthwise",
            {"positions": 7, "taps": 3, "vectors": 3},
            "a tile of 24 channels is wider than all 8",
        ),
        ("band", {"rows": 8, "vectors": 4}, "needs 36 registers, and 15 are free"),
        ("banded", {"vectors": 16}, "registers, and 15 are free"),
        ("order", {"size": 3}, "squares have 2, 4 or 8 rows here"),
    ],
)
def test_what_is_not_possible_is_said_in_words(
    kind: str, values: dict[str, Any], reason: str
) -> None:
    unit = scheduled(unit_of(kind), TARGETS[0])
    space = None
    if kind in OPERATOR_SPACES:
        space = kind
    with pytest.raises(RuleError, match=reason):
        applied(unit, ScheduleMove(unit.name, space, tuple(values.items())))


def test_what_follows_from_a_number_changes_with_it() -> None:
    """Rows that are packed, here those of an image, are walked as one."""
    unit = scheduled(unit_of("transposed"), TARGETS[0])
    name = unit.candidate.space.name
    assert name == "phases"
    moved = applied(unit, ScheduleMove(unit.name, None, (("order", 0), ("pack_left", True))))
    for before, part in zip(unit.candidate.point.parts, moved.candidate.point.parts, strict=True):
        assert (before.pack_left, before.row_axes) == (False, 1)
        assert (part.pack_left, part.row_axes) == (True, 2)


def test_other_kinds_of_code() -> None:
    unit = scheduled(unit_of("matmul"), TARGETS[0])
    loops = applied(unit, ScheduleMove("O", "loops", (("row", 16),)))
    assert loops.candidate.space.name == "loops" and loops.candidate.point.row == 16
    with pytest.raises(RuleError, match="cannot be written as 'stencil'"):
        applied(unit, ScheduleMove("O", "stencil"))


def test_choices_are_shown_number_by_number() -> None:
    unit = scheduled(unit_of("matmul"), TARGETS[0])
    choices = ScheduleChoices()
    for number, possible in enumerate(possible_moves(unit)):
        choices.append(ScheduleChoice(number, possible, unit))
    shown = str(choices)
    assert "O: contraction (kind): writes the kernel as another kind of code" in shown
    assert "(tile): rows of the tile of sums in registers; if the sums" in shown
    first = choices[0]
    assert (first.name, first.value, first.condition) == ("kind", "loops", "none")
    assert first.after.space.name == "loops" and first.cycles > 0
    assert sum(len(row.choices) for row in choices.by_number()) == len(choices)
    assert str(ScheduleChoices()) == "no step is possible"


@pytest.mark.parametrize("broken", [[1], {}, {"kernel": "O"}, None])
def test_a_broken_record_is_no_step(broken: Any) -> None:
    with pytest.raises(ValueError, match="a step"):
        move_from_record(broken)
    row = ScheduleMove("O").as_record()
    with pytest.raises(ValueError, match="another type"):
        move_from_record({**row, "part": "0"})


@st.composite
def statements(draw: Any) -> Any:
    """Return a random statement as a unit with arrays: of any kind, or one that has code of an
    operator.
    """
    if draw(st.booleans()):
        sizes = [draw(st.integers(0, 9)) for _ in range(3)]
        unit = unit_of(draw(st.sampled_from(KINDS)), *sizes)
        program = as_program(unit.scope)
    else:
        program = draw(strategies.programs(max_statements=1, nested=False, functions=True))
        ((name, scope),) = program.statements
        kernel = match(scope, name) or Kernel(EOP, {}, tuple(scope.tensors), name)
        unit = CodeUnit(kernel, scope)
    return unit, program, draw(strategies.arrays_for(program))


@settings(max_examples=batches(1), phases=UNSHRUNK, suppress_health_check=SLOW)
@given(st.lists(statements(), min_size=BATCH, max_size=BATCH), st.integers(0, 1 << 30))
def test_any_steps_compute_the_statement(cases: Any, seed: int) -> None:
    rng = Random(seed)
    functions: list[Function] = []
    for unit, _, _ in cases:
        functions.append(with_random_steps(scheduled(unit), rng).candidate.build())
    arrays = [given_arrays for _, _, given_arrays in cases]
    results = run_functions(functions, arrays, cc=quick_compiler())
    for (_, program, given_arrays), result in zip(cases, results):
        ((name, expected),) = evaluated(program, given_arrays).items()
        assert agrees(result, expected, program[name].dtype), str(program)
