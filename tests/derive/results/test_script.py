"""A derivation as a script: running it makes the same program again, whatever the program is made
of.
"""

from __future__ import annotations

from fractions import Fraction

import pytest

import einalg as ea
from derive.results.history import History, HistoryStep
from derive.rewriting.moves import Move
from einalg.language.ir.program import as_program

H = ea.constant("H", [[1, -1], [Fraction(1, 2), 0]])
PROGRAMS = {
    "scope": ea.parse("O[n,f,h] += A.pad(0,0,1)[n,c,h+r-1] * K[f,c,r]", A=(1, 3, 6), K=(4, 3, 3)),
    "statements": ea.parse("M[i] = Max[j](S[i,j])\nO[i,j] = exp(S[i,j] - M[i])", S=(3, 5)),
    "outputs": ea.parse("T[i] = A[i] + 1\nO[i] = T[i]*2\nT, O", A=(4,)),
    "another name": ea.Program([("result", ea.parse("O[i] += A[i,k]*B[k]", A=(4, 5), B=(5,)))]),
    "a tensor that is named O": ea.L[ea.indices("i")](ea.tensor("O", (4,))[ea.indices("i")] + 1),
    "dtypes, weights, constants": ea.parse(
        "O[i] += H[i,j]*x[j]*w[j]",
        H=H,
        x=ea.tensor("x", (2,), "f64"),
        w=ea.tensor("w", (2,), "f64", role="weight"),
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_script_makes_the_program(name):
    start = as_program(PROGRAMS[name])
    made: dict[str, object] = {}
    exec(History(start).script(), made)
    again = made["s"].expr
    assert (
        again == start
        and again.outputs == start.outputs
        and list(again.tensors.values()) == list(start.tensors.values())
    )


def test_the_script_applies_the_moves(capsys):
    s = ea.Session(PROGRAMS["scope"])
    for rule in ("summation splitting", "variable substitution", "traversal merging"):
        s.apply(s.moves(rule)[-1])
    made: dict[str, object] = {}
    exec(s.history.script(), made)
    assert made["s"].history.moves == s.history.moves and str(made["s"].expr) == str(s.expr)
    assert "3 steps" in capsys.readouterr().out


def test_rules_of_ones_own_are_named():
    start = as_program(PROGRAMS["scope"])
    text = History(start, [HistoryStep(Move("my rule", ("O",), {}), start, "proved")]).script()
    assert (
        "rules = []" in text
        and "applied below: my rule" in text
        and "ea.Session(expr, rules)" in text
    )


def test_a_candidate_of_a_search_is_a_script():
    d = ea.derive(PROGRAMS["scope"], states=20, measure=False)
    for candidate in (None, d.candidates[-1]):
        made: dict[str, object] = {}
        exec(d.script(candidate), made)
        assert made["s"].history.moves == (candidate or d.best).moves
