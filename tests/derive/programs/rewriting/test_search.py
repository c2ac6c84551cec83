"""Programs are rewritten by proved rules as far as that is estimated to pay, and measured."""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from bench.blocks import fire
from derive.cost.model import Roofline
from derive.programs.forms.rewriting.concatenations import with_neighbours_apart
from derive.programs.forms.rewriting.convolutions import convolution_kinds
from derive.programs.forms.rewriting.patterns import patterns_of
from derive.programs.forms.rewriting.rule_set import RuleSet
from derive.programs.forms.rewriting.search import rewritings
from derive.programs.optimization import first_form
from derive.programs.passes.summation_order import in_best_order
from derive.substitutions.sizes.sides import ConvolutionKind
from einalg.errors import RecordError, UseError
from einalg.language.ir.program import as_program
from tests.helpers.rule_files import op, rule, write

ASSOCIATIVE = ea.substitutions.Rule(
    "associative",
    "T[i,j] += x[i,k]*y[k,j]\nO[i,m] += T[i,j]*z[j,m]",
    "T[k,m] += y[k,j]*z[j,m]\nO[i,m] += x[i,k]*T[k,m]",
    x=("N", "K"),
    y=("K", "J"),
    z=("J", "M"),
)
DISTRIBUTED = ea.substitutions.Rule(
    "distributed",
    "T[i,k] = x[i,k] + y[i,k]\nO[i] += T[i,k]*z[k]",
    "T[i] += x[i,k]*z[k]\nU[i] += y[i,k]*z[k]\nO[i] = T[i] + U[i]",
    x=("N", "K"),
    y=("N", "K"),
    z=("K",),
)
ONCE = ea.substitutions.Rule(
    "once",
    "P[i] += x[i,k]*z[k]\nQ[i] += x[i,k]*z[k]\nP, Q",
    "P[i] += x[i,k]*z[k]\nQ[i] = P[i]\nP, Q",
    x=("N", "K"),
    z=("K",),
)
WRONG = ea.substitutions.Rule("wrong", "O[i] = A[i]*A[i]", "O[i] = 2*A[i]", A=("N",))
CHAIN = "P[i,j] += A[i,k]*B[k,j]\nQ[i,j] += P[i,k]*C[k,j]\nO[i,j] += Q[i,k]*D[k,j]"


def chain(rows=32, inner=32, columns=1):
    sizes = {"A": (rows, inner), "B": (inner, inner), "C": (inner, inner), "D": (inner, columns)}
    return ea.parse(CHAIN, **sizes)


def steps(rewritten):
    return [step.rule for step in rewritten.steps]


def test_a_chain_of_products_is_computed_from_its_thin_end():
    program = chain()
    best = rewritings(program, patterns_of(ASSOCIATIVE), Roofline(library=1e6))[0]
    assert steps(best) == ["associative"] * 2
    assert all(1 in scope.shape for _, scope in best.program)
    rng = np.random.default_rng(0)
    arrays = {name: rng.random(t.shape) for name, t in program.inputs.items()}
    np.testing.assert_allclose(
        ea.evaluate(best.program, **arrays), ea.evaluate(program, **arrays), rtol=1e-5
    )


@pytest.mark.parametrize("batch", ["", "b,"])
def test_a_sum_within_a_reduction_costs_a_kernel_of_its_own(batch):
    """The reduction beside it stays an operator of a library, as where the program is compiled."""
    factored = ea.substitutions.Rule(
        "factored",
        "O[i,j] = Sum[k](x[i,k]*y[k,j]) + Sum[k](x[i,k]*z[k,j])",
        "O[i,j] = Sum[k](x[i,k]*(y[k,j] + z[k,j]))",
        x=("N", "K"),
        y=("K", "M"),
        z=("K", "M"),
    )
    first = f"P[{batch}i,j] += A[{batch}i,k]*B[{batch}k,j]"
    second = f"Q[{batch}i,j] += A[{batch}i,k]*C[{batch}k,j]"
    text = f"{first}\n{second}\nO[{batch}i,j] = P[{batch}i,j] + Q[{batch}i,j]"
    more = (3,) if batch else ()
    program = ea.parse(text, A=(*more, 127, 65), B=(*more, 65, 31), C=(*more, 65, 31))
    best = rewritings(program, patterns_of(factored), Roofline(library=2e11, generated=5e10))[0]
    assert steps(best) == ["factored"]
    assert len(best.program.statements) == 1


def test_a_worse_program_is_gone_through_as_far_as_alpha_allows():
    text = "T[i,k] = A[i,k] + B[i,k]\nP[i] += T[i,k]*C[k]\nQ[i] += A[i,k]*C[k]\nP, Q"
    program = ea.parse(text, A=(64, 64), B=(64, 64), C=(64,))
    rules = [*patterns_of(DISTRIBUTED), *patterns_of(ONCE)]
    rates = Roofline(library=1e6, generated=1e6, bandwidth=1e15)
    assert not rewritings(program, rules, rates, alpha=1.0)
    best = rewritings(program, rules, rates, alpha=2.0)[0]
    assert steps(best) == ["distributed", "once"] and best.steps[0].saved < 0
    assert len([name for name, scope in best.program if "Sum[" in str(scope)]) == 2


