"""Costs: weights-only statements are free, kernels are measured once and kept on disk, whatever is
found there.
"""

from __future__ import annotations

import json
import logging
import math
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import einalg as ea
from codegen.measure.calibration import identity, rates
from derive.cost.model import (
    COSTS,
    MeasuredCostModel,
    Roofline,
    arithmetic,
    calibrated,
    constant_outputs,
    operations,
    total,
)
from derive.matching import kernels_of
from derive.results.candidates import Candidate
from derive.results.selection import SELECTION, KernelCosts, most_promising
from einalg.errors import CodegenError
from einalg.language.ir.program import as_program
from einalg.runtime import clock
from einalg.runtime.clock import OutOfTime
from einalg.runtime.measurement import Measurement
from einalg.storage.disk_cache import DiskCache
from tests.helpers.measurements import exactly

MODEL = Roofline(library=1e9, generated=1e8, bandwidth=1e9, call=1e-3)


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


class Clock:
    """A backend whose kernels take as long as it says."""

    def __init__(self, seconds=0.5, error=None, name="here", rates=None, busy=False):
        self.taken, self.error, self.name, self.told, self.asked = seconds, error, name, rates, []
        self.busy = busy

    def kernel_timers(self, kernels):
        return [partial(self.timed, kernel) for kernel in kernels]

    def timed(self, kernel):
        self.asked.append(kernel)
        if self.error:
            raise self.error
        return exactly(self.taken, self.busy)

    def rates(self):
        self.asked.append("rates")
        return self.told

    def identity(self):
        return self.name


def kernels(text, **shapes):
    return kernels_of(
        ea.Program(p.statements)
        if isinstance(p := ea.parse(text, **shapes), ea.Program)
        else ea.Program([("O", p)])
    )


def one(text="O[i] = A[i]+1", **shapes):
    return kernels(text, **(shapes or dict(A=(4,))))[0]


FOLDED = "W[i,j] = 2*K[i,j]\nV[i,j] = W[j,i]+1\nU[i,j] = V[i,j]*B[j]\nO[i,j] = U[i,j]+A[j]"


def test_what_depends_on_weights_alone_costs_nothing():
    free = kernels(FOLDED, A=(3,), B=(3,), K=ea.tensor("K", (3, 3), role="weight"))
    paid = kernels(FOLDED, A=(3,), B=(3,), K=(3, 3))
    assert constant_outputs(free) == {"W", "V"} and not constant_outputs(paid)
    assert total(MODEL, paid) == pytest.approx(2 * total(MODEL, free), rel=1e-2)


def test_a_result_is_never_done_once():
    weight = ea.tensor("K", (3,), role="weight")
    assert not constant_outputs(kernels("O[i] = 2*K[i]", K=weight))


def test_each_kernel_is_measured_once_whatever_its_names():
    clock = Clock()
    model = MeasuredCostModel(MODEL, clock)
    assert model.seconds(one()) == model.seconds(one("O[j] = B[j]+1", B=(4,))) == 0.5
    assert len(clock.asked) == 1
    for other in (
        one(A=(5,)),
        one("O[i] = A[i]+2", A=(4,)),
        one(A=ea.tensor("A", (4,), "f64")),
        replace(one(), op="other"),
    ):
        model.seconds(other)
    assert len(clock.asked) == 5


def test_measured_seconds_are_kept_on_disk():
    first, elsewhere = Clock(0.25), Clock(name="there")
    assert (
        MeasuredCostModel(MODEL, first).seconds(one())
        == MeasuredCostModel(MODEL, Clock(), retry_seconds=0).seconds(one())
        == 0.25
    )
    assert MeasuredCostModel(MODEL, elsewhere).seconds(one()) == 0.5
    assert MeasuredCostModel(MODEL, Clock(), cache=None).seconds(one()) == 0.5


def test_a_figure_of_a_busy_moment_does_not_stay():
    """The next processes measure again until the machine is quiet, and that figure stays."""
    seconds, looks = [], []
    for taken, busy in ((0.75, True), (0.25, True), (0.5, True), (0.3, False), (0.1, False)):
        clock = Clock(taken, busy=busy)
        model = MeasuredCostModel(MODEL, clock)
        seconds.append(model.seconds(one()))
        assert model.seconds(one()) == seconds[-1]
        looks.append(len(clock.asked))
    assert seconds == [0.75, 0.25, 0.25, 0.3, 0.3] and looks == [1, 1, 1, 1, 0]


