"""The other forms of a program: in slices, joined, in another layout, rewritten by substitutions.

All are compiled, whether or not anything is known of their layers, so that each search is of a
layer in a form that is worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import filterfalse

from derive.cost.model import Roofline, known_rates
from derive.programs.forms.rewriting.convolutions import convolution_kinds
from derive.programs.forms.rewriting.search import Rewritten, rewritings
from derive.programs.forms.variants import (
    Variant,
    changed_variants,
    is_substitution,
    rewritten_variants,
)
from derive.programs.optimization.adapted_forms import AdaptedForms
from derive.programs.optimization.compiled_forms import Forms
from derive.programs.optimization.first_form import FirstForm, folded_within
from derive.programs.optimization.layer_search import with_known_layers
from einalg.language.analysis.canonical import key
from einalg.runtime.clock import SEARCHING, Clock, OutOfTime

MAX_JOINING_SHARE = 0.5  # of the time that is left, that making the other forms may take
MAX_FORMS_SHARE = 0.5  # of the time that is left, that compiling more than one of these may take
MAX_REWRITING_SHARE = 0.25  # of the time that is left, that applying substitutions may take
MAX_REWRITTEN_SHARE = 0.25  # of the time that is left, that more than one form of these may take
MAX_REWRITTEN = 2  # programs that substitutions lead to, of which the forms are compiled


def compile_others(forms: Forms, adapted: AdaptedForms, first: FirstForm) -> None:
    """Compile the other forms of a program. All but one of them leave time for searches."""
    forms.require_time()
    clock, has_slices = forms.clock, forms.task.backend.has_slices
    with clock.phase(SEARCHING, "forms of the program"):
        late = clock.within(MAX_JOINING_SHARE * clock.left)
        changed = changed_variants(first.plain.program, has_slices, lambda: late.is_over)
    others = _without_first(changed, first)
    limit = clock.within(MAX_FORMS_SHARE * clock.left)
    for number, variant in enumerate(others, 1):
        forms.require_time()
        if number > 1 and limit.left < forms.trial_seconds:
            raise OutOfTime
        adapted.compile(variant, f"form {number} of {len(others)}")


def _without_first(changed: Sequence[Variant], first: FirstForm) -> Sequence[Variant]:
    """Return the forms besides the one that was compiled first."""
    if first.preferred is first.plain:
        return changed
    others = [form for form in changed if form.changes != first.preferred.changes]
    return [first.plain, *others]


def compile_rewritten(forms: Forms) -> None:
    """Compile the forms of the programs that substitutions lead to: first those with the layout of
    the best form, of these that of the most promising program. All but one leave time for searches.

    One that is compiled already, since a pass does the same, is left out.
    """
    if not forms.task.substitutions.rules:
        return
    forms.require_time()
    known = {key(form.variant.program) for form in forms.compiled}
    limit = forms.clock.within(MAX_REWRITTEN_SHARE * forms.clock.left)
    is_first = True
    for variant in _rewritten_variants(forms, limit):
        identity = key(variant.program)
        if identity in known:
            continue
        known.add(identity)
        forms.require_time()
        if not is_first and limit.left < forms.trial_seconds:
            raise OutOfTime
        is_first = False
        forms.compile(with_known_layers(variant, forms.task), "a substituted form")


def _rewritten_variants(forms: Forms, limit: Clock) -> list[Variant]:
    """Return the forms of the programs that substitutions lead to, those in the best layout first,
    as far as a clock has time for that.
    """
    best = forms.best.variant.changes
    alike: list[Variant] = []
    others: list[Variant] = []
    for rewritten in _rewritten(forms):
        if alike and limit.is_over:
            break
        with forms.clock.phase(SEARCHING, "forms of substituted programs"):
            program = folded_within(limit, rewritten.program, forms)
            variants = rewritten_variants(program, rewritten, lambda: limit.is_over)
        for variant in variants:
            is_alike = tuple(filterfalse(is_substitution, variant.changes)) == best
            (alike if is_alike else others).append(variant)
    return [*alike, *others]


def _rewritten(forms: Forms) -> list[Rewritten]:
    """Return the most promising programs to which substitutions lead, of different costs."""
    task = forms.task
    late = forms.clock.within(MAX_REWRITING_SHARE * forms.clock.left)
    rates = known_rates(task.backend) or Roofline()
    promising: dict[float, Rewritten] = {}
    with forms.clock.phase(SEARCHING, "substitutions"):
        program = forms.trial.example.program
        patterns = task.substitutions.patterns(convolution_kinds(program), late)
        for rewritten in rewritings(program, patterns, rates, is_late=lambda: late.is_over):
            promising.setdefault(rewritten.seconds, rewritten)
    if late.is_over:
        forms.unfinished.append("substitutions")
    return list(promising.values())[:MAX_REWRITTEN]
