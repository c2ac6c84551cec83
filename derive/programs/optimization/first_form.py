"""The first form of a program that runs: folded and fused, in the layout that costs less by the
model, with what is known of its layers. It needs no search, and nothing is measured for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from derive.cost.model import Roofline, known_rates
from derive.programs.forms.variants import SearchedVariant, channels_last_variant, unchanged
from derive.programs.optimization.compiled_forms import Forms
from derive.programs.optimization.layer_search import with_known_layers
from derive.programs.passes.normalise import shaped
from derive.programs.passes.shared_values import shared
from derive.programs.passes.summation_order import in_best_order
from derive.programs.passes.unread_parts import without_unread_parts
from derive.programs.passes.weights.addition import with_folded_weights
from einalg.language.ir.program import Program
from einalg.runtime.clock import COMPILING, SEARCHING, Clock, check_time

MAX_FOLDING_SHARE = 0.5  # of the time that is left, that folding and fusing may take
MIN_FOLDING_SECONDS = 2.0  # that these may take in any case: what they leave is slow to compile
MAX_LAYOUT_SHARE = 0.2  # of the time that is left, that choosing a layout by the model may take


@dataclass(frozen=True)
class FirstForm:
    """The program folded and fused: `plain`, and in the layout that is `preferred`."""

    plain: SearchedVariant
    preferred: SearchedVariant


def compile_first(forms: Forms) -> FirstForm:
    """Compile a program folded and fused; as it is where that is not right.

    Where there is too little time to optimize its code in full, it is optimized less.
    """
    clock = forms.clock
    plain = preferred = forms.task.need(lambda: _fused(forms))
    has_time = _has_time_to_optimize(forms, plain)
    if has_time:
        preferred = _in_preferred_layout(forms, plain)
    began = clock.now()
    with clock.phase(COMPILING, "the program"):
        first = forms.task.need(
            lambda: forms.trial.compiled(preferred, compares=False, optimizes=has_time)
        )
    if first is not None:
        forms.compiled.append(first)
        forms.best = first
    else:
        forms.compile_original()
    forms.first_seconds = forms.trial_seconds = clock.now() - began
    return FirstForm(plain, preferred)


def _fused(forms: Forms) -> SearchedVariant:
    """Return the program folded and fused, as far as there is time for that."""
    clock = forms.clock.finishing()
    limit = clock.within(MAX_FOLDING_SHARE * clock.left).at_least(MIN_FOLDING_SECONDS)
    if not forms.task.seconds:
        limit = clock.unlimited()
    with forms.clock.phase(SEARCHING, "forms of the program"):
        program = folded_within(limit, forms.trial.example.program, forms)
        return with_known_layers(unchanged(program), forms.task)


def folded_within(limit: Clock, program: Program, forms: Forms) -> Program:
    """Return a program folded and fused, as far as a clock has time for that."""

    def is_late() -> bool:
        return limit.is_over

    program = shared(shaped(program, is_late)[0], is_late)
    rates = known_rates(forms.task.backend) or Roofline()
    program = without_unread_parts(in_best_order(program, rates, is_late))
    program = with_folded_weights(program, is_late, adds=forms.task.nonfinite != "exact")
    if is_late():
        forms.unfinished.append("folding and fusing")
    return program


def _has_time_to_optimize(forms: Forms, variant: SearchedVariant) -> bool:
    """Return whether there is time to optimize the code of a form in full.

    So it is without a search, and where a framework goes on with what takes too long.
    """
    task = forms.task
    if not task.seconds or task.may_give_up:
        return True
    return forms.trial.expected_seconds(variant) <= forms.clock.left


def _in_preferred_layout(forms: Forms, plain: SearchedVariant) -> SearchedVariant:
    """Return a form in the layout that costs less by the model.

    Where there is no time to find that out, in the layout that it has.
    """
    preferred, trial = plain, forms.trial
    limit = forms.clock.within(MAX_LAYOUT_SHARE * forms.clock.left)
    with limit.bounding(), forms.clock.phase(SEARCHING, "the layout of the program"):
        check_time()
        last = channels_last_variant(plain.program)
        if last is not None:
            cycles = trial.expected_cycles(plain)
            other = with_known_layers(last, forms.task)
            if cycles and (trial.expected_cycles(other) or inf) < cycles:
                preferred = other
    return preferred
