"""What is counted of kernels, and how near their times come to the roof of a machine."""

from __future__ import annotations

import sys
from itertools import product

import pytest
import sympy
from hypothesis import assume, given

import einalg as ea
from derive.cost.model import Roofline, traffic
from derive.cost.roofline_table import (
    ABOVE,
    ESTIMATED,
    MAX_TEXT_ROWS,
    NONE,
    Roof,
    RooflineRow,
    RooflineTable,
)
from derive.cost.work import Work, flops, total_work, work_of_each_run
from einalg.language.ir.traversal import accesses
from einalg.testing import strategies
from einalg.text import terminal

ROOF = Roof(peak=1e11, bandwidth=2e10, is_measured=True)


@pytest.mark.parametrize(
    "text, shapes, count",
    [
        ("O[i,j] += A[i,k]*B[k,j]", dict(A=(3, 5), B=(5, 7)), 2 * 3 * 5 * 7),
        ("O[i,j] = A[j,i]", dict(A=(3, 5)), 0),
        ("O[i] = A[i] - B[i]", dict(A=(4,), B=(4,)), 4),
        ("O[i] = -A[i]", dict(A=(4,)), 0),
        ("O[i] = A[i]*B[i]/C[i]", dict(A=(4,), B=(4,), C=(4,)), 8),
        ("O[i] = 1/(A[i]*B[i])", dict(A=(4,), B=(4,)), 8),
        ("O[i] = A[i] + B[i] + C[i]", dict(A=(4,), B=(4,), C=(4,)), 8),
        ("O[i] = Max(A[i], 0)", dict(A=(4,)), 4),
        ("O[i] = exp(A[i])*i", dict(A=(4,)), 8),
        ("O[i] = Piecewise((A[i], A[i] > 0), (0, True))", dict(A=(4,)), 4),
        ("O[i] = Piecewise((A[i], i < 2), (0, True))", dict(A=(4,)), 0),
        ("O[i:8] = Sum[j:8](A[i,j]*B[j], where=j<=i)", dict(A=(8, 8), B=(8,)), 72),
        ("O[i] = Max[j](A[i,j] + Sum[k](B[j,k]))", dict(A=(2, 3), B=(3, 5)), 2 * 3 * (5 + 1 + 1)),
    ],
)
def test_an_operation_on_data_counts_once(text, shapes, count):
    assert flops(ea.parse(text, **shapes)) == count


def points(iterators, where, outer):
    """Every point of some iterators, one by one, where the conditions hold."""
    for values in product(*(range(it.low, it.high) for it in iterators)):
        env = {**outer, **dict(zip((it.index for it in iterators), values))}
        if all(condition.holds(env) for condition in where):
            yield env


def counted(body, env):
    """The additions and multiplications of a sum of products at one point, by walking it."""
    if not list(accesses(body)):
        return 0
    if isinstance(body, ea.Reduce):
        inner = points(body.iterators, body.where, env)
        return sum(counted(body.body, point) + 1 for point in inner)
    operands = [operand for operand in body.args if operand != -1]
    if isinstance(body, (sympy.Add, sympy.Mul)):
        return len(operands) - 1 + sum(counted(operand, env) for operand in operands)
    return 0


@given(strategies.scopes(nested=False, reductions=("Sum", "Prod"), max_indices=3))
def test_the_count_is_that_of_enumeration(scope):
    assume(not scope.body.has(sympy.Pow))
    expected = sum(counted(scope.body, point) for point in points(scope.iterators, scope.where, {}))
    assert flops(scope) == expected


def test_weights_are_no_work_of_a_call():
    weight = ea.tensor("K", (3, 3), role="weight")
    d = ea.derive("O[i] = A[i] + 2*Sum[j](K[i,j])", A=(3,), K=weight, measure=False, states=3)
    for candidate in d.candidates:
        works = work_of_each_run(candidate.kernels)
        assert len(works) == len(candidate.kernels)
        for kernel, work in zip(candidate.kernels, works):
            is_free = kernel.output not in candidate.program.outputs
            is_free = is_free and set(kernel.inputs) == {"K"}
            assert (work == Work(0, 0)) == is_free
            if not is_free:
                assert work == Work(flops(kernel.scope), traffic(kernel.scope))


