"""`einalg prove`: the verdict on two expressions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import einalg as ea
from einalg.cli.output import say
from einalg.cli.shape_options import Shape
from einalg.cli.sources import programs


def run(one: str, two: str, shapes: Mapping[str, Shape], weights: Iterable[str]) -> bool:
    """Print verdict and region; return whether no difference is known."""
    proof = ea.prove(*programs([one, two], shapes, weights))
    say(str(proof))
    return proof.holds
