"""The search finds matrix multiplication and OffsetAdd by itself, on any layout and padding;
answers are proven and checked.
"""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import compile_program
from derive.results import stored_search, verification
from derive.results.pipeline import find_derivation
from derive.results.selection import SELECTION
from derive.search.best_first import Budget, search
from einalg.runtime.clock import Clock
from tests.helpers.kernels import in_numpy
from tests.helpers.searches import first_candidates

STATES = 30  # of a search of which more would say no more

CONVS = {
    "NCHW": (
        "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]",
        dict(A=(1, 16, 7, 7), K=(32, 16, 3, 3)),
    ),
    "NHWC": (
        "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c]*K[r,s,f,c]",
        dict(A=(2, 9, 7, 16), K=(3, 3, 24, 16)),
    ),
    "CNHW, asymmetric": (
        "O[f,h,n,w] += A.pad(0,0,(2,0),(0,1))[c,n,h+r-2,w+s]*K[r,f,s,c]",
        dict(A=(16, 2, 7, 9), K=(3, 24, 2, 16)),
    ),
    "no padding": (
        "O[n,f,h:5,w:6] += A[n,c,h+r,w+s]*K[f,c,r,s]",
        dict(A=(1, 16, 7, 7), K=(32, 16, 3, 2)),
    ),
    "1d": ("O[n,f,h] += A.pad(0,0,2)[n,c,h+r-2]*K[f,c,r]", dict(A=(3, 16, 13), K=(24, 16, 5))),
    "dilated": (
        "O[n,f,h,w] += A.pad(0,0,2,3)[n,c,h+2*r-2,w+3*s-3]*K[f,c,r,s]",
        dict(A=(1, 16, 7, 8), K=(32, 16, 3, 3)),
    ),
    "strided": (
        "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,2*h+r-1,2*w+s-1]*K[f,c,r,s]",
        dict(A=(1, 16, 8, 7), K=(32, 16, 3, 3)),
    ),
    "flipped kernel": (
        "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h-r+1,w-s+1]*K[f,c,r,s]",
        dict(A=(1, 16, 7, 7), K=(32, 16, 3, 3)),
    ),
}


def arrays(shapes, seed=0):
    rng = np.random.default_rng(seed)
    return {k: rng.standard_normal(v).astype(np.float32) for k, v in shapes.items()}


@pytest.mark.parametrize("name", CONVS)
def test_convolutions_become_a_matmul_and_an_offset_add(name):
    text, shapes = CONVS[name]
    conv = ea.parse(text, **shapes)
    shortest = (
        ["matmul", "eop"] if name != "strided" else ["eop", "matmul"]
    )  # strided windows are gathered: their product would waste work
    forms = {"shortest": lambda c: [kernel.op for kernel in c.kernels] == shortest}
    found = first_candidates(conv, forms, Budget(states=300, seconds=60)).get("shortest")
    assert found is not None
    assert ea.prove(conv, found.program).verdict == "proved"
    given = arrays(shapes)
    np.testing.assert_allclose(
        compile_program(found.program, found.kernels)(**given),
        in_numpy(conv, given),
        rtol=1e-4,
        atol=1e-4,
    )


def test_the_answer_is_checked_and_measured():
    """Of those that promise most; the others are proven, and their cost is an estimate."""
    text, shapes = CONVS["NCHW"]
    d = ea.derive(ea.parse(text, **shapes), states=STATES, seconds=300)
    measured = [c for c in d.candidates if c.measured]
    assert 2 <= len(measured) <= SELECTION.shortlist + 1 and any(not c.moves for c in measured)
    assert all(c.error is not None and c.error < 1e-5 for c in measured) and all(
        c.error is None for c in d.candidates if not c.measured
    )
    assert d.candidates[: len(measured)] == measured and all(
        c.verdict == "proved" for c in d.candidates
    )
    assert d.best.cost <= (1 + SELECTION.noise) * min(c.cost for c in measured)
    assert d.stats.candidates >= 1 and d.stats.states >= 1 and d.stats.first_hit is not None
    text = str(d)
    assert "cost: " in text and "moves, " in text and "stopped: " in text


def test_it_is_deterministic():
    text, shapes = CONVS["NHWC"]
    one, two = (
        ea.derive(ea.parse(text, **shapes), states=STATES, seconds=300, measure=False)
        for _ in range(2)
    )
    assert [str(c.moves) for c in one.candidates] == [str(c.moves) for c in two.candidates]


def test_explain_shows_every_step_with_its_rule():
    text, shapes = CONVS["1d"]
    d = ea.derive(ea.parse(text, **shapes), states=STATES, measure=False)
    found = next(c for c in d.candidates if c.moves)
    told = d.explain(found)
    assert (
        told.startswith("given\n")
        and all(f"{k}. {m.rule}" in told for k, m in enumerate(found.moves, 1))
        and "verdict: proved" in told
    )


def test_why_not_names_the_reasons():
    text, shapes = CONVS["NCHW"]
    d = ea.derive(ea.parse(text, **shapes), states=0, measure=False)
    assert "the subscript h + r - 1 of A is not a bare index" in d.why_not("matmul")
    matmul = ea.derive(
        ea.ops.matmul(ea.tensor("A", (3, 4)), ea.tensor("B", (4, 5))), states=0, measure=False
    )
    assert matmul.why_not("matmul") == "O is a matmul"
    with pytest.raises(ea.MatchError, match="there is no template 'conv9d'"):
        d.why_not("conv9d")


