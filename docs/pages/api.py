"""The API reference: every public name of `einalg`, by what one does with it."""

from __future__ import annotations

import inspect
from itertools import groupby
from typing import Any

import einalg as ea
from docs.pages.markdown import with_examples_as_blocks

INTRODUCTION = """# API

These are the names of `import einalg as ea`. Operators have [a page of their own](operators.md).
Shapes are in elements, times in seconds, unless a text says otherwise.
"""
SECTIONS = {
    "Write expressions": "parse indices tensor size constant L Sum Max Min Prod Mod Piecewise "
    "einsum Scope Reduce Program",
    "Evaluate and prove": "evaluate prove Proof mutants Mutant",
    "See": "mapping_table footprint",
    "Derive": "derive Derivation distance Session History Move",
    "Rules": "rules rule Rule check_rule RuleReport",
    "Whole models and machines": "optimize Optimized tune Tuning Schedule doctor",
    "Errors": "EinalgError NotationError UseError RangeError ShapeError UndefinedError RuleError "
    "MatchError CodegenError DeviceError RecordError RepeatedTermWarning",
}
VALUES = {
    "rules": "Every [rule](rules.md) by name, as a read-only mapping. `rules=[*ea.rules, "
    "mine]` searches with these and one of your own."
}
ELSEWHERE = {
    "ops": "operators.md",
    "substitutions": "#substitutions",
    "testing": "#testing",
}
BESIDES = """## Results

What `derive`, `optimize` and `mutants` return, and the parts of it: you read these, and do not
make them.

::: derive.results.candidates.Candidate

::: derive.results.candidates.Candidates

::: derive.rules.partial.mutants.Mutants

::: derive.results.script.Explanation

::: derive.cost.roofline_table.RooflineTable

::: derive.cost.roofline_table.RooflineRow

::: einalg.display.network_graph.NetworkGraph

::: codegen.tuning.search.tuner.UnitTuning

::: codegen.tuning.search.tuner.UnitShare

::: codegen.tuning.by_hand.choices.ScheduleChoices

::: codegen.tuning.by_hand.choices.ScheduleChoice

::: codegen.program.by_hand.ScheduleStep

::: einalg.api.schedules.by_hand.ScheduleTime

::: derive.results.timings.Timing

::: derive.results.timings.Timings

::: einalg.language.ir.kernel.Kernel

::: derive.search.candidates.Stats

## Substitutions

The pages on how to [verify rewrite rules](../how-to/verify-rules.md) and how to
[generate them](../how-to/generate-rules.md) have examples.

::: derive.substitutions.verification.rule.Substitution
    options:
      heading: ea.substitutions.Rule

::: derive.substitutions.files.loading.load
    options:
      heading: ea.substitutions.load

::: derive.substitutions.verification.verifier.verify
    options:
      heading: ea.substitutions.verify

::: derive.substitutions.verification.verdict.RuleVerdict
    options:
      heading: ea.substitutions.RuleVerdict

::: derive.substitutions.generation.generator.generate
    options:
      heading: ea.substitutions.generate

::: derive.substitutions.generation.report.GeneratedRules
    options:
      heading: ea.substitutions.GeneratedRules

::: derive.substitutions.generation.report.GenerationReport
    options:
      heading: ea.substitutions.GenerationReport

## Testing

[How to test your own code](../how-to/test-your-own-code.md) has examples.
`ea.testing.check_rule` is `ea.check_rule`.

::: einalg.testing.equality.assertion.assert_equal
    options:
      heading: ea.testing.assert_equal

::: einalg.testing.equality.report.UnequalError
    options:
      heading: einalg.testing.UnequalError

`ea.testing.strategies` makes expressions, shapes and arrays at random.

::: einalg.testing.strategies
    options:
      heading: ea.testing.strategies
      members_order: source
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for title, names in SECTIONS.items():
        parts.append(f"## {title}")
        for alike in groupby(names.split(), _docstring_of):
            parts.append(_entry(list(alike[1])))
    return "\n\n".join([*parts, BESIDES])


def _docstring_of(name: str) -> str:
    """That of an object, or of its class where it is an object that is called and subscripted."""
    value = getattr(ea, name)
    return inspect.getdoc(value if _is_defined(value) else type(value)) or ""


def _is_defined(value: Any) -> bool:
    return inspect.isfunction(value) or inspect.isclass(value)


def _where_documented(value: Any) -> Any:
    """The object itself, or the class from which a class takes its docstring."""
    bases = value.__mro__[1:] if inspect.isclass(value) else ()
    return next((base for base in bases if value.__doc__ and base.__doc__ == value.__doc__), value)


def _entry(names: list[str]) -> str:
    """Names of one docstring: `Sum` and its kin are one class."""
    value = getattr(ea, names[0])
    if names[0] in VALUES:
        return f"### ea.{names[0]}\n\n{VALUES[names[0]]}"
    if _is_defined(value):
        value = _where_documented(value)
        inherited = (
            "true" if value.__module__ == ea.derive.__module__ else "false"
        )  # from classes of ours, not from SymPy's
        options = f"      heading: ea.{names[0]}\n      inherited_members: {inherited}"
        return f"::: {value.__module__}.{value.__qualname__}\n    options:\n{options}"
    heading = ", ".join(f"ea.{name}" for name in names)
    return f"### {heading}\n\n{with_examples_as_blocks(_docstring_of(names[0]))}"
