"""Models of a framework: what they take and give, and whether the framework goes on running them."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial

import pytest

import einalg as ea
from codegen.program.batched_executable import BatchedExecutable
from derive.programs import optimized_program
from derive.programs.optimization import optimize
from einalg.api import backend, optimization
from einalg.api.backend import LocalBackend
from einalg.api.verification.verification import Verified
from einalg.runtime import timing
from einalg.runtime.measurement import Comparison
from einalg.runtime.timing import DEFAULT_POLICY
from tests.helpers.measurements import exactly, sooner

torch = pytest.importorskip("torch")


def test_a_module_takes_and_gives_tensors(own_cache):
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.Flatten(),
        torch.nn.Linear(8 * 25, 4),
    )
    module.eval()
    x = torch.randn(2, 3, 5, 5)
    o = ea.optimize(module, (x,), seconds=4)
    with torch.no_grad():
        torch.testing.assert_close(o(x), module(x), rtol=1e-4, atol=1e-5)


def test_integers_are_added_and_multiplied_in_a_type_that_holds_the_result(own_cache):

    class Totals(torch.nn.Module):
        def forward(self, x):
            return (
                x.sum(),
                x.sum(1),
                x.prod(),
                x.prod(1),
                x.cumsum(0),
                x.cumprod(1),
                x.sum(dtype=torch.int32),
            )

    for dtype, most in ((torch.uint8, 255), (torch.int8, 127), (torch.int32, 2**31 - 1)):
        x = torch.full((2, 3), most, dtype=dtype)
        o = ea.optimize(Totals().eval(), (x,), seconds=0, prefer="einalg")
        assert not o.is_original
        for found, wanted in zip(o(x), Totals()(x), strict=True):
            assert found.dtype is wanted.dtype and torch.equal(found, wanted)


def test_short_integers_wrap_round_where_their_framework_does(own_cache):

    class Differences(torch.nn.Module):
        def forward(self, a, b):
            return (
                (a - b).float().mean(1),
                a * b > a,
                torch.maximum(a + b, b) / 2,
                torch.cat([a, b]).float(),
                (a.int() - b.int()) * 2,
            )

    a, b = (
        torch.tensor([[3, 250], [0, 7]], dtype=torch.uint8),
        torch.tensor([[5, 20], [1, 7]], dtype=torch.uint8),
    )
    o = ea.optimize(Differences().eval(), (a, b), seconds=0, prefer="einalg")
    assert {node.operator for node in o.opaque} == {"sub.Tensor", "mul.Tensor", "add.Tensor"}
    for found, wanted in zip(o(a, b), Differences()(a, b), strict=True):
        torch.testing.assert_close(found, wanted)


def test_a_batch_of_a_module_runs_sample_by_sample(own_cache, monkeypatch):
    monkeypatch.setattr("derive.programs.passes.batch_splitting.MIN_SLICE_OPERATIONS", 0)
    monkeypatch.setattr("derive.programs.passes.batch_splitting.MIN_OPERATIONS_PER_WEIGHT", 0)
    monkeypatch.setattr(LocalBackend, "measure", sooner(BatchedExecutable))
    module = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU()).eval()
    x = torch.randn(5, 3, 6, 7)
    o = ea.optimize(module, (x,), seconds=300)
    assert [part.slices.count for part in o.parts.values()] == [5]
    with torch.no_grad():
        for given in (
            x,
            torch.randn(5, 7, 6, 3).permute(0, 3, 2, 1),
        ):  # the second one has its elements elsewhere
            torch.testing.assert_close(o(given), module(given), rtol=1e-4, atol=1e-5)


def test_a_framework_that_is_faster_goes_on(own_cache, caplog):
    module, x = torch.nn.ReLU().eval(), torch.ones(3)
    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(module, (x,), seconds=0)
    assert o.measurements is not None
    assert (
        o.is_original
        == (Comparison(o.measurements[1], o.measurements[0]).verdict == "slower")
        == ("goes on running it" in caplog.text)
    )
    assert torch.equal(o(-x), torch.zeros(3))


def test_einalg_computes_where_it_is_preferred(own_cache, monkeypatch, caplog):
    times = exactly(1e-6), exactly(1.0)
    monkeypatch.setattr(LocalBackend, "measure", lambda *_: list(times))
    module, x = torch.nn.ReLU().eval(), torch.ones(3)
    o = ea.optimize(module, (x,), seconds=0, prefer="einalg")
    assert o.measurements == times and not o.is_original
    assert o.times == (1e-6, 1.0)
    assert "goes on running it" not in caplog.text
    assert ea.optimize(module, (x,), seconds=0, prefer="fastest").is_original


@pytest.mark.parametrize("prefer", ["torch", None, 1])
def test_a_preference_that_there_is_not(prefer):
    program = ea.parse("O[i] = A[i] + 1", A=(2,))
    with pytest.raises(ea.NotationError, match="use one of: fastest, einalg"):
        ea.optimize(program, prefer=prefer)


def test_a_framework_that_cannot_run_the_model_is_not_waited_for(own_cache, caplog):
    class Large(torch.nn.Module):
        """Its framework needs more memory than there is."""

        def forward(self, x):
            if type(x) is torch.Tensor and not torch.compiler.is_exporting():
                raise RuntimeError("not enough memory: you tried to allocate 1 EB\nmore of it")
            return x * 2

    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(Large().eval(), (torch.ones(3),), seconds=0)
    assert (
        "cannot run the model here, so its time is not known: not enough memory: you "
        "tried to allocate 1 EB" in caplog.text
    )
    assert (
        o.measurements is None
        and not o.is_original
        and torch.equal(o(torch.ones(3)), torch.full((3,), 2.0))
    )


def test_a_framework_that_is_slow_is_timed_twice(own_cache, monkeypatch):
    """After a first call, in which it may do what it never does again."""
    calls = []

    class Counted(torch.nn.Module):
        def forward(self, x):
            if type(x) is torch.Tensor and not torch.compiler.is_exporting():
                calls.append(1)
            return x * 2

    slow = replace(DEFAULT_POLICY, slow_seconds=0.0)
    monkeypatch.setattr(backend, "measure", partial(timing.measure, policy=slow))
    monkeypatch.setattr(
        optimization, "verified", lambda network, compiler, _: Verified(network, compiler(network))
    )  # which calls it too
    o = ea.optimize(Counted().eval(), (torch.ones(3),), seconds=0)
    assert len(calls) == 3 and all(measured.turns == 2 for measured in o.measurements)


def model_times(monkeypatch, before, after):
    """Say how long a call of a model takes in its framework and optimized; programs take as long as
    they do. Return a list that grows with each measurement of a model.
    """
    asked, measure = [], LocalBackend.measure

    def said(self, runnables, arrays, *rest):
        if arrays:
            return measure(self, runnables, arrays, *rest)
        asked.append(1)
        return [exactly(before), exactly(after)]

    monkeypatch.setattr(LocalBackend, "measure", said)
    return asked


@pytest.mark.parametrize(
    ("seconds", "measured"),
    [((1e-3, 5e-4), 1), ((2e-4, 3e-4), 1), ((1e-3, 9e-4), 2), ((1.0, 0.9), 1)],
)
def test_times_beyond_doubt_are_kept(seconds, measured, own_cache, monkeypatch):
    """A second run of a model that its framework runs much slower, or much faster, does not wait
    for that again.
    """
    asked = model_times(monkeypatch, *seconds)
    model, x = torch.nn.ReLU().eval(), torch.ones(3)
    found = [ea.optimize(model, (x,), seconds=0) for _ in range(2)]
    times = tuple(map(exactly, seconds))
    assert all(
        o.measurements == times and o.is_original == (seconds[1] > seconds[0]) for o in found
    )
    assert len(asked) == measured
    ea.optimize(
        torch.nn.Sequential(model).eval(), (x,), seconds=0
    )  # as fast as it may be, it is another one
    assert len(asked) == measured + 1


def test_calls_of_the_framework_are_timed_each_time(own_cache, monkeypatch):
    """What they do is not known by their names: these two differ in shape alone."""
    asked = model_times(monkeypatch, 1e-3, 5e-4)

    class Sorted(torch.nn.Module):
        def forward(self, x):
            return torch.sort(x).values

    for size in (3, 4):
        ea.optimize(Sorted().eval(), (torch.ones(size),), seconds=0)
    assert len(asked) == 2


class Siblings(torch.nn.Module):
    """Many products of one tensor, as of layers that are written out."""

    def __init__(self, count):
        super().__init__()
        weights = [torch.nn.Parameter(torch.randn(16, 8)) for _ in range(count)]
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, x):
        columns = [x[:, k % 4 : k % 4 + 16] @ weight for k, weight in enumerate(self.weights)]
        return torch.cat([column.relu() for column in columns], 1)


def test_a_large_model_stays_its_frameworks_when_time_is_over_before_it_is_compiled(
    monkeypatch, caplog
):
    """Its programs are compiled once they are looked at."""
    compiled = []
    real = optimized_program.compiled
    monkeypatch.setattr(
        optimize, "compiled", lambda *rest, **named: compiled.append(1) or real(*rest, **named)
    )
    module, x = Siblings(70), torch.randn(4, 20)
    with caplog.at_level(logging.WARNING, "einalg"):
        o = ea.optimize(module, (x,), seconds=1e-3)
    assert o.is_original and "the time was over" in caplog.text and not compiled
    with torch.no_grad():
        assert torch.equal(o(x), module(x))
    assert "not compiled" in str(o.report) and "not measured" in str(o.report) and not compiled
    (part,) = o.parts.values()
    assert part.source("c") and compiled == [1]


def test_a_small_model_and_one_that_einalg_shall_run_are_compiled():
    x = torch.randn(4, 20)
    for module, options in ((Siblings(2), {}), (Siblings(70), {"prefer": "einalg"})):
        o = ea.optimize(module, (x,), seconds=1e-3, **options)
        assert "not compiled" not in str(o.report)
        with torch.no_grad():
            torch.testing.assert_close(o(x), module(x), atol=1e-4, rtol=1e-4)
