"""Hypothesis strategies for random valid expressions, their shapes, and arrays to evaluate them on.

Every expression is well-formed by construction: subscripts are drawn first, and tensors and
paddings are then sized so that
every read fits. Integer arrays keep the reference evaluator exact. Simpler values come first
everywhere, so that a failing
example shrinks towards few indices, small ranges from 0 and bare subscripts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from einalg.language.index.affine import Affine, Index
from einalg.language.ir.body import REDUCTIONS
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.testing.draws import Draws, Options, draw_form, draw_range
from einalg.testing.input_values import LAYOUTS, PLAIN, in_layout, kinds, values
from einalg.testing.random_scopes import draw_program, draw_scope
from einalg.testing.shape_space import Family, ShapeSpace, family_of_text

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def _composite(make: Callable[[Draws], Any]) -> Any:
    """The strategy of everything that `make` returns; ImportError where hypothesis is not
    installed.
    """
    try:
        import hypothesis.strategies as st
    except ImportError:
        raise ImportError(
            "einalg.testing.strategies needs hypothesis\n  pip install einalg[test]"
        ) from None
    return st.composite(lambda draw: make(Draws(draw, st)))()


def ranges(max_extent: int = 7, empty: bool = False) -> SearchStrategy[tuple[int, int]]:
    """Half-open ranges `(low, high)` of 1 (with `empty`: 0) to `max_extent` elements, from 0 or
    nearby, also negative.
    """
    return _composite(lambda choices: draw_range(choices, max_extent, 0 if empty else 1))


def affine_forms(
    indices: Iterable[Index], quotients: bool = True, strides: bool = True
) -> SearchStrategy[Affine]:
    """Quasi-affine forms of `indices`; `//` and `%` with `quotients`, coefficients other than 1 and
    -1 with `strides`.
    """
    names = tuple(indices)
    return _composite(
        lambda choices: draw_form(choices, names, Options(quotients=quotients, strides=strides))
    )


def scopes(  # noqa: PLR0913, PLR0917 - each option is about one thing
    max_indices: int = 4,
    nested: bool = True,
    quotients: bool = True,
    padding: bool = True,
    strides: bool = True,
    where: bool = True,
    reductions: Sequence[str] = REDUCTIONS,
    functions: bool = False,
    truths: bool = False,
    rounding: bool = False,
    inexact: bool = False,
    empty: bool = False,
    max_points: int = 240,
    dtypes: Sequence[str] = ("f32",),
    far: bool = False,
    constants: bool = False,
    conversions: bool = False,
    scalars: bool = False,
    infinite: bool = False,
) -> SearchStrategy[Scope]:
    """Scopes with 1 to `max_indices` indices in `L` and its reductions together.

    `nested` allows inner scopes, `quotients` `//` and `%` in subscripts and conditions, `padding`
    reads outside a box, `strides` coefficients other than 1 and -1, `where` cut domains,
    `functions` Max, Min, Abs, powers and Piecewise of elements, `truths` scopes of comparisons,
    which others read as numbers, or to choose by, `rounding` remainders and whole parts of elements
    and of indices, `inexact` functions of real numbers, quotients and decimal numbers, and with
    `conversions` also conversions to 16 bits, `empty` ranges without a point, `scalars` scopes
    without an index, `constants` tensors of known values, `far` numbers near the ends of integer
    types. With `infinite` the last statement of a program may be a maximum or minimum of what is
    padded by an infinity, as any scope may be. `max_points` bounds the points of the domain of `L`
    and of all its reductions together. `dtypes` are those of tensors.

    >>> strategy = scopes(max_indices=2, where=False)
    """
    options = Options(
        max_indices=max_indices,
        nested=nested,
        quotients=quotients,
        padding=padding,
        strides=strides,
        where=where,
        reductions=tuple(reductions),
        functions=functions,
        truths=truths,
        rounding=rounding,
        inexact=inexact,
        empty=empty,
        far=far,
        constants=constants,
        conversions=conversions,
        scalars=scalars,
        infinite=infinite,
        max_points=max_points,
        dtypes=tuple(dtypes),
    )
    return _composite(lambda choices: draw_scope(choices, options))


def programs(max_statements: int = 3, **options: Any) -> SearchStrategy[Program]:
    """Programs of 1 to `max_statements` statements that may read each other; `options` are those of
    `scopes`.
    """
    chosen = Options(**options)
    return _composite(lambda choices: draw_program(choices, chosen, max_statements))


def arrays_for(
    expr: Scope | Program, magnitude: int = 3
) -> SearchStrategy[dict[str, np.ndarray[Any, Any]]]:
    """An integer array for every input that `expr` reads, by name: values from `-magnitude` to
    `magnitude`, few of them 0.
    """
    tensors = as_program(expr).inputs

    def make(choices: Draws) -> dict[str, np.ndarray[Any, Any]]:
        random = np.random.default_rng(choices.integer(0, 999))
        return {name: _integers(random, tensor, magnitude) for name, tensor in tensors.items()}

    return _composite(make)


def shapes(
    expected: Callable[..., Any] | str, count: int = 24, seed: int = 0, empty: bool = False
) -> SearchStrategy[tuple[tuple[int, ...], ...]]:
    """Shapes for which a function of shapes has an expression, a tuple of them for its parameters,
    or for the tensors of a text in order: ones, equal and different sizes, and some that
    broadcast, drawn from `count`.

    The numbers of axes are the fewest that fit; default values of the parameters say others. The
    smallest shapes come first; with `empty`, shapes with axes of size 0 are among them, as the
    last. Raises `UseError` where no shapes fit.

    >>> import einalg as ea
    >>> strategy = shapes(lambda a, b: ea.parse("O[i,k] += A[i,j]*B[j,k]", A=a, B=b))
    """
    family = family_of_text(expected) if isinstance(expected, str) else Family(expected)
    pool = ShapeSpace(family, next(family.bases())).pool(count, seed, empty)
    return _composite(lambda choices: choices.one_of(pool))


def inputs_for(
    expr: Scope | Program, layouts: bool = False, nonfinite: bool = False
) -> SearchStrategy[dict[str, np.ndarray[Any, Any]]]:
    """An array for every input that `expr` reads, by name and in its element type, of the values at
    which code tends to fail: 0, ±1, ties, large and small numbers, the limits of integers, -0, and
    plain random numbers.

    With `layouts` some arrays are not contiguous in memory; with `nonfinite` some have NaN or
    infinities at a few places.

    >>> import einalg as ea
    >>> strategy = inputs_for(ea.parse("O[i] += A[i,j]", A=(4, 5)), layouts=True)
    """
    tensors = as_program(expr).inputs

    def make(choices: Draws) -> dict[str, np.ndarray[Any, Any]]:
        arrays = {}
        for name, tensor in tensors.items():
            kind = choices.one_of(kinds(tensor.dtype, nonfinite))
            array = values(tensor, kind, choices.integer(0, 999))
            layout = PLAIN
            if layouts and choices.chance(2):
                layout = choices.one_of(tuple(LAYOUTS))
            arrays[name] = in_layout(array, layout)
        return arrays

    return _composite(make)


def _integers(random: np.random.Generator, tensor: Any, magnitude: int) -> np.ndarray[Any, Any]:
    if tensor.dtype == "bool":
        return random.integers(0, 2, tensor.shape).astype(bool)
    values = random.integers(1, magnitude + 1, tensor.shape)
    if tensor.dtype.startswith("u"):
        return values
    return values * random.choice([1, -1, 1, -1, 0], tensor.shape)
