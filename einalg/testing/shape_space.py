"""The shapes for which a function of shapes has an expression: how many axes, and which sizes go
together.

An example: of `lambda a, b: ea.ops.matmul(ea.tensor("A", a), ea.tensor("B", b))` both shapes have
two axes, and the last size of the first is the first size of the second.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, Signature, signature
from itertools import combinations, islice, product
from math import gcd, prod
from typing import Any

import numpy as np

from einalg.errors import NotationError, UseError
from einalg.language.ir.body import REDUCTIONS
from einalg.language.ir.program import Program, as_program
from einalg.language.notation.parser import parse

Shape = tuple[int, ...]
Shapes = tuple[Shape, ...]
BASES = ((2, 1), (3, 4, 6, 8, 12))  # sizes of all axes that are tried, some where others fail
SIZES = (1, 2, 3, 5, 4, 7)
NO_TENSORS = {"L", *REDUCTIONS}  # that have subscripts in a text
MAX_RANK = 5
MAX_INPUTS = 6  # of a function with *shapes
MAX_TRIALS = 5000  # numbers of axes
MAX_ELEMENTS = 512  # of all inputs together
MAX_PARTNERS, MAX_COMBINATIONS = 3, 60  # of axes that grow together
HALF, BROADCASTING = 0.5, 0.3  # shares of the shapes of a pool
ATTEMPTS = 12  # at shapes of a pool, for each that it holds


class Family:
    """The expressions of a function of shapes, each made once; `ranks` are the numbers of axes
    where these are known.
    """

    def __init__(self, expected: Callable[..., Any], ranks: Shape | None = None):
        self._expected = expected
        self._known_ranks = ranks
        self._programs: dict[Shapes, Program | None] = {}
        self.refusal: Exception | None = None  # the first error of the function

    def program(self, shapes: Shapes) -> Program | None:
        """Return the expression for some shapes; None where there is none."""
        if shapes not in self._programs:
            self._programs[shapes] = self._made(shapes)
        return self._programs[shapes]

    def _made(self, shapes: Shapes) -> Program | None:
        try:
            made = self._expected(*shapes)
        except Exception as error:  # of shapes that do not fit, also from unpacking them
            self.refusal = self.refusal or error
            return None
        program = as_program(made)
        if sorted(t.shape for t in program.inputs.values()) != sorted(shapes):
            self.refusal = UseError(_other_shapes(program, shapes))
            return None
        return program

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters in their places."""
        return tuple([p.name for p in self._parameters])

    @cached_property
    def _parameters(self) -> list[Parameter]:
        places = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        parameters = [p for p in signature(self._expected).parameters.values() if p.kind in places]
        return [p for p in parameters if p.default is p.empty or _is_shape(p.default)]

    @property
    def example(self) -> Shapes | None:
        """The shapes that are the default values of the parameters; None without any."""
        defaults = [p.default for p in self._parameters]
        if not defaults or Parameter.empty in defaults:
            return None
        return tuple(map(tuple, defaults))

    def bases(self) -> Iterator[Shapes]:
        """Yield shapes that fit, one for each number of axes, those of few axes first.

        Raises `UseError` where there are none.
        """
        if self.example is not None:
            if self.program(self.example) is None:
                raise self._no_shapes(f"the shapes {self.example} of its defaults")
            yield self.example
            return
        for sizes in BASES:
            for count in self._counts():
                is_possible = False
                for shapes in islice(self._uniform(sizes, count), MAX_TRIALS):
                    if shapes is not None:
                        is_possible = True
                        yield shapes
                if is_possible:
                    return
        raise self._no_shapes("any of the shapes that were tried")

    def _uniform(self, sizes: Sequence[int], count: int) -> Iterator[Shapes | None]:
        """Yield shapes of so many inputs that fit, with the first size along all axes that does;
        None where none does.
        """
        for ranks in [self._known_ranks] if self._known_ranks else _ranks(count):
            fitting = None
            for size in sizes:
                shapes = tuple([(size,) * rank for rank in ranks])
                if self.program(shapes) is not None:
                    fitting = shapes
                    break
            yield fitting

    def _counts(self) -> Sequence[int]:
        """Return how many shapes the function may take."""
        count = len(self._parameters)
        for parameter in signature(self._expected).parameters.values():
            if parameter.kind is Parameter.VAR_POSITIONAL:
                return range(max(count, 1), MAX_INPUTS + 1)
        return [count]

    def _no_shapes(self, what: str) -> UseError:
        example = ", ".join(f"{name}=(2, 3)" for name in self.names) or "a=(2, 3)"
        reason = str(self.refusal).replace("\n", "\n  ")
        return UseError(
            f"`expected` has no expression for {what}; the first error was\n"
            f"  {type(self.refusal).__name__}: {reason}\n"
            f"  give shapes that fit as defaults: lambda {example}: …"
        )


