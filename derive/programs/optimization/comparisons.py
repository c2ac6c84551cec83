"""The first form of a program beside libraries, and beside the program as it is."""

from __future__ import annotations

from derive.programs.optimization.compiled_forms import RECOMPILED_SHARE, Forms
from einalg.runtime.clock import COMPILING, OutOfTime

MAX_COMPARING_SHARE = 0.5  # of the time that is left, that comparing with libraries may take
MAX_ORIGINAL_SHARE = 0.1  # of the time that is left, that this may take before the first search
CALLS = 4  # of the program as it is: it is checked, called before it is timed, and timed twice
MAX_ORIGINAL_SLOWNESS = 8.0  # times the best form, that the program as it is hardly takes


def compare_with_libraries(forms: Forms) -> None:
    """Compile the first form once more, optimized in full, its kernels compared with those of
    libraries.
    """
    run = forms.best.run
    if not forms.compiled or (run.is_optimized and not run.has_open_choices):
        return
    clock = forms.quick_clock()
    if clock.left < RECOMPILED_SHARE * forms.first_seconds:
        raise OutOfTime
    began = clock.now()
    limit = clock
    if run.is_optimized:
        limit = clock.within(MAX_COMPARING_SHARE * clock.left)
    with limit.limiting(), clock.phase(COMPILING, "the program, with libraries"):
        compared = forms.trial.compiled(forms.best.variant)
    forms.trial_seconds += clock.now() - began
    if compared is not None:
        forms.compiled, forms.best = [compared], compared


def comparison_in_words(forms: Forms) -> str:
    """Return what the first form lacks until it was compiled once more."""
    if forms.best.run.is_optimized:
        return "the comparison with libraries"
    return "all optimizations of the C compiler"


def compare_with_original(forms: Forms) -> None:
    """Compile the program as it is where that takes little of the time."""
    left = forms.quick_clock().left
    if forms.original is None and forms.first_seconds <= MAX_ORIGINAL_SHARE * left:
        forms.compile_original()


def time_original(forms: Forms) -> None:
    """Time the program as it is at last, where there was no time for it before."""
    calls = CALLS * MAX_ORIGINAL_SLOWNESS * forms.seconds(forms.best)
    if forms.original is not None:
        return
    if forms.clock.left < forms.first_seconds + calls:
        raise OutOfTime
    forms.compile_original()
    if forms.original is not None:
        if forms.clock.left < CALLS * forms.original.seconds:
            raise OutOfTime
        forms.choose([forms.original, forms.best])
