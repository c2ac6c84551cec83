"""A space that grows by the programs of one more operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from derive.substitutions.generation.programs.enumeration import ProgramBlock, ProgramEnumeration
from derive.substitutions.generation.programs.evaluating import WORDS, evaluate, is_defined
from derive.substitutions.generation.programs.space import (
    AppliedNode,
    ClassId,
    ProgramSpace,
    TypedOperator,
)
from einalg.language.interpreters.prime_field.modular import Array, matmul

MAX_ELEMENTS = 2**21  # of the values that are computed at a time
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
        for part in _parts(space, block):
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


def _parts(space: ProgramSpace, block: ProgramBlock) -> Iterator[list[Array]]:
    """Yield the inputs of programs, as many at a time as fit into memory."""
    inputs = block.inputs()
    if not inputs:
        yield []
        return
    step = _samples(space, block.application)
    for start in range(0, len(inputs[0]), step):
        yield [ids[start : start + step] for ids in inputs]


def _samples(space: ProgramSpace, application: TypedOperator) -> int:
    """Return how many samples of the points are computed at a time."""
    kinds = [*application.types, *application.results]
    elements = max([space.elements(kind) for kind in kinds])
    return max(1, MAX_ELEMENTS // (4 * elements * space.random.points))


def grow_last(enumeration: ProgramEnumeration, size: int, goes_on: GoesOn) -> SpaceGrowth:
    """Add those programs of a size whose value another program has: values are not stored, so that
    none of a larger size can follow.
    """
    space = enumeration.space
    blocks, all_keys = [], []
    affinity = _Affinity(space)
    for block in enumeration.blocks(size):
        if not goes_on(block.count):
            break
        blocks.append(block)
        all_keys.append(affinity.keys(block))
    enumerated = sum([int((keys >= 0).sum()) for block in all_keys for keys in block])
    if not enumerated:
        return SpaceGrowth(0, 0, [])
    every = np.concatenate([keys for block in all_keys for keys in block])
    values, counts = np.unique(every[every >= 0], return_counts=True)
    known = np.fromiter(space.by_key, np.int64, len(space.by_key))
    is_new = ~np.isin(values, known)
    shared = values[~is_new | (counts > 1)]
    repeated: list[tuple[AppliedNode, ClassId]] = []
    for block, outputs in zip(blocks, all_keys):
        inputs = block.inputs()
        for output, keys in enumerate(outputs):
            rows = np.flatnonzero(np.isin(keys, shared))
            columns = [ids[rows].tolist() for ids in inputs]
            chosen = zip(*columns) if inputs else [()] * len(rows)
            kind = block.application.results[output]
            for key, ids in zip(keys[rows].tolist(), chosen):
                node = AppliedNode(block.place, ids, output)
                if space.add(node, kind, key, None):
                    repeated.append((node, space.by_node[node]))
    return SpaceGrowth(enumerated, int(is_new.sum()), repeated)


class _Affinity:
    """Fingerprints of operators that are affine in one of two inputs: a linear function of that
    input, which is found once for each value of the other one.
    """

    def __init__(self, space: ProgramSpace) -> None:
        self.space, self.points = space, space.random.points
        self._affine: dict[TypedOperator, tuple[bool, bool]] = {}

    def keys(self, block: ProgramBlock) -> list[Array]:
        """Return the fingerprints of each output of the programs of a block; -1 where a value is
        not defined.
        """
        application = block.application
        if block.is_product:
            for position in self._cheaper_first(block):
                if self._is_affine(application)[position]:
                    return self._affine_keys(block, position)
        keys: list[list[Array]] = [[] for _ in application.results]
        for part in _parts(self.space, block):
            for output, values in enumerate(self.space.evaluated(application, part)):
                found = self.space.random.fingerprints(application.results[output], values)
                keys[output].append(np.where(is_defined(values, self.space.field), found, -1))
        return [np.concatenate(parts) for parts in keys]

    def _cheaper_first(self, block: ProgramBlock) -> list[int]:
        """Return the inputs in which affinity is cheaper than evaluating each pair, the cheaper one
        first.
        """
        lengths = [len(ids) for ids in block.ids]
        costs = []
        for position, kind in enumerate(block.application.types):
            cost = lengths[1 - position] * (self.space.elements(kind) + 1)
            if cost < lengths[0] * lengths[1]:
                costs.append((cost, position))
        return [position for _, position in sorted(costs)]

    def _is_affine(self, application: TypedOperator) -> tuple[bool, bool]:
        if application not in self._affine:
            first, second = [self._is_affine_in(application, position) for position in (0, 1)]
            self._affine[application] = first, second
        return self._affine[application]

    def _is_affine_in(self, application: TypedOperator, position: int) -> bool:
        """Return whether the value at `a + b - c` is that at a, and that at b, without that at c,
        of random inputs.
        """
        space, modulus = self.space, self.space.field.modulus
        shapes = [space.types[kind].shape for kind in application.types]
        a, b, c = [space.random.draw(shapes[position]) for _ in range(3)]
        samples: list[Array] = [np.empty(0), np.empty(0)]
        samples[position] = np.stack([(a + b - c) % modulus, a, b, c])
        other = space.random.draw(shapes[1 - position])
        samples[1 - position] = np.stack([other] * 4)
        for values in evaluate(application.scopes, samples, space.field):
            if not is_defined(values, space.field).all():
                return False
            combined = (values[1] + values[2] - values[3]) % modulus
            if (combined != values[0]).any():
                return False
        return True

    def _affine_keys(self, block: ProgramBlock, position: int) -> list[Array]:
        space, modulus = self.space, self.space.field.modulus
        varied, fixed = block.ids[position], block.ids[1 - position]
        flat = space.values(varied).reshape(len(varied), -1)
        parts: list[list[Array]] = [[] for _ in block.application.results]
        step = self._step(block, position)
        for start in range(0, len(fixed), step):
            functions = self._functions(block, position, fixed[start : start + step])
            for output, (matrix, constant) in enumerate(functions):
                words = (matmul(flat, matrix, modulus) + constant) % modulus
                words = words.reshape(len(varied), -1, WORDS)
                mark = space.random.functional(*self._result(block, output))[1]
                parts[output].append(space.random.packed(words, mark))
        keys = []
        for columns in parts:
            matrix = np.concatenate(columns, axis=1)
            if position == 1:
                matrix = matrix.T
            keys.append(matrix.ravel() if block.mask is None else matrix[block.mask])
        return keys

    def _result(self, block: ProgramBlock, output: int) -> tuple[int, int]:
        kind = block.application.results[output]
        return kind, self.space.elements(kind)

    def _step(self, block: ProgramBlock, position: int) -> int:
        """Return for how many values of the other input functions are found at a time."""
        units = self.space.elements(block.application.types[position]) + 1
        return max(1, _samples(self.space, block.application) // units)

    def _functions(
        self, block: ProgramBlock, position: int, fixed: Array
    ) -> list[tuple[Array, Array]]:
        """Return, for each output, the linear functions from one input to words of fingerprints, as
        columns, and their constants.
        """
        space, points, modulus = self.space, self.points, self.space.field.modulus
        shape = space.types[block.application.types[position]].shape
        size = space.elements(block.application.types[position])
        units = np.concatenate([np.zeros((1, size), np.int64), np.eye(size, dtype=np.int64)])
        units = units.reshape(size + 1, *shape)
        others = space.values(fixed)
        others = others.reshape(-1, *others.shape[2:])
        samples: list[Array] = [np.empty(0), np.empty(0)]
        samples[position] = np.concatenate([units] * len(others))
        samples[1 - position] = np.repeat(others, size + 1, axis=0)
        functions = []
        for output, values in enumerate(evaluate(block.application.scopes, samples, space.field)):
            matrix, _ = space.random.functional(*self._result(block, output))
            by_point = values.reshape(len(fixed), points, size + 1, -1)
            slices = matrix.reshape(points, -1, WORDS)
            words = matmul(by_point, slices[None], modulus)  # fixed, points, units, words
            constant = words[:, :, 0].sum(axis=1) % modulus
            linear = (words[:, :, 1:] - words[:, :, :1]) % modulus
            columns = linear.transpose(1, 2, 0, 3).reshape(points * size, -1)
            functions.append((columns, constant.reshape(-1)))
        return functions