def test_a_derivation_saves_loads_and_replays(tmp_path, monkeypatch):
    monkeypatch.setattr(stored_search, "_key", lambda *_: None)  # nothing is known before
    text, shapes = CONVS["1d"]
    d = ea.derive(ea.parse(text, **shapes), states=STATES, seconds=300)
    d.save(tmp_path / "d.json")
    loaded = ea.Derivation.load(tmp_path / "d.json")
    assert [str(c.program) for c in loaded.candidates] == [str(c.program) for c in d.candidates]
    assert str(loaded) == str(d) and str(loaded.replay()) == str(d.best.program)
    given = arrays(shapes)
    np.testing.assert_allclose(loaded.best.compile()(**given), d.best.compile()(**given))
    saved = (tmp_path / "d.json").read_text()
    for damaged in (
        saved.replace('"moves"', '"mover"'),
        saved.replace('"duplicates": ', '"duplicates": Infinity, "states": [], "": '),
    ):
        (tmp_path / "d.json").write_text(damaged)
        with pytest.raises(ea.RecordError, match="is damaged"):
            ea.Derivation.load(tmp_path / "d.json")


@pytest.mark.parametrize(
    "expression",
    [
        ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(5, 7), B=(7, 3)),
        ea.parse("O[b,i,j] += A[b,i,k]*B[b,k,j]", A=(2, 5, 7), B=(2, 7, 3)),
        ea.parse("O[j,b,i] += A[b,i,k]*B[j,k]", A=(2, 5, 7), B=(3, 7)),
        ea.parse("O[i] += A[i,k]*B[k]", A=(5, 7), B=(7,)),
        ea.parse("O[i] = Max(A[i], 0)", A=(5,)),
        ea.parse(
            "S[i] = Max[j](A[i,j])\nE_[i,j] = exp(A[i,j] - S[i])\nO[i,j] = "
            "E_[i,j]/Sum[k:7](E_[i,k])",
            A=(5, 7),
        ),
    ],
    ids=["matmul", "batched", "transposed", "vector", "relu", "softmax"],
)
def test_other_expressions_run_as_they_are_or_better(expression):
    d = ea.derive(expression, states=20)
    given = arrays({k: t.shape for k, t in d.expression.tensors.items()})
    np.testing.assert_allclose(
        d.best.compile()(**given), ea.evaluate(expression, **given), rtol=1e-4, atol=1e-5
    )


def test_bad_arguments():
    conv = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(5, 7), B=(7, 3))
    with pytest.raises(ea.NotationError, match="expected a tensor expression"):
        ea.derive(3)
    with pytest.raises(ea.DeviceError, match="several inputs of a model are one tuple"):
        ea.optimize(np.abs, np.ones(3), np.ones(3))
    with pytest.raises(ea.DeviceError, match="there is no target 'tpu'"):
        ea.derive(conv, target="tpu")
    for budget in ({"states": -1}, {"seconds": float("nan")}, {"depth": "3"}, {"depth": 2.5}):
        with pytest.raises(ea.UseError, match=r"must be a .*number .*, not .*\n  e\.g\. "):
            ea.derive(conv, **budget)
    with pytest.raises(ea.RuleError, match="3 is no rule"):
        ea.derive(conv, rules=3)
    with pytest.raises(ea.MatchError, match="there is no operator 3"):
        ea.derive(conv, ops=3)


def test_progress_is_told_after_every_state():
    told = []
    text, shapes = CONVS["1d"]
    d = ea.derive(
        ea.parse(text, **shapes),
        states=STATES,
        progress=lambda stats: told.append(stats.states),
        measure=False,
    )
    assert told == sorted(told) and set(told) >= set(range(1, d.stats.states + 1))


def test_proofs_end_with_the_time(monkeypatch):
    """Those that promise most are proven first; what is not proven is counted and not returned.

    A proof takes 2 of 10 seconds here, and nothing else takes any.
    """
    verdict, seconds = verification.verdict_of, [0.0]

    def slow(*programs):
        seconds[0] += 2.0
        return verdict(*programs)

    monkeypatch.setattr(verification, "verdict_of", slow)
    text, shapes = CONVS["1d"]
    clock = Clock.of(10.0, now=lambda: seconds[0])
    d = find_derivation(
        ea.parse(text, **shapes), Budget(states=STATES), None, None, measure=False, clock=clock
    )
    late = d.stats.rejected["not proven in time"]
    assert (
        late and 2 <= len(d.candidates) <= 6 and len(d.candidates) == d.stats.candidates + 1 - late
    )
    assert d.best.cost == min(c.cost for c in d.candidates) and not d.original.moves
    assert f"; {late} candidates were not proven in time: more seconds may show them\n" in str(d)


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"seconds": 0.0}, "its share of the 0 s was over"),
        ({"bytes": 1}, "the limit of 1 B for states was reached"),
    ],
)
def test_a_limit_that_is_reached_has_words(limit, reason):
    product = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3))
    _, stats, _ = search(product, Budget(**limit))
    assert stats.stopped == reason
