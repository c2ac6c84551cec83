"""Which derivations of common kinds of layers come with einalg?

python -m bench.common_forms [--seconds S] [--json PATH]

Plain convolutions are searched at typical sizes. Derivations of what was measured to be faster are
written to `derive/programs/forms/common_forms.json`, also for larger batches and without padding
where they hold. A table says what each search gained.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import bench
import einalg as ea
from derive.cost.model import calibrated, total
from derive.matching import kernels_of
from derive.programs.forms import common_forms
from derive.programs.forms.known_forms import KnownForm
from derive.programs.forms.layers import Layer, layers_of, search_layer
from derive.programs.forms.other_layout import LayerInside
from derive.programs.forms.similar_layers import family, outlines, sizes
from derive.results.candidates import Candidate
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget
from derive.search.outlines import Outline
from einalg.api.backend import LocalBackend
from einalg.errors import EinalgError
from einalg.language import ops
from einalg.language.ir.program import Program, as_program
from einalg.runtime.clock import Clock
from einalg.storage.atomic_file import write_whole

SECONDS = 20.0  # of a search
MIN_GAIN = 1.15  # times faster than the layer as it is
OTHERS = ((4, True), (1, False), (4, False))  # batches, and whether there is padding
CONVOLUTIONS = {1: ops.conv1d, 2: ops.conv2d, 3: ops.conv3d}
SIZES = {  # channels, and elements of each spatial axis, of large images and of small ones
    1: ((64, 2048), (256, 256)),
    2: ((64, 56), (256, 14)),
    3: ((32, 16), (64, 8)),
}
ELSEWHERE = (40, 22)  # where derivations must hold as well
Families = dict[str, list[KnownForm]]


@dataclass(frozen=True)
class Convolution:
    """A kind of convolutions of stride 1: the extents of its window, and how far its taps are
    apart.
    """

    window: tuple[int, ...]
    dilation: int = 1

    def program(self, channels: int, size: int, batch: int = 1, is_padded: bool = True) -> Program:
        """Return one with so many channels; without padding its window is inside of the image."""
        axes, padding = len(self.window), tuple[int, ...]()
        for taps in self.window:
            padding += (self.dilation * (taps // 2) * is_padded,)
        data = ea.tensor("A", (batch, channels, *(size,) * axes))
        weights = ea.tensor("K", (channels, channels, *self.window), role="weight")
        convolution = CONVOLUTIONS[axes]
        return as_program(convolution(data, weights, padding=padding, dilation=self.dilation))

    def layer(self, channels: int, size: int, batch: int = 1, is_padded: bool = True) -> Layer:
        """Return one that is large enough to be searched."""
        (layer,) = layers_of(self.program(channels, size, batch, is_padded))
        return layer


KINDS = (
    *(Convolution((taps,)) for taps in (3, 5, 7)),
    *(Convolution((1, taps)) for taps in (3, 5, 7)),
    *(Convolution((taps, 1)) for taps in (3, 5, 7)),
    *(Convolution((taps, taps)) for taps in (3, 5)),
    Convolution((3, 3), dilation=2),
    Convolution((3, 3, 3)),
)


def in_both_layouts(layer: Layer) -> list[Layer]:
    """Return a layer, and the one inside of it that has channels last."""
    inside = LayerInside.of(layer)
    return [layer] if inside is None else [layer, inside.layer]


class Maker:
    """The derivations found so far, by families of layers."""

    def __init__(self, seconds: float):
        self.seconds, self.families = seconds, Families()
        self.backend = LocalBackend()
        self.model = calibrated(self.backend)

    def rows(self, kinds: Sequence[Convolution]) -> Iterator[bench.Row]:
        """Search each kind at its sizes in both layouts; yield what that gained."""
        for kind in kinds:
            elsewhere = kind.layer(*ELSEWHERE)
            for channels, size in SIZES[len(kind.window)]:
                others = [kind.layer(channels, size, *variant) for variant in OTHERS]
                alike = map(in_both_layouts, [kind.layer(channels, size), elsewhere, *others])
                for layer, *rest in zip(*alike, strict=True):
                    yield {"channels": channels, "size": size, **self._row(layer, *rest)}

    def _row(self, layer: Layer, elsewhere: Layer, *others: Layer) -> bench.Row:
        """Search a layer, and add what is faster and holds elsewhere, also to other layers."""
        faster = self._faster(layer)
        added = [pair for pair in faster if self._followed(layer, pair[0], elsewhere) is not None]
        for candidate, _ in added:
            self._add(layer, candidate)
            for other in others:
                followed = self._followed(layer, candidate, other)
                if followed is not None and self._gains(other, followed):
                    self._add(other, followed)
        gain = max((known for _, known in added), default=1.0)
        return {"layer": family(layer), "forms": len(added), "gain": gain}

    def _faster(self, layer: Layer) -> list[tuple[Candidate, float]]:
        """Return the fastest candidate of each set of moves, with how many times faster it is."""
        budget, clock = Budget(seconds=self.seconds), Clock.of(self.seconds)
        searched = search_layer(layer, budget, self.seconds, self.backend, clock=clock)
        faster: dict[frozenset[str], tuple[Candidate, float]] = {}
        for candidate in (searched.candidate, *searched.alternatives):
            if candidate is None or not candidate.moves or not searched.original:
                continue
            gain, outline = searched.original / candidate.cost, _outline(layer, candidate)
            if gain >= MIN_GAIN and outline is not None:
                faster.setdefault(_chosen_moves(outline), (candidate, gain))
        return list(faster.values())

    def _add(self, layer: Layer, candidate: Candidate) -> None:
        """Add the derivation of a candidate to the layer inside, if it goes on there, else to the
        layer; nothing where it cannot be followed again.
        """
        places = list(outlines(layer, candidate))
        if not places:
            return
        place, outline = places[-1]
        forms = self.families.setdefault(family(place), [])
        form = KnownForm(outline, sizes(place), **common_forms.AS_ESTIMATED)
        if form not in forms:
            forms.append(form)

    @staticmethod
    def _followed(layer: Layer, candidate: Candidate, other: Layer) -> Candidate | None:
        """Return what the derivation of a layer leads to from another one; None where it does not
        hold there.
        """
        outline = _outline(layer, candidate)
        if outline is None:
            return None
        try:
            program, moves = outline.followed_from(other.program, ALL)
        except EinalgError:
            return None
        return replace(candidate, program=program, moves=moves)

    def _gains(self, layer: Layer, candidate: Candidate) -> bool:
        """Tell whether a candidate for a layer is expected to be faster than that."""
        least = MIN_GAIN * self._estimate(candidate.program)
        return self._estimate(layer.program) >= least

    def _estimate(self, program: Program) -> float:
        return total(self.model, kernels_of(lifted(program)))


def _outline(layer: Layer, candidate: Candidate) -> Outline | None:
    """Return the derivation of a candidate; None where it cannot be followed again."""
    for _, outline in outlines(layer, candidate):
        return outline
    return None


def _chosen_moves(outline: Outline) -> frozenset[str]:
    """Return the moves of a derivation without their order, in which two have the same gain."""
    return frozenset(f"{move.rule} {move.arguments}" for group in outline.groups for move in group)


def work(kinds: Sequence[Convolution], seconds: float, path: Path, json_path: Path | None) -> None:
    """Search layers of these kinds, and write what is faster."""
    maker = Maker(seconds)
    bench.report({"common layers": maker.rows(kinds)}, json_path)
    write_whole(path, common_forms.as_text(maker.families).encode())


def main() -> None:
    parser = bench.options("Which derivations of common kinds of layers come with einalg?")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each search")
    chosen = parser.parse_args()
    work(KINDS, chosen.seconds, common_forms.PATH, chosen.json)


if __name__ == "__main__":
    main()