def test_a_process_on_a_busy_machine_leaves_marked_figures_to_the_next_one():
    for text in ("O[i] = A[i]+1", "O[i] = A[i]*2"):
        MeasuredCostModel(MODEL, Clock(0.25, busy=True)).seconds(one(text))
    busy = Clock(0.5, busy=True)
    model = MeasuredCostModel(MODEL, busy)
    assert model.seconds(one()) == model.seconds(one("O[i] = A[i]*2")) == 0.25
    assert len(busy.asked) == 1
    quiet = Clock(0.5)
    model = MeasuredCostModel(MODEL, quiet)
    assert model.seconds(one()) == model.seconds(one("O[i] = A[i]*2")) == 0.5
    assert len(quiet.asked) == 2


def test_times_that_differ_on_a_quiet_machine_are_measured_some_times():
    looks = []
    for _ in range(5):
        clock = Clock()
        clock.kernel_timers = lambda kernels, clock=clock: [
            lambda: clock.asked.append(1) or Measurement(0.1, 0.4, 0.5, 9) for _ in kernels
        ]
        assert MeasuredCostModel(MODEL, clock).seconds(one()) == 0.1
        looks.append(len(clock.asked))
    assert looks == [1, 1, 1, 0, 0]


def test_second_looks_are_bounded_and_may_fail():
    MeasuredCostModel(MODEL, Clock(0.25, busy=True)).seconds(one())
    MeasuredCostModel(MODEL, Clock(0.25, busy=True)).seconds(one(A=(5,)))
    clock = Clock(error=CodegenError("no compiler now"))
    model = MeasuredCostModel(MODEL, clock, retry_seconds=1e-9)
    assert model.seconds(one()) == model.seconds(one(A=(5,))) == 0.25
    assert len(clock.asked) == 1 and not model.estimated


def test_what_is_done_once_is_a_weight_of_what_reads_it():
    asked = []

    class Model(Ready):
        def seconds(self, kernel):
            asked.append({name: t.role for name, t in kernel.scope.tensors.items()})
            return 1.0

    text = "W[i,j] = 2*K[i,j]\nO[i,j] += A[i,k]*W[k,j]"
    found = kernels(text, A=(3, 3), K=ea.tensor("K", (3, 3), role="weight"))
    assert total(Model(), found) == 1.0 and asked == [{"A": "input", "W": "weight"}]
    model = MeasuredCostModel(MODEL, Clock())
    plain = kernels("O[i,j] += A[i,k]*W[k,j]", A=(3, 3), W=(3, 3))[0]
    weighted = kernels(
        "O[i,j] += A[i,k]*W[k,j]", A=(3, 3), W=ea.tensor("W", (3, 3), role="weight")
    )[0]
    assert model.identity(plain) != model.identity(weighted)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"measurement": 3}',
        b'{"seconds": 0.5}',
        b'{"measurement": {"minimum": -1}}',
        b'{"measurement": {"minimum": NaN, "quartile": 1, "median": 1, "turns": 1}}',
        b"\xff",
    ],
)
def test_a_foreign_entry_is_measured_again(content):
    model = MeasuredCostModel(MODEL, Clock(0.25))
    COSTS.store(model.identity(one()), content)
    assert model.seconds(one()) == 0.25


def test_a_damaged_entry_is_measured_again(own_folder, caplog):
    MeasuredCostModel(MODEL, Clock(0.25)).seconds(one())
    (path,) = own_folder.rglob("*.json")
    path.write_bytes(path.read_bytes()[:-3])
    with caplog.at_level(logging.WARNING, "einalg"):
        assert MeasuredCostModel(MODEL, Clock(0.75)).seconds(one()) == 0.75
    assert "is damaged" in caplog.text
    assert MeasuredCostModel(MODEL, Clock(), retry_seconds=0).seconds(one()) == 0.75


def test_a_full_disk(own_folder, monkeypatch, caplog):
    real = os.replace

    def replaced(source, target):
        if own_folder in Path(target).parents:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replaced)
    with caplog.at_level(logging.WARNING, "einalg"):
        assert MeasuredCostModel(MODEL, Clock(0.25, name="full")).seconds(one()) == 0.25
    assert "No space left" in caplog.text and not [p for p in own_folder.rglob("*") if p.is_file()]
    assert MeasuredCostModel(MODEL, Clock(name="full"), retry_seconds=0).seconds(one()) == 0.25, (
        "kept for this process"
    )


def test_two_processes_at_once(own_folder):
    text = "from einalg.storage.disk_cache import DiskCache\nfor n in range(200):\n    DiskCache('costs', '.json', 'x').store('key', b'%d' % (n % 7))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", text],
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])},
        )
        for _ in range(2)
    ]
    shelf = DiskCache("costs", ".json", "x")
    while any(process.poll() is None for process in running):
        assert shelf.read("key") in (None, *(b"%d" % n for n in range(7)))
    assert [process.returncode for process in running] == [0, 0] and not list(
        own_folder.rglob(".new-*")
    )


