"""One program made faster: its forms are compiled, checked and timed in the whole, then searched.

The first form that runs needs no search. Then its kernels are compared with those of libraries, and
its layers get the forms that were derived for similar ones. The other forms follow, so that each
search is of a layer of which it is known how long it takes, in a form that is worth it.
"""

from __future__ import annotations

from collections.abc import Mapping

from derive.programs.optimization.adapted_forms import AdaptedForms
from derive.programs.optimization.answer import best_program
from derive.programs.optimization.comparisons import (
    compare_with_libraries,
    compare_with_original,
    comparison_in_words,
    time_original,
)
from derive.programs.optimization.compiled_forms import Forms
from derive.programs.optimization.first_form import compile_first
from derive.programs.optimization.mixed_layouts import MixedLayouts
from derive.programs.optimization.other_forms import compile_others, compile_rewritten
from derive.programs.optimization.searched_forms import SearchedForms, refine
from derive.programs.optimization.trial import ReferenceCall, Trial
from derive.programs.optimized import Array
from derive.programs.optimized_program import OptimizedProgram
from derive.programs.task import Task
from einalg.errors import CodegenError
from einalg.language.ir.program import Program

UNSOUND = (
    "code for a program has other values than the reference (by %.1e of the largest), and no other "
    "form of it is right"
)


def optimize_program(
    program: Program, weights: Mapping[str, Array], values: Mapping[str, Array], task: Task
) -> OptimizedProgram:
    """Make a program faster; `values` are those of its inputs and outputs in a call.

    Where time ends that, or an interrupt, the program is the best that was measured until then.
    """
    clock = task.clock
    forms = Forms(Trial.of(ReferenceCall.of(program, weights, values), task))
    adapted, mixed, searched = AdaptedForms(forms), MixedLayouts(forms), SearchedForms(forms)
    first = compile_first(forms)
    with forms.step(forms.quick_clock(), comparison_in_words(forms)):
        compare_with_libraries(forms)
    with forms.step(forms.quick_clock()):
        compare_with_original(forms)
    with forms.step(clock, "forms of similar layers"):
        adapted.compile_first()
    with forms.step(forms.clock_until_right(), "its other forms"):
        compile_others(forms, adapted, first)
    if not forms.is_right and not task.is_compared:
        raise CodegenError(f"{UNSOUND % forms.best.error}\n  please report it with the model")
    with forms.step(clock, "the comparison of its forms"):
        forms.choose(forms.candidates)
    with forms.step(clock, "substitutions"):
        compile_rewritten(forms)
    with forms.step(clock, "the comparison of substituted forms"):
        forms.choose_new()
    with forms.step(clock):
        mixed.compile()
    with forms.step(clock):
        searched.search()
    with forms.step(clock.finishing(), "forms with what searches found"):
        searched.compile()
    with forms.step(clock, "mixtures of its layouts"):
        mixed.compile()
    with forms.step(clock, "other candidates of its layers"):
        refine(forms)
    with forms.step(clock):
        time_original(forms)
    return best_program(forms, first.plain)
