"""Programs of hundreds of statements, each of which reads the one before: their parts are nested as
deeply as there are statements.
"""

from __future__ import annotations

from pathlib import Path

import einalg as ea
from einalg.language.analysis.canonical import key
from einalg.language.ir.program import Program

INPUTS = {"A": (2, 2), "W": (2, 2), "V": (2, 2)}


def perceptron(layers: int) -> Program:
    """Return products with one of two weights, each with an activation."""
    lines = ["T0[i,j] = A[i,j]"]
    for number in range(1, layers):
        product = f"Sum[k](T{number - 1}[i,k]*{'WV'[number % 2]}[k,j])"
        lines.append(f"T{number}[i,j] = Max({product}, 0)")
    return ea.parse("\n".join(lines), **INPUTS)


def towers(layers: int, first: str, second: str) -> Program:
    """Return the product of two results that differ in what their first statements read alone."""
    lines = [f"P0[i] = {first}", f"Q0[i] = {second}"]
    for number in range(1, layers):
        for name in "PQ":
            lines.append(f"{name}{number}[i] = Max(2*{name}{number - 1}[i] + 1, 0)")
    lines.append(f"O[i] = P{layers - 1}[i]*Q{layers - 1}[i]")
    return ea.parse("\n".join(lines), A=(4,))


def test_keys_are_compared() -> None:
    one, two = towers(200, "A[i]", "A[3-i]"), towers(200, "A[3-i]", "A[i]")
    assert key(one) == key(two) != key(towers(199, "A[i]", "A[3-i]"))


def test_text_and_search(tmp_path: Path) -> None:
    program = perceptron(400)
    assert ea.parse(str(program), **INPUTS) == program
    derivation = ea.derive(program, seconds=0.2)
    derivation.save(tmp_path / "derivation.json")
    again = ea.Derivation.load(tmp_path / "derivation.json")
    assert again.best.program == derivation.best.program
    assert again.script()


def test_proof() -> None:
    assert ea.prove(perceptron(200), perceptron(200)).verdict == "proved"