def test_what_is_replaced_is_gone(own_folder, caplog):
    shelf = DiskCache("costs", ".json", "x")
    with caplog.at_level(logging.WARNING, "einalg"):
        for n in range(20):
            shelf.replace("key", b"%d" % n)
            assert shelf.read("key") == b"%d" % n
    assert len(list(own_folder.rglob("key-*"))) == 1 and not caplog.text


def test_where_measuring_fails_the_estimate_is_used_and_marked():
    model = MeasuredCostModel(MODEL, Clock(error=CodegenError("no code for it")))
    assert model.seconds(one()) == MODEL.seconds(one()) and list(model.estimated.values()) == [
        "no code for it"
    ]
    clock = Clock()
    model = MeasuredCostModel(replace(MODEL, call=3.0), clock)
    assert (
        model.seconds(one()) > 3.0
        and not clock.asked
        and "estimated to run for 3.0 s" in model.estimated[model.identity(one())]
    )
    assert not list(Path(os.environ["EINALG_CACHE"]).rglob("*.json")), (
        "an estimate is not kept as a measurement"
    )


RATES = {"library": 3e11, "generated": 2e10, "bandwidth": 3e10, "call": 1e-6}


def test_the_roofline_is_calibrated_once():
    clock = Clock(rates=RATES)
    assert calibrated(clock) == calibrated(clock) == Roofline(**RATES)
    assert clock.asked == ["rates"]


@pytest.mark.parametrize(
    "wrong", [{}, {**RATES, "call": 0}, {**RATES, "library": float("inf")}, {"library": 1}]
)
def test_rates_that_cannot_be(wrong):
    assert calibrated(Clock(rates=wrong, name=json.dumps(wrong))) == Roofline()


def candidate(kernels, moves, cost):
    return Candidate(None, kernels, moves, cost, "proved")


class Ready:
    """A model that needs nothing made ready."""

    def make_ready(self, kernels):
        pass


class Half(Ready):
    def seconds(self, kernel):
        return 0.5


def measured_by(model, candidates, seconds=math.inf):
    """Return the costs of candidates by a model, as far as the time lasts."""
    costs = KernelCosts(candidates, model)
    with suppress(OutOfTime):
        costs.run(clock.Clock.of(seconds))
    return costs


def test_measured_seconds_decide_who_is_promising():
    quick, slow = kernels("O[i] = A[i]+1", A=(4,)), kernels("O[i] = A[i]*2", A=(4,))
    candidates = [candidate(quick, (1,), 2.0), candidate(slow, (1,), 1.0)]

    class Model(Ready):
        def seconds(self, kernel):
            return 0.1 if kernel is quick[0] else 0.4

    shortlist = measured_by(Model(), candidates).shortlist
    assert [c.cost for c in shortlist] == [0.1, 0.4] and shortlist[0].kernels is quick
    many = [candidate(quick, (1,), 1 + n / 30) for n in range(30)]
    assert len(measured_by(Model(), many).shortlist) == SELECTION.shortlist


def test_the_shortlist_is_varied_where_costs_are_near():
    """A sum of kernels that is wrong for one candidate is wrong for all with the same operators."""
    plain = kernels("O[i] = A[i]+1", A=(4,))
    product = kernels("O[i,j] += A[i,k]*B[k,j]", A=(4, 4), B=(4, 4))
    costs = KernelCosts([], Half())
    for kernels_of_one, cost in [(plain, 1.0), (plain, 1.01), (product, 1.2), (plain, 1.02)]:
        costs.measured.append(candidate(kernels_of_one, (1,), cost))
    assert [c.cost for c in costs.shortlist] == [1.0, 1.2, 1.01, 1.02]
    costs.measured[2].cost = 1.5
    assert [c.cost for c in costs.shortlist] == [1.0, 1.01, 1.02, 1.5]


def test_time_ends_the_measuring():
    quick = kernels("O[i] = A[i]+1", A=(4,))
    candidates = [candidate(quick, (1,), 1 + n / 3) for n in range(3)]
    costs = measured_by(Half(), candidates, seconds=0.0)
    assert not costs.measured and [c.cost for c in costs.shortlist] == [c.cost for c in candidates]


def test_what_is_far_from_the_lowest_estimate_is_not_measured():
    estimates = [1.0, 0.9 * SELECTION.max_estimate_ratio, 1.1 * SELECTION.max_estimate_ratio]
    candidates = [
        SimpleNamespace(moves=(1,), estimate=estimate, operators=()) for estimate in estimates
    ]
    assert most_promising(candidates) == candidates[:2]


