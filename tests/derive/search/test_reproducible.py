"""A search gives the same moves in every process, whatever was searched there before."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import einalg as ea
from derive.rewriting.moves import Move, apply
from derive.rules import ALL
from derive.search.best_first import Budget, search
from einalg.language.ir.program import as_program

ROOT = Path(__file__).parents[3]
DEVIATION = "O[h:8,w:8] = Sum[r:3,s:3]((A[h+r,w+s] - Sum[p:3,q:3](A[h+p,w+q])/9)**2)"
RENAMED = DEVIATION.replace("r", "zz")
MOVES = """
from tests.derive.search.test_reproducible import DEVIATION, RENAMED, found
for text in {texts}:
    lines = found(text)
print("\\n".join(lines))
"""


def found(text: str) -> list[str]:
    """Return how many states a search has, and the moves to each of its candidates."""
    candidates, stats, explored = search(ea.parse(text, A=(10, 10)), Budget(states=12))
    lines = [f"{stats.states} {stats.generated} {stats.candidates} {len(explored)}"]
    for candidate in candidates:
        lines.append(" | ".join(move.to_json() for move in candidate.moves))
    return lines


def _found_elsewhere(texts: str, seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", MOVES.format(texts=texts)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_processes_find_the_same_moves() -> None:
    one = _found_elsewhere("[DEVIATION]", "1")
    assert one == _found_elsewhere("[RENAMED, DEVIATION]", "21")
    assert len(one.splitlines()) > 10


def test_names_of_another_expression_do_not_come_in() -> None:
    """SymPy has `S*2` in its cache, of a scope `S` that is equal up to the names of indices."""
    for text, name in [
        ("O[i] = exp(2*Sum[j](A[i,j]))", "j"),
        ("O[i] = exp(2*Sum[k](A[i,k]))", "k"),
    ]:
        split = Move("summation splitting", ("O",), {"reduction": 0, "outer": []})
        program = apply(as_program(ea.parse(text, A=(4, 5))), split, ALL)
        assert f"Sum[{name}:5]" in str(program)


def test_names_of_another_text_do_not_come_in() -> None:
    for name in ("j", "k"):
        text = f"O[i] = 2*(L[x:4](Sum[{name}:5](A[x,{name}])))[i]"
        assert f"Sum[{name}:5]" in str(ea.parse(text, A=(4, 5)))
