"""A form of a program with mixed layouts, chosen by the times of the kernels of two others."""

from __future__ import annotations

import logging
from math import prod

from derive.cost.backend import Backend
from derive.cost.model import Roofline, known_rates
from derive.programs.forms.layout_mixture import by_statement, cheapest_mixture
from derive.programs.forms.variants import Variant, mixed_variant
from derive.programs.optimized_program import REPEATS
from derive.programs.passes.layout_selection import movable_orders
from derive.programs.trial import CompiledVariant
from einalg.language.ir.dtypes import numpy_dtype
from einalg.text.wording import milliseconds

log = logging.getLogger("einalg")

MIN_SAVED_SHARE = 0.02  # of the time of the faster form, that a mixture is expected to save
COPY_PASSES = 4  # over what is copied: it is read, written, and in one of these by short steps
EXPECTED = "einalg: layouts that are mixed are expected to take %s, where one layout takes %s"


def mixture(first: CompiledVariant, last: CompiledVariant, backend: Backend) -> Variant | None:
    """Return the form whose statements lie as in the first form or, channels last, as in the other.

    None where no mixture is expected to be faster, or kernels are not timed one by one.
    """
    before, after = _seconds(first), _seconds(last)
    if not before or not after:
        return None
    program = first.variant.program
    movable = movable_orders(program)
    rates = known_rates(backend) or Roofline()

    def copy_seconds(name: str) -> float:
        scope = program[name]
        size = prod(scope.shape) * numpy_dtype(scope.dtype).itemsize
        return rates.time(0.0, COPY_PASSES * size, library=False)

    best = cheapest_mixture(program, before, after, movable, copy_seconds)
    one = min(sum(by_statement(times, program.names).values()) for times in (before, after))
    moved = movable.keys() & best.last
    if not moved or moved == movable.keys() or best.seconds > (1 - MIN_SAVED_SHARE) * one:
        return None
    log.info(EXPECTED, milliseconds(best.seconds), milliseconds(one))
    return mixed_variant(first.variant, best.last)


def _seconds(form: CompiledVariant) -> dict[str, float]:
    """Return the seconds of the kernels of a form; none of what is not timed kernel by kernel."""
    time = getattr(form.run, "time", None)
    if time is None:
        return {}
    return dict(time(REPEATS))
