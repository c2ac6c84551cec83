"""Forms of a program whose statements have the layouts that suit them, by measured times."""

from __future__ import annotations

from derive.programs.forms.layout_mixture import mixture
from derive.programs.forms.variants import CHANNELS_LAST
from derive.programs.optimization.compiled_forms import Forms
from derive.programs.optimization.layer_search import with_known_layers, with_results
from derive.programs.optimization.trial import CompiledVariant
from derive.programs.optimized_program import REPEATS
from einalg.language.ir.program import Program
from einalg.runtime.clock import MEASURING, OutOfTime

MAX_MIXING_SHARE = 0.05  # of the time that is left, that timing the kernels of two layouts may take
MIXING_TRIALS = 2  # that there must be time for before a mixture of layouts is compiled


class MixedLayouts:
    """The mixtures of layouts of a program: each is compiled once."""

    def __init__(self, forms: Forms):
        self._forms = forms
        self._tried: list[Program] = []

    def compile(self) -> None:
        """Compile a form whose statements have the layouts that suit them, if that may be faster.

        Of the fastest form and the one that differs from it by its layout alone, the kernels are
        timed.
        """
        forms = self._forms
        layouts = _fastest_in_both(forms)
        if layouts is None:
            return
        whole = sum(map(forms.seconds, layouts))
        if (1 + REPEATS) * whole > MAX_MIXING_SHARE * forms.clock.left:
            raise OutOfTime
        if forms.clock.left < MIXING_TRIALS * forms.trial_seconds + forms.seconds_to_measure:
            raise OutOfTime
        with forms.clock.phase(MEASURING, "the kernels of both layouts"):
            first, last = (form.kernel_seconds() for form in layouts)
        if not first or not last:
            return
        variant = mixture(layouts[0].variant, first, last, forms.task.backend)
        if variant is None or variant.program in self._tried:
            return
        self._tried.append(variant.program)
        known = with_results(with_known_layers(variant, forms.task), forms.results)
        form = forms.compile(known, "a form of both layouts")
        if form is not None:
            forms.take_if_faster(form)


def _fastest_in_both(forms: Forms) -> tuple[CompiledVariant, CompiledVariant] | None:
    """Return the fastest form that is compiled in two layouts: with channels where they were, and
    with channels last. None where there is no such form.
    """
    fastest: dict[tuple[str, ...], CompiledVariant] = {}
    for form in forms.competing():
        fastest.setdefault(form.variant.changes, form)
    for changes in fastest:
        others = changes
        if changes[-1:] == (CHANNELS_LAST,):
            others = changes[:-1]
        first, last = fastest.get(others), fastest.get((*others, CHANNELS_LAST))
        if first is not None and last is not None:
            return first, last
    return None
