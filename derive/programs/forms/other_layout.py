"""Layers whose channels are moved last, and the layer that is inside then.

A derivation that begins by moving the channels goes on as that of the layer with channels last, at
another place. So what is derived in one layout holds in the other.
"""

from __future__ import annotations

from dataclasses import dataclass

from derive.programs.forms.layers import Layer, layers_of
from derive.rewriting.body_queries import has_reduction
from derive.rewriting.moves import Move
from derive.rewriting.paths import Path, paths
from derive.rules import ALL
from derive.rules.inter.lifting_nesting import lifted
from derive.search.cleanup import cleaned_up
from derive.search.outlines import Outline
from derive.search.starts.channels_last import channels_last

RESULT: Path = ("O",)  # of a layer


@dataclass(frozen=True)
class LayerInside:
    """The `layer` with channels last that another one contains, at a path, after some moves."""

    moves: tuple[Move, ...]
    path: Path
    layer: Layer

    @classmethod
    def of(cls, whole: Layer) -> LayerInside | None:
        """Return the layer inside; None where channels are last already, or there are none."""
        moved, moves = channels_last(whole.program, ALL)
        if not moves:
            return None
        program, _ = cleaned_up(moved, ALL)
        places = [path for path, scope in paths(program) if has_reduction(scope.body)]
        layers = layers_of(lifted(program))
        if len(places) != 1 or len(layers) != 1:
            return None
        return cls(tuple(moves), places[0], layers[0])

    def of_whole(self, outline: Outline) -> Outline | None:
        """Return the derivation of the whole that goes on by one of the layer inside."""
        groups: list[tuple[Move, ...]] = [self.moves]
        for group in outline.groups:
            moved = _at_other_place(group, RESULT, self.path)
            if moved is None:
                return None
            groups.append(moved)
        return Outline(tuple(groups))

    def of_inside(self, outline: Outline) -> Outline | None:
        """Return the rest of a derivation of the whole, if it begins by moving the channels."""
        if outline.groups[:1] != (self.moves,):
            return None
        groups = []
        for group in outline.groups[1:]:
            moved = _at_other_place(group, self.path, RESULT)
            if moved is None:
                return None
            groups.append(moved)
        return Outline(tuple(groups))


def _at_other_place(group: tuple[Move, ...], before: Path, after: Path) -> tuple[Move, ...] | None:
    """Return moves below a path as moves below another one; None where one is elsewhere."""
    moved = []
    for move in group:
        if move.path[: len(before)] != before:
            return None
        moved.append(Move(move.rule, after + move.path[len(before) :], move.args))
    return tuple(moved)