def test_a_candidate_that_already_costs_too_much_is_not_followed_up():
    cheap, long = (
        kernels("O[i] = A[i]+1", A=(4,)),
        kernels("T[i] = A[i]*2\nU[i] = T[i]*3\nO[i] = U[i]*4", A=(4,)),
    )
    asked = []

    class Model(Ready):
        def seconds(self, kernel):
            asked.append(kernel.output)
            return 1.0

    slow = candidate(long, (1,), 0.12)
    cheaper = [candidate(cheap, (1,), 0.1) for _ in range(SELECTION.shortlist)]
    shortlist = measured_by(Model(), [*cheaper, slow]).shortlist
    assert (
        asked == ["O"] * SELECTION.shortlist + ["T", "U"]
        and [c.cost for c in shortlist] == [1.0] * SELECTION.shortlist
        and slow.cost == 2.0
    )
    assert total(Model(), long) == 3.0


def test_what_is_unknown_is_made_ready_together():
    """Each distinct kernel once, none that is known, or kept, or estimated to run too long."""
    texts = ["O[i] = A[i]+1", "O[i] = A[i]*2", "O[j] = B[j]+1", "O[i] = A[i]-3"]
    first, second, alike, third = (one(text, **{text[7]: (4,)}) for text in texts)
    backend, together = Clock(seconds=0.25), []
    timers = backend.kernel_timers
    backend.kernel_timers = lambda kernels: (
        together.append([k.scope for k in kernels]) or timers(kernels)
    )
    MeasuredCostModel(MODEL, backend).seconds(third)
    measured = MeasuredCostModel(MODEL, backend, retry_seconds=0.0)
    measured.make_ready([first, second, alike, third])
    assert together == [[third.scope], [alike.scope, second.scope]]
    assert [measured.seconds(kernel) for kernel in (first, second, alike, third)] == [0.25] * 4
    assert len(together) == 2 and len(backend.asked) == 3
    measured.make_ready([first, second])
    slow = MeasuredCostModel(MODEL, backend, max_seconds=0.0)
    slow.make_ready([one("O[i] = A[i]+5")])
    assert together[2:] == [[], []]


def test_this_machine_is_measured():
    assert all(0 < rate < float("inf") for rate in rates().values()) and set(rates()) == set(RATES)
    assert identity("cpu") != identity("other")
    d = ea.derive(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(5, 7), B=(7, 3)), states=2)
    assert d.best.measured and list(Path(os.environ["EINALG_CACHE"]).rglob("costs/**/*.json"))


def test_candidates_beyond_the_accuracy_are_rejected_and_counted():
    product = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(5, 64), B=(64, 3))
    with pytest.raises(ea.CodegenError, match="gives the values of the reference"):
        ea.derive(product, states=2, accuracy=0)
    assert ea.derive(product, states=2, accuracy=1e-3).best.error < 1e-3
    with pytest.raises(ea.NotationError, match="accuracy must be a number from 0"):
        ea.derive(product, accuracy=-1)


def test_weights_are_bound_before_a_candidate_is_timed():
    program = ea.parse(FOLDED, A=(3,), B=(3,), K=ea.tensor("K", (3, 3), role="weight"))
    d = ea.derive(program, states=2)
    assert "once, from weights" in str(d.original) and d.original.error < 1e-5
    given = {n: np.ones(t.shape, np.float32) for n, t in program.inputs.items()}
    bound = d.best.compile().bind(K=given["K"])
    np.testing.assert_allclose(bound(A=given["A"], B=given["B"]), ea.evaluate(program, **given))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("O[i:4] = Sum[s:10](B[i,s]*Sum[w:10](A[i,s,w]))", 880),
        ("O[i:4] = Sum[s:10](B[i,s]*Sum[w:10](A[i,0,w]))", 160),  # the inner sum is one for all s
        ("O[i:4] = Sum[s:10](B[i,s]*Sum[w:10](A[i,s,w], where=w <= s))", 520),
    ],
)
def test_sums_inside_of_sums_are_computed_at_each_of_their_points(text, count):
    assert arithmetic(as_program(ea.parse(text, A=(4, 10, 10), B=(4, 10)))) == count


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("O[i,j:9] = Sum[k](A[i,k])", 4 * 10),  # one for all j
        ("O[j:9,i] = Sum[k](A[i,k])", 9 * 4 * 10),  # another one for the next i
        ("O[i] = Sum[j](A[i,j]*Max[k](A[i,k]))", 4 * (2 * 10 + 10)),
        ("O[i] = Sum[j](A[i,j]*Sum[k:10](A[i,k], where=k <= j))", 4 * (2 * 10 + 10 * 10)),
    ],
)
def test_a_reduction_is_counted_once_for_the_loops_around_it_on_which_it_does_not_depend(
    text, count
):
    assert operations(ea.parse(text, A=(4, 10))) == count