def row(works, seconds, is_measured=True, number=0):
    return RooflineRow(number, "matmul", tuple(works), seconds, is_measured, ROOF)


def test_kernels_run_one_after_the_other():
    """One is bound by arithmetic, the other by memory: no time is shared."""
    heavy, light = Work(10_000_000, 200_000), Work(100_000, 1_000_000)
    both = row([heavy, light], 2e-4)
    assert both.work == total_work([heavy, light]) == Work(10_100_000, 1_200_000)
    assert both.least_seconds == pytest.approx(1e-4 + 5e-5)
    assert both.attainable == pytest.approx(10_100_000 / 1.5e-4)
    assert both.reached == pytest.approx(10_100_000 / 2e-4) and both.share == pytest.approx(0.75)
    assert both.bound == "arithmetic" and row([light], 1e-4).bound == "memory"
    assert row([light], 1e-4).attainable <= min(ROOF.peak, ROOF.bandwidth * light.intensity)


def test_an_estimate_reaches_nothing():
    guess = row([Work(1000, 1000)], 1e-6, is_measured=False)
    assert guess.reached is None and guess.share is None
    table = RooflineTable([guess], ROOF)
    (cells,) = table.cells()
    assert cells[5:7] == (NONE, NONE) and cells[-1] == "~0.001" and ESTIMATED in table.remarks()
    assert ESTIMATED not in RooflineTable([row([Work(1000, 1000)], 1e-3)], ROOF).remarks()


def test_copies_and_nothing_at_all_have_a_row():
    copy, nothing = row([Work(0, 4000)], 1e-6), row([], 0.0)
    assert copy.work.intensity == 0 and copy.attainable == 0 and copy.bound == "memory"
    assert nothing.bound == "nothing" and "0" in str(RooflineTable([copy, nothing], ROOF))


def test_faster_than_memory_is_explained():
    table = RooflineTable([row([Work(0, 4_000_000)], 1e-5)], ROOF)
    assert table.rows[0].share > 1 and ABOVE in table.remarks()


def test_the_text_fits_a_terminal_and_says_where_rates_are_from():
    rows = [row([Work(k * 10**k, 10**k)], 1e-5, k % 2 == 0, k) for k in range(MAX_TEXT_ROWS + 3)]
    text = str(RooflineTable(rows, ROOF))
    assert max(map(len, text.splitlines())) <= terminal.COLUMNS and "and 3 more" in text
    assert len(text.splitlines()) <= 24
    assert "measured on this machine" in text and "100 GFLOP/s, 20.0 GB/s" in text
    assert Roof.of(None).is_measured is False and "not measured" in str(Roof.of(None))
    rates = Roofline(library=1.0, generated=3.0, bandwidth=2.0, call=1.0)
    assert Roof.of(rates) == Roof(3.0, 2.0, True)


def test_every_candidate_has_a_row():
    d = ea.derive("O[h] += A.pad(2)[h+r-2]*K[r]", A=(9,), K=(5,), states=10, measure=False)
    table = d.roofline()
    assert [r.number for r in table.rows] == list(range(len(d.candidates)))
    assert [r.seconds for r in table.rows] == [c.cost for c in d.candidates]
    assert not table.roof.is_measured
    chosen = d.roofline(d.candidates[1:2])
    assert [r.number for r in chosen.rows] == [1] and chosen.rows[0].work == table.rows[1].work


def test_lines_are_broken_for_terminals_alone(monkeypatch):
    long = "word " * 30
    assert terminal.fitted(long) == long
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    assert max(map(len, terminal.fitted(long).splitlines())) <= 40
