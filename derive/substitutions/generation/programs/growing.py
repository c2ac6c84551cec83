"""A space that grows by the programs of one more operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from derive.substitutions.generation.programs.enumeration import ProgramEnumeration
from derive.substitutions.generation.programs.evaluating import is_defined
from derive.substitutions.generation.programs.fingerprinting import Fingerprints, batches
from derive.substitutions.generation.programs.space import AppliedNode, ClassId
from einalg.language.interpreters.prime_field.modular import Array

GoesOn = Callable[[int], bool]  # is told the number of programs of a block


class SpaceGrowth(NamedTuple):
    """The programs of one size: how many there are, of how many values, and those whose value an
    earlier program has, each with its class.
    """

    enumerated: int
    distinct: int
    repeated: list[tuple[AppliedNode, ClassId]]


def grow(enumeration: ProgramEnumeration, size: int, goes_on: GoesOn) -> SpaceGrowth:
    """Add the programs of a size to a space, with their values."""
    space = enumeration.space
    known, enumerated = len(space.classes), 0
    repeated: list[tuple[AppliedNode, ClassId]] = []
    for block in list(enumeration.blocks(size)):
        if not goes_on(block.count):
            break
        for part in batches(space, block):
            results = space.evaluated(block.application, part)
            rows = list(zip(*[ids.tolist() for ids in part])) if part else [()]
            for output, values in enumerate(results):
                kind = block.application.results[output]
                keys = space.random.fingerprints(kind, values).tolist()
                defined = is_defined(values, space.field)
                for row, inputs in enumerate(rows):
                    if not defined[row]:
                        continue
                    enumerated += 1
                    node = AppliedNode(block.place, inputs, output)
                    if space.add(node, kind, keys[row], values[row]):
                        repeated.append((node, space.by_node[node]))
    return SpaceGrowth(enumerated, len(space.classes) - known, repeated)


def grow_last(enumeration: ProgramEnumeration, size: int, goes_on: GoesOn) -> SpaceGrowth:
    """Add those programs of a size whose value another program has, without their values, so that
    none of a larger size can follow.

    Looked at are programs that read the first inputs of each shape. Of two programs of one value,
    one of which reads all inputs of a shape that the other one does, some renaming does so; two of
    this size that each read an input of their own are not met: such a value depends on neither.
    """
    space = enumeration.space
    blocks, all_keys = [], []
    fingerprints = Fingerprints(space)
    for block in enumeration.first_blocks(size):
        if not goes_on(block.count):
            break
        blocks.append(block)
        all_keys.append(fingerprints.keys(block))
    enumerated = sum([int((keys >= 0).sum()) for block in all_keys for keys in block])
    if not enumerated:
        return SpaceGrowth(0, 0, [])
    every = np.concatenate([keys for block in all_keys for keys in block])
    values, counts = np.unique(every[every >= 0], return_counts=True)
    is_new = ~_are_among(values, np.sort(np.fromiter(space.by_key, np.int64, len(space.by_key))))
    shared = values[~is_new | (counts > 1)]
    repeated: list[tuple[AppliedNode, ClassId]] = []
    for block, outputs in zip(blocks, all_keys):
        inputs = block.inputs()
        for output, keys in enumerate(outputs):
            rows = np.flatnonzero(_are_among(keys, shared))
            columns = [ids[rows].tolist() for ids in inputs]
            chosen = zip(*columns) if inputs else [()] * len(rows)
            kind = block.application.results[output]
            for key, ids in zip(keys[rows].tolist(), chosen):
                node = AppliedNode(block.place, ids, output)
                if space.add(node, kind, key, None):
                    repeated.append((node, space.by_node[node]))
    return SpaceGrowth(enumerated, int(is_new.sum()), repeated)


def _are_among(keys: Array, others: Array) -> Array:
    """Return which keys are among others, which are sorted."""
    if not len(others):
        return np.zeros(len(keys), bool)
    places = np.searchsorted(others, keys)
    return others[np.minimum(places, len(others) - 1)] == keys
