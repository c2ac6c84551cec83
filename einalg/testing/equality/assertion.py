"""The public `assert_equal`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from derive.proof import DIFFERENT, PROVED, TESTED
from einalg.boundary import hide_inside, public
from einalg.errors import NotationError, UseError
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.options import FLAG, SEED, one_of, optional, real, shown, whole
from einalg.testing.equality.case import ExpressionCase, Judge
from einalg.testing.equality.expressions import Pair, builds, built
from einalg.testing.equality.problem import Problem
from einalg.testing.equality.report import UNSTEADY, DifferenceReport, UnequalError
from einalg.testing.equality.search import CaseSearch, Finding
from einalg.testing.equality.shrinking import smallest
from einalg.testing.equality.tracing import is_proved
from einalg.testing.equality.world import FixedWorld, World, family_world, fixed_world
from einalg.testing.input_values import PLAIN, kinds, values
from einalg.testing.shape_space import Family, by_name, family_of_text, input_order
from einalg.testing.subject import (
    NUMPY,
    Subject,
    as_array,
    as_arrays,
    libraries_of,
    name_of,
    parameter_names,
)
from einalg.testing.verdict_log import FAILED, Verdict, note
from einalg.text.wording import counted

NONFINITE = optional(one_of("spread", "exact"))
EXAMPLES, TOLERANCE = whole(1), optional(real("1e-3"))
REMEDY = "pip install einalg[test]"


@public
def assert_equal(
    function: Any,
    expected: Any,
    *,
    examples: int = 100,
    seed: int = 0,
    tolerance: float | None = None,
    nonfinite: str | None = None,
    empty: bool = False,
) -> str:
    """Check that a function computes an expression: `"proved"`, or `"tested"` on random inputs.

    `function` takes arrays in the order of the inputs of the expression (by name, where its
    parameters are called like them) and returns an array, or a tuple or dict for several outputs.
    It may be of NumPy, torch (modules too) or JAX; a parameter that is annotated as `torch.Tensor`
    gets tensors, elsewhere the modules that its code names decide. It may be an expression as
    well.

    `expected` is an expression: then shapes are fixed. Or it is a function from shapes, in the
    order of the inputs, to an expression: then shapes are drawn too, for as many axes as it takes.
    Default values of its parameters are shapes to begin with, and fix the numbers of axes. The
    text of an expression is short for `lambda …: ea.parse(text, …)`, with its tensors in order.
    `function` may then make expressions of shapes, too.

    Expressions are proved where possible; so are torch functions that can be traced, for fixed
    shapes, besides being tested. Everything else is tested on `examples`: values at which code
    tends to fail, then what hypothesis draws from `seed`; arrays that are not contiguous are among
    them. With `empty`, shapes that are drawn have axes of size 0 too. With `nonfinite`, some
    inputs have NaN or infinities; results then have them just where the expression has them
    (`"exact"`), or at more places (`"spread"`, as of `einalg.optimize`). Integers have to be
    exact. Floats may differ by what rounding explains, which follows from the element type, the
    number of terms and the numbers that meet; or by `tolerance`, relative to the largest of these
    numbers.

    Raises `AssertionError` with the smallest inputs, of the smallest shapes, on which the function
    differs, raises an error, or changes an input; and where it returns something else when it is
    called again. Raises `UseError` for options that are none, `NotationError` for an `expected`
    that is no expression, `ImportError` without hypothesis.

    >>> import einalg as ea, numpy as np
    >>> def total(A):
    ...     return np.cumsum(A)
    >>> assert_equal(total, lambda a: ea.ops.cumsum(ea.tensor("A", a), axis=0))
    'tested'
    >>> assert_equal(np.matmul, "O[i,k] += A[i,j]*B[j,k]", examples=30)
    'tested'
    >>> assert_equal(ea.parse("O[i] = A[i] + A[i]", A=(4,)), ea.parse("O[i] = 2*A[i]", A=(4,)))
    'proved'
    """
    options = _Options(
        EXAMPLES.check("examples", examples),
        SEED.check("seed", seed),
        TOLERANCE.check("tolerance", tolerance),
        NONFINITE.check("nonfinite", nonfinite),
        FLAG.check("empty", empty),
    )
    outcome = _compared(function, expected, options)
    note(outcome.verdict)
    if outcome.report is not None:
        cause = outcome.report.fault.error
        if cause is not None:
            hide_inside(cause)
        raise outcome.report.error() from cause
    return outcome.verdict.verdict


@dataclass(frozen=True)
class _Options:
    examples: int
    seed: int
    tolerance: float | None
    nonfinite: str | None
    empty: bool


@dataclass(frozen=True)
class _Outcome:
    """A verdict, and the report of what is wrong where something is."""

    verdict: Verdict
    report: DifferenceReport | None = None


def _compared(function: Any, expected: Any, options: _Options) -> _Outcome:
    if isinstance(function, (Scope, Program)):
        return _of_expression(as_program(function), expected, options)
    if not callable(function):
        raise UseError(
            f"the function must be a function of arrays or an expression, not {shown(function)}\n"
            "  e.g. assert_equal(my_function, ea.parse(…))"
        )
    _require_hypothesis()
    names = parameter_names(function)
    libraries = libraries_of(function)
    world = _world(
        expected,
        names,
        options,
        lambda p: _takes(function, libraries, p) or builds(function, p),
    )
    problem = world.pool[0]
    if world.has_shapes and not _takes(function, libraries, problem) and builds(function, problem):
        return _of_builder(function, world, options)
    outcomes = []
    for library in _libraries(function, libraries, problem):
        outcome = _tested(Subject(function, library), world, options)
        if outcome.report is None:
            return outcome
        outcomes.append(outcome)
    return outcomes[0]


def _require_hypothesis() -> None:
    try:
        import hypothesis  # noqa: F401
    except ImportError:
        raise ImportError(f"einalg.testing.assert_equal needs hypothesis\n  {REMEDY}") from None


def _world(
    expected: Any, names: Sequence[str], options: _Options, takes: Callable[[Problem], bool]
) -> World:
    if isinstance(expected, (Scope, Program)):
        return fixed_world(expected, names)
    if isinstance(expected, str):
        family = family_of_text(expected)
        return family_world(family, names, options.seed, takes, options.empty)
    if callable(expected):
        return family_world(Family(expected), names, options.seed, takes, options.empty)
    raise NotationError(
        f"`expected` must be an expression, its text, or a function from shapes to one, not "
        f"{shown(expected)}\n  e.g. 'O[i] += A[i,j]', or ea.parse('O[i] += A[i,j]', A=(4, 5))"
    )


def _plain_case(problem: Problem) -> ExpressionCase:
    arrays = [values(tensor, kinds(tensor.dtype)[0], 0) for tensor in problem.tensors]
    return ExpressionCase(problem, tuple(arrays), (PLAIN,) * len(arrays))


def _takes(function: Callable[..., Any], libraries: Sequence[str], problem: Problem) -> bool:
    """Tell whether a function has results of the right shapes for a problem."""
    case = _plain_case(problem)
    shapes = [problem.program[name].shape for name in problem.outputs]
    for library in libraries:
        subject = Subject(function, library)
        try:
            result = subject.call(case.laid_out, problem.dtypes).result
            arrays = [as_array(one) for one in as_arrays(result, problem.outputs)]
        except Exception:  # of the user's function: it is for other numbers of axes, or wrong
            continue
        if [array.shape for array in arrays] == shapes:
            return True
    return False


def _libraries(
    function: Callable[..., Any], libraries: Sequence[str], problem: Problem
) -> list[str]:
    """Return the libraries whose arrays a function takes without an error; else the likeliest.

    Where nothing in a function tells, such as in `lambda x: x.std(1)`, it is for any of them.
    """
    case = _plain_case(problem)
    fitting = []
    for library in libraries:
        try:
            Subject(function, library).call(case.laid_out, problem.dtypes)
        except Exception:  # of the user's function, which the test tells
            continue
        fitting.append(library)
    return fitting or [libraries[0]]


def _tested(subject: Subject, world: World, options: _Options) -> _Outcome:
    """Return the outcome of random inputs."""
    judge = Judge(subject, options.tolerance, options.nonfinite)
    search = CaseSearch(world, judge, options.examples, options.seed)
    finding = search.run()
    if finding is not None:
        return _failed(subject, world, judge, finding, options)
    if not judge.compared and any(map(_has_elements, world.pool)):
        raise UseError(
            "nothing was compared: the expression has no finite value on any input that was tried\n"
            "  see that it has values for plain random numbers: ea.evaluate(expr, …)"
        )
    extent = counted(search.tried, "example")
    if world.has_shapes:
        extent += f" of {counted(len(search.shapes), 'shape')}"
    elif is_proved(subject, world.pool[0]):
        return _Outcome(Verdict(subject.name, PROVED, f"as torch traces it, and {extent}"))
    return _Outcome(Verdict(subject.name, TESTED, extent))


def _has_elements(problem: Problem) -> bool:
    return any(0 not in problem.program[name].shape for name in problem.outputs)


def _failed(
    subject: Subject, world: World, judge: Judge, finding: Finding, options: _Options
) -> _Outcome:
    number = finding.example
    if finding.fault.kind not in UNSTEADY:
        finding = smallest(finding, world, judge)
        unsteady = judge.unsteadiness(finding.case)
        if unsteady is not None:
            finding = finding.simpler(finding.case, unsteady)
    of_all = (
        f"mend {subject.name}, or the expression; the same call finds this again",
        f"(example {number} of {options.examples}, seed={options.seed})",
    )
    return _Outcome(Verdict(subject.name, FAILED), DifferenceReport(subject, finding, of_all))


def _of_expression(program: Program, expected: Any, options: _Options) -> _Outcome:
    """Return the outcome of two expressions: proved where possible."""
    names = tuple(program.inputs)
    if isinstance(expected, (Scope, Program)):
        return _of_pair(Pair(_EXPRESSION, program, fixed_world(expected, names).problem), options)
    shapes = tuple([tensor.shape for tensor in program.inputs.values()])
    family = family_of_text(expected) if isinstance(expected, str) else Family(expected)
    other = family.program(shapes)
    if other is None:
        assert family.refusal is not None
        raise family.refusal
    order = by_name(names, input_order(family, [shapes]))
    return _of_pair(Pair(_EXPRESSION, program, Problem(other, tuple(order))), options)


_EXPRESSION = "the first expression"


def _of_pair(pair: Pair, options: _Options) -> _Outcome:
    """Return the outcome of two expressions; where they differ, with inputs that show it."""
    proof = pair.proof
    if proof.verdict != DIFFERENT:
        return _Outcome(Verdict(pair.name, proof.verdict, proof.method))
    _require_hypothesis()
    outcome = _tested(Subject(pair, NUMPY), FixedWorld(pair.problem), options)
    if outcome.report is None:
        raise UnequalError(f"{pair.name} differs from the expected expression\n{proof}")
    return replace(outcome, report=replace(outcome.report, proof=pair.region_text))


def _of_builder(function: Callable[..., Any], world: World, options: _Options) -> _Outcome:
    """Return the outcome of expressions that a function makes of shapes, of the smallest shapes at
    which they differ.
    """
    pool = world.pool
    name = name_of(function)
    verdicts: set[str] = set()
    for problem in pool:
        outcome = _of_pair(Pair(name, built(function, problem), problem), options)
        verdicts.add(outcome.verdict.verdict)
        if outcome.report is None:
            continue
        for smaller in world.smaller(problem):
            other = Pair(name, built(function, smaller), smaller)
            if other.proof.verdict == DIFFERENT:
                return _of_pair(other, options)
        return outcome
    extent = "proved" if verdicts == {PROVED} else "tested"
    return _Outcome(Verdict(name, TESTED, f"{extent} for {counted(len(pool), 'shape')}"))
