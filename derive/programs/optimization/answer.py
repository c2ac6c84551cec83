"""The best form of a program as an answer: its layers, its times and its changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from derive.programs.early_end import EarlyEnd
from derive.programs.forms.layers import SearchedLayer
from derive.programs.forms.variants import SearchedVariant, is_better, is_substituted
from derive.programs.optimization.compiled_forms import Forms
from derive.programs.optimization.layer_search import with_results
from derive.programs.optimized_program import OptimizedProgram, verdict
from derive.rules.inter.lifting_nesting import lifted
from einalg.runtime.measurement import Measurement
from einalg.text.wording import counted, milliseconds


def best_program(forms: Forms, plain: SearchedVariant) -> OptimizedProgram:
    """Return the best form as an optimized program; `plain` is the program folded and fused."""
    layers, best = _reported_layers(forms, plain), forms.best
    return OptimizedProgram(
        forms.trial.example.program,
        lifted(best.program),
        lambda: layers,
        _times(forms),
        best.error,
        verdict(layers),
        best.run,
        _changes(forms),
        best.variant.slices,
        forms.is_right,
        early_end=_early_end(forms, layers),
    )


def _early_end(forms: Forms, layers: Sequence[SearchedLayer]) -> EarlyEnd | None:
    """Return what was not done to its end; None where all was."""
    steps = list(forms.unfinished)
    late = sum(layer.timed_out_after is not None for layer in layers)
    if late:
        steps.append(f"searches of {late} of {counted(len(layers), 'layer')}")
    if not steps:
        return None
    return EarlyEnd(forms.task.seconds, tuple(steps), forms.clock.course.is_stopped)


def _reported_layers(forms: Forms, plain: SearchedVariant) -> list[SearchedLayer]:
    """Return the layers of the best form, each with its candidate where that is in the form."""
    is_original = forms.best is forms.original
    variant = plain if is_original else forms.best.variant
    layers = []
    for layer, result in zip(variant.layers, with_results(variant, forms.results).layers):
        if layer.original is not None and not is_original:
            layers.append(layer)
        elif is_better(result):
            layers.append(replace(result, candidate=None))
        else:
            layers.append(result)
    return layers


def _times(forms: Forms) -> tuple[Measurement, Measurement] | None:
    """Return the times of a call, of the program as it is and of the best form."""
    before, after = forms.measured(forms.original), forms.measured(forms.best)
    if before is None or after is None:
        return None
    return before, after


def _changes(forms: Forms) -> tuple[str, ...]:
    """Return in words what differs from the program, how far rounding decides, and what
    substitutions gained.
    """
    variant, changes = forms.best.variant, forms.best.changes
    if not forms.task.substitutions.rules:
        return changes
    if not is_substituted(variant):
        return (*changes, "no substitution made it faster")
    seconds, others = forms.measured(forms.best), []
    for form in forms.candidates:
        measured = forms.measured(form)
        if measured is not None and not is_substituted(form.variant):
            others.append(measured.seconds)
    if not others or seconds is None:
        return changes
    times = milliseconds(min(others)), milliseconds(seconds.seconds)
    return (*changes, "{} without substitutions, {} with them".format(*times))
