"""The forms of a program in which its layers are searched: in slices, joined, channels last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from derive.programs.forms.layers import Layer, SearchedLayer, layers_of, with_layers
from derive.programs.forms.rewriting.search import Rewritten
from derive.programs.passes.batch_splitting import sliced
from derive.programs.passes.horizontal_fusion import joined
from derive.programs.passes.layout_selection import channels_last
from derive.programs.passes.normalise import with_epilogues
from derive.programs.passes.phase_order import in_phases
from derive.programs.passes.shared_values import with_shared_values
from einalg.language.analysis.batching import Slices
from einalg.language.ir.program import Program

IsLate = Callable[[], bool]
CHANNELS_LAST = "channels last inside"
PARTLY_LAST = "channels last in parts"
SUBSTITUTED = "substituted by "


@dataclass(frozen=True)
class Variant:
    """A form of a program, with its layers; `changes` says in words what differs from the program.

    With `slices`, the form computes one of them.
    """

    program: Program
    layers: Sequence[Layer]
    changes: tuple[str, ...] = ()
    slices: Slices | None = None


@dataclass(frozen=True)
class SearchedVariant(Variant):
    """A form with what is known of its layers."""

    layers: Sequence[SearchedLayer]

    @property
    def unsearched(self) -> list[SearchedLayer]:
        """The layers that were not searched."""
        return [layer for layer in self.layers if not layer.is_searched]

    @property
    def derived(self) -> Program:
        """The program with what was found for its layers."""
        layers = with_layers(self.program, self.layers, is_better)
        return with_shared_values(with_epilogues(layers))


def is_better(layer: SearchedLayer) -> bool:
    """Tell whether the candidate of a layer is another program, and faster than the layer is."""
    candidate = layer.candidate
    if candidate is None or not candidate.moves:
        return False
    return layer.original is None or candidate.cost < layer.original


def unchanged(program: Program) -> Variant:
    """Return a program as a form of itself."""
    return Variant(program, layers_of(program))


def channels_last_variant(program: Program) -> Variant | None:
    """Return the form of a program with channels last; None where no statement lies otherwise."""
    changed = channels_last(program)
    if changed is program:
        return None
    return Variant(changed, layers_of(changed), (CHANNELS_LAST,))


def changed_variants(
    program: Program, has_slices: bool = False, is_late: IsLate = lambda: False
) -> list[Variant]:
    """Return the other forms of a program: those of one slice, if it has slices, then of the whole.

    Nothing more is changed once it `is_late`.
    """
    split = sliced(program) if has_slices else None
    if split is None:
        return _changed(program, is_late)
    one, slices = split
    changes = (f"{slices.count} slices, one by one",)
    of_one = [
        *_changed(one, is_late, changes, slices),
        Variant(one, layers_of(one), changes, slices),
    ]
    return [*of_one, *_changed(program, is_late)]


def rewritten_variants(
    program: Program, rewritten: Rewritten, is_late: IsLate = lambda: False
) -> list[Variant]:
    """Return the forms of a program that substitutions lead to, which is folded and fused."""
    changes = (SUBSTITUTED + rewritten.words,)
    return [Variant(program, layers_of(program), changes), *_changed(program, is_late, changes)]


def is_substituted(variant: Variant) -> bool:
    """Tell whether substitutions were applied to a form."""
    return any(map(is_substitution, variant.changes))


def is_substitution(change: str) -> bool:
    """Tell whether what differs from a program is that substitutions were applied."""
    return change.startswith(SUBSTITUTED)


def mixed_variant(variant: Variant, last: Collection[str]) -> Variant:
    """Return a form in which some statements have and read channels last, by their names."""
    program = channels_last(variant.program, last)
    return Variant(program, layers_of(program), (*variant.changes, PARTLY_LAST), variant.slices)


def _changed(
    program: Program,
    is_late: IsLate,
    changes: tuple[str, ...] = (),
    slices: Slices | None = None,
) -> list[Variant]:
    """Return what a program's products and layouts can be changed into."""
    forms = [(program, changes)]
    for change, words in (
        (lambda form: in_phases(form, is_late), "dilated windows in phases"),
        (lambda form: joined(form, is_late), "products joined"),
        (channels_last, CHANNELS_LAST),
    ):
        changed = []
        for before, done in forms:
            after = change(before)
            if after is not before:
                changed.append((after, (*done, words)))
        forms = [*changed, *forms]
    variants = []
    for form, done in forms[:-1]:
        variants.append(Variant(form, layers_of(form), done, slices))
    return variants
