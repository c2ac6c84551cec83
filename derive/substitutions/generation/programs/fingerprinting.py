"""Fingerprints of many programs of one operator, whose values are not stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from derive.substitutions.generation.programs.enumeration import ProgramBlock
from derive.substitutions.generation.programs.evaluating import (
    WORDS,
    enough_samples,
    evaluate,
    is_defined,
    name_of,
)
from derive.substitutions.generation.programs.space import ProgramSpace, TypedOperator
from einalg.language.interpreters.prime_field.modular import Array, matmul
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Tensor
from einalg.language.ir.traversal import accesses, map_accesses, padded_like

MAX_ELEMENTS = 2**20  # of the values that are computed at a time
FEW_PROGRAMS = 300  # which are evaluated sooner than what their operator is
UNDEFINED = -1  # in the place of a fingerprint


def batches(space: ProgramSpace, block: ProgramBlock) -> Iterator[list[Array]]:
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


class LastStep(NamedTuple):
    """An expression in two steps: `first` of its tensors, and `last` of the tensor `a0` that this
    gives; None where there is one step.
    """

    first: Scope
    last: Scope | None


def in_steps(scope: Scope) -> LastStep:
    """Return an expression that reads one scope only as two steps.

    >>> import einalg as ea
    >>> x, w = ea.tensor("a0", (2, 3)), ea.tensor("a1", (3, 2))
    >>> print(in_steps(ea.ops.relu(ea.ops.matmul(x, w))).last)
    L[i:2, j:2](Max(0, a0[i, j]))
    >>> in_steps(ea.ops.matmul(x, w)).last is None
    True
    """
    tensors = list(dict.fromkeys([access.tensor for access in accesses(scope.body)]))
    if len(tensors) != 1 or not isinstance(tensors[0], Scope):
        return LastStep(scope, None)
    (first,) = tensors
    result = Tensor(name_of(0), first.box, first.dtype)

    def change(access: Access) -> Access:
        return Access.of(padded_like(access.base, result), access.subscripts)

    return LastStep(first, Scope(scope.iterators, scope.where, map_accesses(scope.body, change)))


class Fingerprints:
    """Fingerprints of the programs of blocks.

    Where the first step of an operator is affine in one of two inputs, it is a linear function of
    that input, which is found once for each value of the other one. Where an operator is affine in
    both together, a fingerprint is the sum of what each input gives alone.
    """

    def __init__(self, space: ProgramSpace) -> None:
        self.space, self.points = space, space.random.points
        self._steps: dict[TypedOperator, list[LastStep]] = {}
        self._affine: dict[TypedOperator, tuple[bool, bool]] = {}
        self._sums: dict[TypedOperator, bool] = {}

    def keys(self, block: ProgramBlock) -> list[Array]:
        """Return the fingerprints of each output of the programs of a block; `UNDEFINED` where a
        value is not defined.
        """
        application = block.application
        if block.is_product and block.count > FEW_PROGRAMS:
            if self.is_sum(application):
                return self._sum_keys(block)
            for position in self._cheaper_first(block):
                if self.is_affine(application)[position]:
                    return self._affine_keys(block, position)
        keys: list[list[Array]] = [[] for _ in application.results]
        for part in batches(self.space, block):
            for output, values in enumerate(self.space.evaluated(application, part)):
                keys[output].append(self._of_values(application.results[output], values))
        return [np.concatenate(parts) for parts in keys]

    def _of_values(self, kind: int, values: Array) -> Array:
        keys = self.space.random.fingerprints(kind, values)
        return np.where(is_defined(values, self.space.field), keys, UNDEFINED)

    def _cheaper_first(self, block: ProgramBlock) -> list[int]:
        """Return the inputs in which affinity is cheaper than evaluating each pair, the cheaper one
        first.
        """
        costs = []
        for position, kind in enumerate(block.application.types):
            cost = len(block.ids[1 - position]) * (self.space.elements(kind) + 1)
            if cost < block.count:
                costs.append((cost, position))
        return [position for _, position in sorted(costs)]

    def _steps_of(self, application: TypedOperator) -> list[LastStep]:
        if application not in self._steps:
            self._steps[application] = [in_steps(scope) for scope in application.scopes]
        return self._steps[application]

    def is_affine(self, application: TypedOperator) -> tuple[bool, bool]:
        if application not in self._affine:
            first, second = [self._is_affine_in(application, (place,)) for place in (0, 1)]
            self._affine[application] = first, second
        return self._affine[application]

    def is_sum(self, application: TypedOperator) -> bool:
        """Return whether an operator is a sum of functions of one input each."""
        if application not in self._sums:
            is_one_step = all(step.last is None for step in self._steps_of(application))
            self._sums[application] = is_one_step and self._is_affine_in(application, (0, 1))
        return self._sums[application]

    def _is_affine_in(self, application: TypedOperator, positions: Sequence[int]) -> bool:
        """Return whether the first step at `a + b - c` is that at a, and that at b, without that at
        c, of random inputs in some positions: of so many that enough elements are compared.
        """
        space, modulus = self.space, self.space.field.modulus
        shapes = [space.types[kind].shape for kind in application.types]
        count = enough_samples([step.first.shape for step in self._steps_of(application)])
        samples: list[Array] = []
        for position, shape in enumerate(shapes):
            a, b, c = [space.random.draw((count, *shape)) for _ in range(3)]
            if position in positions:
                samples.append(np.concatenate([(a + b - c) % modulus, a, b, c]))
            else:
                samples.append(np.concatenate([a] * 4))
        for values in self._first_values(application, samples):
            if not is_defined(values, space.field).all():
                return False
            at_sum, at_a, at_b, at_c = values.reshape(4, count, *values.shape[1:])
            if ((at_a + at_b - at_c - at_sum) % modulus).any():
                return False
        return True

    def _first_values(self, application: TypedOperator, samples: list[Array]) -> list[Array]:
        firsts = [step.first for step in self._steps_of(application)]
        return evaluate(firsts, samples, self.space.field)

    def _sum_keys(self, block: ProgramBlock) -> list[Array]:
        """Return the fingerprints of an operator that is a sum of functions of one input each."""
        application, random = block.application, self.space.random
        first, second = [self._words_alone(block, position) for position in (0, 1)]
        constants = self._words(application, self._zeros(application, 1))
        results = []
        for kind, one, two, (constant, _) in zip(application.results, first, second, constants):
            words = one[0][:, None] + two[0][None, :] - constant
            keys = random.packed(words % self.space.field.modulus, random.mark(kind))
            keys[~(one[1][:, None] & two[1][None, :])] = UNDEFINED
            results.append(keys.ravel() if block.mask is None else keys[block.mask])
        return results

    def _words_alone(self, block: ProgramBlock, position: int) -> list[tuple[Array, Array]]:
        """Return the residues of each output at the values of one input, where the other one is 0,
        and which are defined.
        """
        application, ids = block.application, block.ids[position]
        step = _samples(self.space, application)
        parts: list[list[tuple[Array, Array]]] = [[] for _ in application.results]
        for start in range(0, len(ids), step):
            values = self.space.values(ids[start : start + step])
            samples = self._zeros(application, len(values))
            samples[position] = values.reshape(samples[position].shape)
            for part, words in zip(parts, self._words(application, samples)):
                part.append(words)
        joined = []
        for part in parts:
            words, are_defined = zip(*part)
            joined.append((np.concatenate(words), np.concatenate(are_defined)))
        return joined

    def _zeros(self, application: TypedOperator, count: int) -> list[Array]:
        """Return inputs of some programs that are 0."""
        shapes = [self.space.types[kind].shape for kind in application.types]
        return [np.zeros((count * self.points, *shape), np.int64) for shape in shapes]

    def _words(
        self, application: TypedOperator, samples: list[Array]
    ) -> Iterator[tuple[Array, Array]]:
        """Yield the residues of each output of some programs, and which are defined."""
        for kind, values in zip(application.results, self._first_values(application, samples)):
            by_point = values.reshape(-1, self.points, *values.shape[1:])
            yield self.space.random.words(kind, by_point), is_defined(by_point, self.space.field)

    def _affine_keys(self, block: ProgramBlock, position: int) -> list[Array]:
        fixed, mask = block.ids[1 - position], block.mask
        if mask is None:
            mask = np.ones([len(ids) for ids in block.ids], bool)
        if position == 1:
            mask = mask.T
        parts: list[list[Array]] = [[] for _ in block.application.results]
        count = self._count_of_functions(block, position)
        for start in range(0, len(fixed), count):
            part = slice(start, start + count)
            functions = self._functions(block, position, fixed[part])
            for output, (function, are_defined) in enumerate(functions):
                step = self._steps_of(block.application)[output]
                kind = block.application.results[output]
                if step.last is None:
                    keys = self._keys_of_functions(kind, function, block.ids[position])
                else:
                    chosen = mask[:, part]
                    keys = self._keys_of_last(kind, function, block.ids[position], step, chosen)
                keys[:, ~are_defined] = UNDEFINED
                parts[output].append(keys)
        results = []
        for matrices in parts:
            matrix = np.concatenate(matrices, axis=1)
            if position == 1:
                results.append(matrix.T[mask.T])
            else:
                results.append(matrix[mask])
        return results

    def _count_of_functions(self, block: ProgramBlock, position: int) -> int:
        """Return for how many values of the other input functions are found at a time."""
        units = self.space.elements(block.application.types[position]) + 1
        return max(1, _samples(self.space, block.application) // units)

    def _functions(
        self, block: ProgramBlock, position: int, fixed: Array
    ) -> list[tuple[Array, Array]]:
        """Return, for each output, the affine functions from one input to the first step: arrays of
        functions, points, and elements of the input with the constant as the first row; and which
        of these functions are defined.
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
        for values in self._first_values(block.application, samples):
            by_point = values.reshape(len(fixed), points, size + 1, -1)
            are_defined = is_defined(by_point, space.field)
            by_point[:, :, 1:] = (by_point[:, :, 1:] - by_point[:, :, :1]) % modulus
            functions.append((by_point, are_defined))
        return functions

    def _keys_of_functions(self, kind: int, functions: Array, ids: Array) -> Array:
        """Return the fingerprints of functions, along the second axis, at values of the input: what
        is linear in a result is linear in the input.
        """
        space, modulus = self.space, self.space.field.modulus
        functional, mark = space.random.functional(kind, space.elements(kind))
        slices = functional.reshape(self.points, -1, WORDS)
        words = matmul(functions, slices[None], modulus)  # functions, points, rows, words
        constant = words[:, :, 0].sum(axis=1).reshape(-1) % modulus
        columns = words[:, :, 1:].transpose(1, 2, 0, 3).reshape(-1, len(functions) * WORDS)
        flat = space.values(ids).reshape(len(ids), -1)
        words = (matmul(flat, columns, modulus) + constant) % modulus
        return space.random.packed(words.reshape(len(ids), -1, WORDS), mark)

    def _keys_of_last(
        self, kind: int, functions: Array, ids: Array, step: LastStep, chosen: Array
    ) -> Array:
        """Return the fingerprints of the last step after functions, along the second axis, at those
        values of the input that are chosen for each.
        """
        assert step.last is not None
        keys = np.full(chosen.shape, UNDEFINED)
        count = max(1, MAX_ELEMENTS // (4 * max(1, functions[0, :, 0].size)))
        for column, function in enumerate(functions):
            places = np.flatnonzero(chosen[:, column])
            for start in range(0, len(places), count):
                part = places[start : start + count]
                first = self._at(function, ids[part]).reshape(-1, *step.first.shape)
                (values,) = evaluate([step.last], [first], self.space.field)
                values = values.reshape(len(part), self.points, *values.shape[1:])
                keys[part, column] = self._of_values(kind, values)
        return keys

    def _at(self, function: Array, ids: Array) -> Array:
        """Return the values of a function at those of an input: programs, points, elements."""
        modulus = self.space.field.modulus
        flat = self.space.values(ids).reshape(len(ids), self.points, -1).transpose(1, 0, 2)
        values = (matmul(flat, function[:, 1:], modulus) + function[:, :1]) % modulus
        return values.transpose(1, 0, 2)