def family_of_text(text: str) -> Family:
    """Return the expressions of a text, for any shapes of the tensors that it reads, in order.

    Raises `NotationError` for a text that is not in the notation.

    >>> family = family_of_text("O[i] += x[k]*A.pad(1, 0)[i, k]")
    >>> family.names, next(family.bases())
    (('x', 'A'), ((2,), (2, 2)))
    """
    try:
        tree = ast.parse(text.strip())
    except SyntaxError:
        parse(text)  # says what is wrong
        raise
    ranks = _ranks_of_inputs(tree)

    def expected(*shapes: Shape) -> Any:
        return parse(text, **dict(zip(ranks, shapes)))

    kind = Parameter.POSITIONAL_OR_KEYWORD
    parameters = [Parameter(name, kind) for name in ranks]
    expected.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return Family(expected, tuple(ranks.values()))


def _ranks_of_inputs(tree: ast.Module) -> dict[str, int]:
    """Return the number of subscripts of every tensor that no statement is called like."""
    assigned: set[str] = set()
    reads: list[tuple[tuple[int, int], str, int]] = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Subscript):
            continue
        base = node.value
        while isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
            base = base.func.value  # of A.pad(…)
        if not isinstance(base, ast.Name):
            continue
        if isinstance(node.ctx, ast.Store):
            assigned.add(base.id)
        elif base.id not in NO_TENSORS:
            rank = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else 1
            reads.append(((node.lineno, node.col_offset), base.id, rank))
    ranks: dict[str, int] = {}
    for _, name, rank in sorted(reads):
        if name not in assigned:
            ranks.setdefault(name, rank)
    return ranks


def _ranks(count: int) -> list[Shape]:
    """Return numbers of axes for so many inputs, few axes first, and scalars last."""
    ranks = product(range(MAX_RANK + 1), repeat=count)
    return sorted(ranks, key=lambda one: (0 in one, max(one, default=0), sum(one)))


def _is_shape(value: Any) -> bool:
    """Tell whether the default value of a parameter is a shape, and no other option."""
    return isinstance(value, (tuple, list)) and all(type(size) is int for size in value)


def _other_shapes(program: Program, shapes: Shapes) -> str:
    inputs = ", ".join(f"{name} {t.shape}" for name, t in program.inputs.items())
    return (
        f"for the shapes {', '.join(map(str, shapes))} the expression reads {inputs or 'nothing'}\n"
        "  make each input of one of the shapes, and read all of them"
    )


@dataclass(frozen=True)
class Axis:
    """An axis of an input, by the places of both."""

    place: int
    axis: int


