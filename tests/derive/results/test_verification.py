"""Candidates are checked on inputs that the reference can evaluate."""

from __future__ import annotations

import opt_einsum

import einalg as ea


def test_a_long_product_is_checked_and_measured():
    """It has more indices than NumPy has axes, and results beyond float32 on normal inputs."""
    letters = [opt_einsum.get_symbol(number) for number in range(41)]
    terms = [letters[number] + letters[number + 1] for number in range(40)]
    matrices = [ea.tensor(f"A{number}", (128, 128)) for number in range(40)]
    expression = ea.einsum(f"{','.join(terms)}->{letters[0]}{letters[40]}", *matrices)
    derivation = ea.derive(expression, states=0, seconds=120)
    best = derivation.best
    assert len(best.kernels) == 39 and best.verdict == "proved"
    assert best.measured and best.error < 1e-4
