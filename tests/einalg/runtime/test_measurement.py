"""The rules that say what recorded times mean: no clock is asked here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einalg.runtime.measurement import (
    CLOCK,
    DEVICE,
    PROCESSOR,
    TRUST,
    Comparison,
    Measurement,
    Turn,
    measurement,
    measurements,
)
from tests.helpers.measurements import exactly

MS = 1e-3
# Turns of the same convolution by one thread, on a quiet machine and beside a loop on its core:
# milliseconds by the clock and of the processor, and how often the core was taken away.
QUIET = [
    *((2.31, 2.30, 0), (2.29, 2.28, 0), (2.30, 2.29, 0), (2.33, 2.32, 0), (2.28, 2.27, 0)),
    *((2.30, 2.30, 0), (2.35, 2.34, 0), (2.29, 2.28, 0), (2.31, 2.31, 0)),
]
LOADED = [
    *((5.12, 2.33, 1), (2.31, 2.30, 0), (5.29, 2.41, 1), (8.24, 2.52, 2), (2.30, 2.29, 0)),
    *((5.31, 2.39, 1), (5.30, 2.37, 1), (2.33, 2.32, 0), (5.28, 2.36, 1)),
]
# Two threads, of which others took cores: the clock, both threads together, and interruptions.
THREADS = [
    *((1.21, 1.20, 1.19, 0), (6.10, 1.60, 1.50, 2), (1.24, 1.22, 1.20, 0), (9.70, 1.90, 1.80, 3)),
    *((1.22, 1.21, 1.20, 0), (5.20, 1.40, 1.30, 1), (1.25, 1.24, 1.20, 0), (1.23, 1.22, 1.20, 0)),
]
# A convolution on two threads, beside six other programs on two cores: some turns have a core taken.
CONVOLUTION_LOADED = [
    *((2.21, 2.21, 0.00, 0), (81.85, 1.84, 8.39, 3), (2.27, 2.27, 0.03, 1), (2.25, 2.25, 0.07, 1)),
    *((2.25, 2.25, 0.00, 0), (13.79, 1.76, 0.58, 1), (15.94, 2.05, 0.48, 1), (2.32, 2.32, 0.0, 0)),
]
# The same where the scheduler prefers it to all others.
CONVOLUTION_QUIET = [
    *((1.45, 1.45, 0.99, 0), (1.41, 1.41, 0.91, 0), (1.39, 1.39, 1.39, 0), (1.36, 1.36, 1.34, 0)),
    *((1.37, 1.38, 1.18, 0), (1.35, 1.35, 1.52, 0), (1.36, 1.36, 0.64, 0), (1.43, 1.43, 0.95, 0)),
]
# A product by a library, beside the same programs: every turn is interrupted.
PRODUCT_LOADED = [
    *((45.16, 5.12, 3.98, 2), (67.11, 6.87, 5.98, 4), (164.99, 12.95, 10.02, 6)),
    *((122.24, 9.73, 12.84, 7), (137.66, 9.49, 10.60, 9), (198.26, 12.94, 15.10, 8)),
]


def one_thread(rows: Sequence[tuple[float, float, int]]) -> list[Turn]:
    return [Turn(clock * MS, own * MS, 0.0, taken) for clock, own, taken in rows]


def two_threads(rows: Sequence[tuple[float, float, float, int]]) -> list[Turn]:
    return [Turn(clock * MS, own * MS, others * MS, taken) for clock, own, others, taken in rows]


def test_one_thread_is_measured_by_its_processor_time() -> None:
    quiet, loaded = measurement(one_thread(QUIET)), measurement(one_thread(LOADED))
    assert quiet.clock == loaded.clock == PROCESSOR
    assert not quiet.busy and loaded.busy
    assert quiet.is_settled and loaded.is_sharp and not loaded.is_settled
    assert loaded.minimum == pytest.approx(quiet.minimum, rel=0.02)


def test_several_threads_are_measured_by_the_clock_of_undisturbed_turns() -> None:
    measured = measurement(two_threads(THREADS))
    assert measured.clock == CLOCK and measured.busy and measured.turns == 5
    assert measured.minimum == pytest.approx(1.21 * MS) and measured.is_sharp
    assert measured.median < 1.25 * MS


@pytest.mark.parametrize("rows", [CONVOLUTION_LOADED, PRODUCT_LOADED])
def test_other_programs_make_it_busy(rows: Sequence[tuple[float, float, float, int]]) -> None:
    assert measurement(two_threads(rows)).busy


@pytest.mark.parametrize("interruptions", [1, 4, 20])
def test_own_threads_that_take_cores_from_each_other_do_not(interruptions: int) -> None:
    """A turn that takes as long as one without an interruption has lost nothing by it."""
    turns = two_threads(CONVOLUTION_QUIET)
    assert not measurement(turns).busy
    exchanged = [replace(turn, interruptions=interruptions) for turn in turns[1::2]]
    assert not measurement([*turns[::2], *exchanged]).busy


@given(st.integers(1, 5), st.floats(1.5, 50.0))
def test_what_turns_lose_decides(disturbed: int, times: float) -> None:
    """A turn that is interrupted, and longer, makes it busy where it is a tenth of the time."""
    turns = two_threads(CONVOLUTION_QUIET)
    longer = [replace(turn, clock=turn.clock * times, interruptions=3) for turn in turns]
    turns[:disturbed] = longer[:disturbed]
    usual = sum(turn.clock for turn in turns[disturbed:]) / (len(turns) - disturbed)
    passed = sum(turn.clock for turn in turns)
    lost = passed - len(turns) * usual
    if lost < 0.05 * passed or lost > 0.15 * passed:
        assert measurement(turns).busy == (lost > 0.1 * passed)


def test_with_few_undisturbed_turns_all_count() -> None:
    turns = [Turn(5 * MS, 2 * MS, 2 * MS, 1)] * 8 + [Turn(2 * MS, 2 * MS, 2 * MS, 0)]
    measured = measurement(turns)
    assert measured.turns == 9 and measured.minimum == 2 * MS and measured.busy
    assert not measured.is_sharp


def test_a_call_that_waits_for_something_is_measured_by_the_clock() -> None:
    """As one does that another thread or a device computes, or that reads a file."""
    measured = measurement([Turn(10 * MS, 0.1 * MS)] * 5)
    assert measured.clock == CLOCK and measured.minimum == 10 * MS and not measured.busy


def test_alternatives_are_compared_by_one_clock() -> None:
    """Other work makes a turn of one thread longer as well, which only the clock shows."""
    alone, together = one_thread(LOADED), two_threads(CONVOLUTION_LOADED)
    assert measurement(alone).clock == PROCESSOR and measurement(together).clock == CLOCK
    one, two = measurements({"one": alone, "two": together}).values()
    assert one.clock == two.clock == CLOCK and two == measurement(together)
    assert one.minimum == min(turn.clock for turn in alone) > measurement(alone).minimum


def test_alternatives_of_one_thread_are_compared_by_its_processor_time() -> None:
    turns = {"quiet": one_thread(QUIET), "loaded": one_thread(LOADED)}
    expected = {name: measurement(recorded) for name, recorded in turns.items()}
    assert measurements(turns) == expected


def test_a_device_has_a_clock_of_its_own() -> None:
    measured = measurement([Turn(2 * MS), Turn(2.1 * MS), Turn(2.2 * MS)])
    assert measured.clock == DEVICE and not measured.busy


@pytest.mark.parametrize("taken", range(TRUST.few_interruptions + 1))
def test_a_few_interruptions_are_by_chance(taken: int) -> None:
    turns = [Turn(0.1 * MS, 0.1 * MS, 0.0, int(number < taken)) for number in range(9)]
    assert not measurement(turns).busy


def test_a_processor_time_is_never_longer_than_what_passed() -> None:
    assert measurement([Turn(1 * MS, 1.2 * MS)] * 3).minimum == 1 * MS


def test_what_ran_beside_a_loop_compares_like_what_ran_alone() -> None:
    """The figure of the loaded machine is that of the quiet one, and says that it was loaded."""
    faster = [(clock * 0.4, own * 0.4, taken) for clock, own, taken in QUIET]
    slowed = [(clock * 0.4, own * 0.4, taken) for clock, own, taken in LOADED]
    quiet = Comparison(measurement(one_thread(faster)), measurement(one_thread(QUIET)))
    loaded = Comparison(measurement(one_thread(slowed)), measurement(one_thread(LOADED)))
    assert quiet.verdict == loaded.verdict == "faster"
    assert str(quiet) == "2.5x (2.5 to 2.5)"
    assert loaded.is_sharp and loaded.ratio == pytest.approx(quiet.ratio, rel=TRUST.max_range)
    assert str(loaded).endswith("the machine is busy") and not str(quiet).endswith("busy")


def between(low: float, quartile: float, turns: int = 9, busy: bool = False) -> Measurement:
    return Measurement(low, quartile, 1.2 * quartile, turns, PROCESSOR, busy)


@pytest.mark.parametrize(
    ("own", "rival", "verdict", "text"),
    [
        (between(1.0, 1.02), between(2.7, 2.8), "faster", "2.7x (2.6 to 2.8)"),
        (between(2.7, 2.8), between(1.0, 1.02), "slower", "0.37x (0.36 to 0.38)"),
        (between(1.0, 1.05), between(1.02, 1.06), "alike", "1.02x (0.97 to 1.06)"),
        (between(1.0, 1.01), between(1.02, 1.03), "alike", "1.02x (1.01 to 1.03)"),
        (between(1.0, 1.3), between(1.1, 1.4), "uncertain", "uncertain: 0.85 to 1.40x"),
        (between(1.0, 1.4), between(2.9, 2.95), "faster", "uncertain: 2.1 to 3.0x"),
        (
            between(1.0, 1.4, busy=True),
            between(2.9, 2.95),
            "faster",
            "the machine is busy: 2.1 to 3.0x",
        ),
        (
            between(1.0, 1.02),
            between(2.7, 2.8, busy=True),
            "faster",
            "2.7x (2.6 to 2.8), the machine is busy",
        ),
        (between(1.0, 1.0, 1), between(2.0, 2.0, 9), "uncertain", "uncertain: about 2.0x"),
    ],
)
def test_what_a_comparison_says(
    own: Measurement, rival: Measurement, verdict: str, text: str
) -> None:
    compared = Comparison(own, rival)
    assert (compared.verdict, str(compared)) == (verdict, text)


TIMES = st.floats(1e-7, 10.0)
TURNS = st.builds(
    Turn,
    TIMES,
    st.one_of(TIMES, st.just(0.0)),
    st.one_of(TIMES, st.just(0.0)),
    st.integers(0, 4),
    st.integers(1, 100),
)
MEASUREMENTS = st.lists(TURNS, min_size=1, max_size=12).map(measurement)


@given(MEASUREMENTS)
def test_every_measurement_is_read_back(measured: Measurement) -> None:
    assert 0 < measured.minimum <= measured.quartile <= measured.median
    row = json.loads(json.dumps(measured.as_record()))
    assert Measurement.from_record(row) == measured


@given(MEASUREMENTS, MEASUREMENTS)
def test_a_verdict_needs_spreads_that_do_not_overlap(own: Measurement, rival: Measurement) -> None:
    compared, reverse = Comparison(own, rival), Comparison(rival, own)
    assert compared.low <= compared.ratio * (1 + 1e-9)
    assert compared.ratio <= compared.high * (1 + 1e-9)
    opposite = {"faster": "slower", "slower": "faster"}
    assert reverse.verdict == opposite.get(compared.verdict, compared.verdict)
    if compared.verdict == "faster":
        assert own.quartile < rival.minimum
    assert compared.busy == (own.busy or rival.busy)
    assert compared.is_sharp == ("(" in str(compared))


@given(MEASUREMENTS, MEASUREMENTS)
def test_a_quiet_figure_takes_the_place_of_a_busy_one(
    first: Measurement, second: Measurement
) -> None:
    merged = first.merged(second)
    assert merged in (first, second)
    assert merged.is_settled == (first.is_settled or second.is_settled)
    if first.is_settled == second.is_settled:
        assert merged.minimum == min(first.minimum, second.minimum)


@pytest.mark.parametrize(
    "row",
    [
        None,
        3,
        [],
        {},
        {**exactly(1.0).as_record(), "minimum": 2.0},
        {**exactly(1.0).as_record(), "median": float("nan")},
        {**exactly(1.0).as_record(), "turns": True},
        {**exactly(1.0).as_record(), "clock": "sun"},
        {**exactly(1.0).as_record(), "busy": 1},
    ],
)
def test_a_foreign_record_is_no_measurement(row: Any) -> None:
    assert Measurement.from_record(row) is None