@dataclass(frozen=True)
class ShapeSpace:
    """Shapes around a base that fits: axes of one group have sizes in a fixed proportion."""

    family: Family
    base: Shapes

    def fits(self, shapes: Shapes) -> bool:
        """Tell whether there is an expression, with an output and inputs that are small enough."""
        return self.family.program(shapes) is not None

    @cached_property
    def _axes(self) -> list[Axis]:
        return [
            Axis(place, axis) for place, shape in enumerate(self.base) for axis in range(len(shape))
        ]

    def _grown(self, axes: Sequence[Axis]) -> Shapes | None:
        """Return the base with larger sizes along some axes; None where these do not fit."""
        for grow in (lambda size: size + 1, lambda size: 2 * size):
            sizes = [list(shape) for shape in self.base]
            for one in axes:
                sizes[one.place][one.axis] = grow(sizes[one.place][one.axis])
            shapes = tuple(map(tuple, sizes))
            if self.fits(shapes):
                return shapes
        return None

    @cached_property
    def groups(self) -> list[tuple[Axis, ...]]:
        """The axes whose sizes go together; one that is free is a group of its own."""
        groups: list[tuple[Axis, ...]] = []
        for axis in self._axes:
            if any(axis in group for group in groups):
                continue
            mutual = [one for one in self._needed[axis] if axis in self._needed[one]]
            groups.append(tuple(mutual))
        return groups

    @cached_property
    def _needed(self) -> dict[Axis, tuple[Axis, ...]]:
        """The axes that must grow where one does, itself among them."""
        tied = [axis for axis in self._axes if self._grown([axis]) is None]
        needed: dict[Axis, tuple[Axis, ...]] = {axis: (axis,) for axis in self._axes}
        needed.update({axis: self._partners(axis, tied) for axis in tied})
        return needed

    def _partners(self, axis: Axis, tied: Sequence[Axis]) -> tuple[Axis, ...]:
        """Return the fewest axes that can grow together with one, itself among them."""
        others = [one for one in (*tied, *self._axes) if one != axis]
        for count in range(1, MAX_PARTNERS + 1):
            for chosen in islice(combinations(dict.fromkeys(others), count), MAX_COMBINATIONS):
                if self._grown([axis, *chosen]) is not None:
                    return (axis, *chosen)
        return (axis,)

    def shapes(self, multiples: Sequence[int], ones: Sequence[Axis] = ()) -> Shapes:
        """Return shapes with a multiple for each group, and size 1 along some axes."""
        sizes = [list(shape) for shape in self.base]
        for group, multiple in zip(self.groups, multiples):
            for one in group:
                sizes[one.place][one.axis] = self._proportion(one, group) * multiple
        for one in ones:
            sizes[one.place][one.axis] = 1
        return tuple(map(tuple, sizes))

    def _proportion(self, axis: Axis, group: Sequence[Axis]) -> int:
        sizes = [self.base[one.place][one.axis] for one in group]
        return self.base[axis.place][axis.axis] // (gcd(*sizes) or 1)

    def _with_needed(self, multiples: list[int]) -> list[int]:
        """Return multiples that are equal where one axis needs another one."""
        joined = list(multiples)
        for place, group in enumerate(self.groups):
            for other, others in enumerate(self.groups):
                if set(self._needed[group[0]]).intersection(others):
                    joined[other] = joined[place]
        return joined

    def pool(self, count: int, seed: int, empty: bool = False) -> list[Shapes]:
        """Return different shapes that fit, the smallest first: of size 1, equal and different
        sizes, and some that broadcast; with `empty`, behind them those that have size 0 along one
        group of axes, and along all.
        """
        rng = np.random.default_rng(seed)
        chosen = dict.fromkeys([self.base])
        for multiples in (np.ones(len(self.groups), int), np.arange(len(self.groups)) + 2):
            self._add(chosen, self.shapes(multiples.tolist()))
        for _ in range(count * ATTEMPTS):
            if len(chosen) >= count:
                break
            multiples = rng.choice(SIZES, len(self.groups)).tolist()
            if rng.random() < HALF:
                multiples = self._with_needed(multiples)
            ones: list[Axis] = []
            if rng.random() < BROADCASTING:
                ones = [one for one in self._axes if rng.random() < BROADCASTING]
            self._add(chosen, self.shapes(multiples, ones))
        if empty:
            for multiples in self._empty():
                self._add(chosen, self.shapes(multiples))
        return sorted(chosen, key=size_of)

    def _empty(self) -> Iterator[list[int]]:
        """Yield multiples with 0 for one group after the other, and for all."""
        count = len(self.groups)
        for place in range(count):
            multiples = list(range(2, count + 2))
            multiples[place] = 0
            yield self._with_needed(multiples)
            yield multiples
        yield [0] * count

    def _add(self, chosen: dict[Shapes, None], shapes: Shapes) -> None:
        if sum(map(prod, shapes)) <= MAX_ELEMENTS and self.fits(shapes):
            chosen[shapes] = None

    def smaller(self, shapes: Shapes, most: int) -> list[Shapes]:
        """Return shapes that fit in others and are no larger along any axis, the smallest first."""
        multiples = [self._multiple(group, shapes) for group in self.groups]
        ones = [one for one in self._axes if shapes[one.place][one.axis] == 1]
        while prod(multiples) > most:
            multiples[multiples.index(max(multiples))] -= 1
        candidates: dict[Shapes, None] = {}
        for chosen in product(*(range(1, multiple + 1) for multiple in multiples)):
            candidates[self.shapes(chosen, ones)] = None
        return sorted(candidates, key=size_of)

    def _multiple(self, group: tuple[Axis, ...], shapes: Shapes) -> int:
        multiples = [1]
        for one in group:
            multiples.append(shapes[one.place][one.axis] // (self._proportion(one, group) or 1))
        return max(multiples)


def size_of(shapes: Shapes) -> tuple[Any, ...]:
    """Return the key by which shapes are ordered: those without elements last, and few elements
    first, then small sizes.
    """
    is_empty = any(0 in shape for shape in shapes)
    return is_empty, sum(map(prod, shapes)), sum(map(sum, shapes)), shapes


def by_name(parameters: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return names of inputs in the order of parameters that are called like them, in capitals or
    not; else as they are.

    >>> by_name(["x", "a"], ["A", "x"]), by_name(["p", "q"], ["A", "x"])
    (['x', 'A'], ['A', 'x'])
    """
    for spelled in (str, str.lower):
        known = {spelled(name): name for name in names}
        wanted = [spelled(name) for name in parameters]
        if len(known) == len(names) and sorted(known) == sorted(wanted):
            return [known[name] for name in wanted]
    return list(names)


def input_order(family: Family, samples: Sequence[Shapes]) -> list[str]:
    """Return the names of the inputs in the order of the shapes: by the names of the parameters,
    by the shapes that the inputs have, or as the expression reads them.

    >>> import einalg as ea
    >>> text = "O[i] += x[k]*A[i,k]"
    >>> family = Family(lambda a, b: ea.parse(text, x=a, A=b))
    >>> input_order(family, [((2,), (3, 2))])
    ['x', 'A']
    """
    programs = [(shapes, family.program(shapes)) for shapes in samples]
    inputs = [(shapes, program.inputs) for shapes, program in programs if program is not None]
    if not inputs:
        raise NotationError("there is no expression\n  give shapes that fit")
    names = by_name(family.names, list(inputs[0][1]))
    ordered: list[str] = []
    for place in range(len(names)):
        for name in names:
            is_free = name not in ordered
            if is_free and all(known[name].shape == shapes[place] for shapes, known in inputs):
                ordered.append(name)
                break
    return ordered if len(ordered) == len(names) else names
