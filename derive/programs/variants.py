"""The forms of a program in which its layers are searched: in slices, joined, channels last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from derive.programs.layer_search import search_layers
from derive.programs.layers import Layer, SearchedLayer, layers_of, with_layers
from derive.programs.passes.batch_splitting import sliced
from derive.programs.passes.horizontal_fusion import joined
from derive.programs.passes.layout_selection import channels_last
from derive.programs.passes.normalise import with_epilogues
from derive.programs.task import Task
from einalg.language.analysis.batching import Slices
from einalg.language.ir.program import Program

IsLate = Callable[[], bool]


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
    """A form whose layers were searched."""

    layers: Sequence[SearchedLayer]

    @property
    def is_searched(self) -> bool:
        """Whether anything was found out about any of its layers, if it has any."""
        return not self.layers or any(layer.original is not None for layer in self.layers)

    @property
    def derived(self) -> Program:
        """The program with what was found for its layers."""
        return with_epilogues(with_layers(self.program, self.layers, _is_better))


def _is_better(layer: SearchedLayer) -> bool:
    candidate = layer.candidate
    if candidate is None or not candidate.moves:
        return False
    return layer.original is None or candidate.cost < layer.original


def variants_of(
    program: Program, has_slices: bool = False, is_late: IsLate = lambda: False
) -> list[Variant]:
    """Return the forms of one slice, if the program has slices, then those of the whole.

    The program as it is comes last. Nothing more is changed once it `is_late`.
    """
    split = sliced(program) if has_slices else None
    if split is None:
        return _changed(program, is_late)
    one, slices = split
    changes = (f"{slices.count} slices, one by one",)
    return [*_changed(one, is_late, changes, slices), *_changed(program, is_late)]


def _changed(
    program: Program,
    is_late: IsLate,
    changes: tuple[str, ...] = (),
    slices: Slices | None = None,
) -> list[Variant]:
    """Return what a program's products and layouts can be changed into, then itself."""
    forms = [(program, changes)]
    for change, words in (
        (lambda form: joined(form, is_late), "products joined"),
        (channels_last, "channels last inside"),
    ):
        changed = []
        for before, done in forms:
            after = change(before)
            if after is not before:
                changed.append((after, (*done, words)))
        forms = [*changed, *forms]
    variants = []
    for form, done in forms:
        variants.append(Variant(form, layers_of(form), done, slices))
    return variants


def search_variants(variants: Sequence[Variant], task: Task) -> list[SearchedVariant]:
    """Return the forms with the results of the searches of all their layers."""
    layers = [layer for variant in variants for layer in variant.layers]
    results = iter(search_layers(layers, task))
    searched = []
    for variant in variants:
        own = [next(results) for _ in variant.layers]
        searched.append(SearchedVariant(variant.program, own, variant.changes, variant.slices))
    return searched
