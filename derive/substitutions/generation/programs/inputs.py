"""The inputs of the programs that are generated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from derive.substitutions.generation.programs.operators import ALIASES
from derive.substitutions.graphs.kinds import KINDS, MAX_RANK, SCALAR_INPUTS
from einalg.errors import UseError
from einalg.language.index.size import Size, size
from einalg.options import shown

Shape = tuple[Any, ...]  # of numbers and sizes
COPIES = 3  # of each shape: a rule of three variables is met
ROWS: Shape = (2, 4)
SQUARE: Shape = (4, 4)
DATA: Shape = (2, 4, 5, 5)
KERNEL: Shape = (4, 4, 3, 3)
# For sizes that have names, in order of first use: two elements have more in common than many.
NUMBERS = (3, 4, 5, 6, 7, 2)
MAX_INPUTS = 64
REMEDY = 'e.g. inputs={"x": (2, 4), "w": (4, 4)}, or with names of sizes: ("N", "K")'


def default_inputs(operators: Iterable[Any]) -> tuple[Shape, ...]:
    """Return inputs that the operators of a request read, three of each shape: matrices, and data
    and kernels of convolutions.

    >>> default_inputs(["relu"]), default_inputs(["matmul"])[2:4]
    (((2, 4), (2, 4), (2, 4)), ((2, 4), (4, 4)))
    """
    shapes: dict[Shape, int] = {}
    for item in operators:
        name = item[0] if isinstance(item, (tuple, list)) and item else item
        if not isinstance(name, str):
            continue
        name = ALIASES.get(name, name)
        if name in ("matmul", "transpose", "const_imm"):
            shapes |= {ROWS: COPIES, SQUARE: COPIES}
        elif name in KINDS and (KINDS[name].inputs == (4, 4) or KINDS[name].result == 4):
            shapes |= {DATA: COPIES, KERNEL: COPIES}
        if name in SCALAR_INPUTS:
            shapes |= {(): COPIES}
    if not shapes.keys() - {()}:
        shapes = {ROWS: COPIES, **shapes}
    return tuple([shape for shape, count in shapes.items() for _ in range(count)])


def shapes_of(inputs: Any) -> tuple[Shape, ...]:
    """Return the shapes of a request, by names or not, with its sizes."""
    if isinstance(inputs, Mapping):
        inputs = list(inputs.values())
    if not isinstance(inputs, (list, tuple)) or not 0 < len(inputs) <= MAX_INPUTS:
        raise UseError(f"inputs must be shapes by name, not {shown(inputs)}\n  {REMEDY}")
    return tuple([_shape(shape) for shape in inputs])


def _shape(shape: Any) -> Shape:
    if not isinstance(shape, (list, tuple)) or len(shape) > MAX_RANK:
        raise UseError(f"{shown(shape)} is no shape of an input\n  {REMEDY}")
    extents = []
    for extent in shape:
        if isinstance(extent, str) and extent.isidentifier():
            extent = size(extent)
        is_number = type(extent) is int and extent > 0
        if not is_number and not isinstance(extent, Size):
            raise UseError(f"{shown(extent)} is no size of an axis\n  {REMEDY}")
        extents.append(extent)
    return tuple(extents)


def numbers_of(shapes: Iterable[Shape]) -> dict[Size, int]:
    """Return a number for each size of some shapes, another one for each where these suffice.

    >>> shapes = shapes_of([("N", "K"), ("K", 4)])
    >>> numbers_of(shapes), with_numbers(shapes)
    ({N: 3, K: 5}, ((3, 5), (5, 4)))
    """
    extents = [extent for shape in shapes for extent in shape]
    numbers: dict[Size, int] = {}
    for extent in extents:
        if isinstance(extent, Size) and extent not in numbers:
            used = {*extents, *numbers.values()}
            free = [number for number in NUMBERS if number not in used]
            numbers[extent] = _allowed(extent, [*free, *NUMBERS][0])
    return numbers


def with_numbers(shapes: Sequence[Shape]) -> tuple[tuple[int, ...], ...]:
    """Return shapes with numbers in the places of sizes."""
    numbers = numbers_of(shapes)
    results = []
    for shape in shapes:
        results.append(tuple([numbers.get(extent, extent) for extent in shape]))
    return tuple(results)


def sizes_of_numbers(shapes: Sequence[Shape]) -> dict[int, Any]:
    """Return the size that each number stands for: those of the inputs; where these have none, one
    for each number of their shapes but 1.

    >>> sizes_of_numbers([(1, 2), (2, 4)]), sizes_of_numbers(shapes_of([("N", 4)]))
    ({2: N2, 4: N4}, {3: N})
    """
    numbers = numbers_of(shapes)
    if numbers:
        return {number: extent for extent, number in numbers.items()}
    known = sorted({extent for shape in shapes for extent in shape if type(extent) is int})
    return {number: size(f"N{number}") for number in known if number > 1}


def _allowed(extent: Size, number: int) -> int:
    """Return the number nearest to one that a size may be."""
    number = max(number, extent.at_least)
    number = -(-number // extent.multiple_of) * extent.multiple_of
    if extent.at_most is not None and number > extent.at_most:
        number = extent.at_most // extent.multiple_of * extent.multiple_of
    return number
