"""Small networks as graphs, and a comparison of what they compute."""

from __future__ import annotations

import numpy as np

import einalg as ea
from einalg.language import ops
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, statement_tensor


def weight(name, *shape):
    return ea.tensor(name, shape, role="weight")


def network(channels=3, space=5, layers=2, samples=1):
    """Convolutions of one shape, each with a batch norm and an activation, the last one added to
    the first.
    """
    statements, read = [], ea.tensor("A", (samples, channels, space, space))

    def add(name, scope):
        statements.append((name, scope))
        return statement_tensor(name, scope)

    for k in range(layers):
        conv = add(f"C{k}", ops.conv2d(read, weight(f"K{k}", channels, channels, 3, 3), padding=1))
        normal = add(
            f"N{k}",
            ops.batch_norm(
                conv, *(weight(f"{x}{k}", channels) for x in ("mean", "variance", "gamma", "beta"))
            ),
        )
        read = add(f"R{k}", ops.relu(normal))
    add("O", ops.add(read, statement_tensor("R0", dict(statements)["R0"])))
    return Program(statements, ["O"])


def sample(program, seed=0):
    rng = np.random.default_rng(seed)
    return {
        n: np.abs(rng.standard_normal(t.shape)) + 0.1
        if "variance" in n
        else rng.standard_normal(t.shape)
        for n, t in program.inputs.items()
    }


def assert_nearly_same_values(one, two):
    """Compare values that are computed in the types of a program, which is quick."""
    given = sample(one)
    values = execute(two, given)
    for name, expected in execute(one, given).items():
        np.testing.assert_allclose(values[name], expected, rtol=1e-5, atol=1e-5)


def assert_same_values(one, two):
    given = sample(one)
    read = {name: array for name, array in given.items() if name in two.inputs}
    np.testing.assert_allclose(
        ea.evaluate(two, **read), ea.evaluate(one, **given), rtol=1e-9, atol=1e-12
    )