@pytest.mark.usefixtures("own_cache")
def test_the_report_names_what_was_applied_and_what_was_left_out(monkeypatch):
    """All forms are folded by the same rates."""
    measured, used = Roofline(call=0.0), []

    def in_order(program, rates, is_late):
        used.append(rates)
        return in_best_order(program, rates, is_late)

    monkeypatch.setattr(first_form, "known_rates", lambda backend: measured)
    monkeypatch.setattr(first_form, "in_best_order", in_order)
    program = chain(512, 512)
    rng = np.random.default_rng(0)
    arrays = {name: rng.random(t.shape) / 64 for name, t in program.inputs.items()}
    rules = [ASSOCIATIVE, WRONG]
    optimized = ea.optimize(program, arrays, seconds=60, substitutions=rules, progress=False)
    report = str(optimized.report)
    assert "substitution wrong is left out: it is different at N = 1" in report
    assert "substituted by associative twice" in report.replace("\n      ", " ")
    assert len(used) > 1 and all(rates is measured for rates in used)
    expected = arrays["A"] @ (arrays["B"] @ (arrays["C"] @ arrays["D"]))
    np.testing.assert_allclose(optimized(*arrays.values()), expected, rtol=1e-3)


def test_rules_that_are_none_are_refused(tmp_path):
    arrays = {"A": np.ones(4)}
    program = ea.parse("O[i] = A[i] + 1", A=(4,))
    with pytest.raises(
        UseError, match="substitutions must be rules or the path of a rule file, or None, not "
    ):
        ea.optimize(program, arrays, seconds=0, substitutions=[1])
    with pytest.raises(RecordError):
        ea.optimize(program, arrays, seconds=0, substitutions=tmp_path / "missing.json")


@pytest.mark.parametrize("merged", [(0, 1), (1, 2), (2, 3), (1, 2, 3), (0, 1, 2, 3)])
def test_a_rule_of_two_parts_fits_neighbours_in_a_concatenation_of_more(merged, tmp_path):
    """The parts that read one tensor become one product."""
    features = rule(
        "features",
        [op("matmul", 1, 2), op("matmul", 1, 3), op("concat", "0", "1", axis=1)],
        [op("concat", 2, 3, axis=1), op("matmul", 1, "0")],
    )
    (one,) = ea.substitutions.load(write(tmp_path, features))
    parts = []
    for number in range(4):
        name = "x" if number in merged else f"y{number}"
        weight = ea.tensor(f"w{number}", (4, number + 1), role="weight")
        parts.append(ea.ops.matmul(ea.tensor(name, (3, 4)), weight))
    program = as_program(ea.ops.concat(parts, axis=1))
    best = rewritings(program, patterns_of(one), Roofline(call=1))[0]
    assert steps(best) == ["set/features"] * (len(merged) - 1)
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-3, 4, t.shape) for name, t in program.inputs.items()}
    read = {name: arrays[name] for name in best.program.inputs}
    expected = ea.evaluate(program, **arrays)
    np.testing.assert_array_equal(ea.evaluate(best.program, **read), expected)


def test_no_other_sum_is_a_concatenation():
    text = "O[i:9] = A.pad((0, 5))[i] + B.pad((3, 3))[i-3] + C.pad((6, 0))[i-6]"
    program = as_program(ea.parse(text, A=(4,), B=(3,), C=(3,)))
    assert not list(with_neighbours_apart(program))
    diagonal = "O[i:9] = A.pad((0, 6),0)[i,i] + B.pad((3, 3),0)[i-3,i] + C.pad((6, 0),0)[i-6,i]"
    program = as_program(ea.parse(diagonal, A=(3, 9), B=(3, 9), C=(3, 9)))
    assert not list(with_neighbours_apart(program))


def test_enlarge_and_merge_follows_from_rules(tmp_path):
    """Convolutions of 1x1 and 3x3, with what is applied to them, are one of 3x3."""
    window = {"stride": [1, 1], "pad": "same"}
    enlarge = rule(
        "enlarge",
        [op("conv2d", 1, 2, **window)],
        [op("enlarge", 2, kernel=[3, 3]), op("conv2d", 1, "0", **window)],
    )
    features = rule(
        "features",
        [
            op("conv2d", 1, 2, **window),
            op("conv2d", 1, 3, **window),
            op("concat", "0", "1", axis=1),
        ],
        [op("concat", 2, 3, axis=0), op("conv2d", 1, "0", **window)],
    )
    after = rule(
        "relu",
        [op("relu", 1), op("relu", 2), op("concat", "0", "1", axis=1)],
        [op("concat", 1, 2, axis=1), op("relu", "0")],
    )
    program = as_program(fire(3, 2, 4))
    patterns = []
    for one in ea.substitutions.load(write(tmp_path, enlarge, features, after)):
        patterns += patterns_of(one, convolution_kinds(program))
    best = rewritings(program, patterns, Roofline(call=1), alpha=2)[0]
    assert sorted(steps(best)) == ["set/enlarge", "set/features", "set/relu"]
    assert best.program[best.program.outputs[0]].shape == (1, 8, 3, 3)
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-3, 4, t.shape) for name, t in program.inputs.items()}
    read = {name: arrays[name] for name in best.program.inputs}
    expected = ea.evaluate(program, **arrays)
    np.testing.assert_array_equal(ea.evaluate(best.program, **read), expected)


def test_patterns_are_made_once_for_equal_rules(tmp_path):
    """Whatever convolutions a program has, of a rule without any they are the same."""
    relus = rule("relus", [op("relu", 1), op("relu", "0")], [op("relu", 1)])
    path, kinds = write(tmp_path, relus), [ConvolutionKind((3, 3))]
    first, second = (RuleSet(ea.substitutions.load(path)) for _ in range(2))
    assert first.rules[0] is not second.rules[0]
    assert first.patterns()[0] is second.patterns(kinds)[0]
