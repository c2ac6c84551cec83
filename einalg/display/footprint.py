"""The picture of a convolution in papers, of any expression: points of the output, and the elements
that some of them read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from math import ceil
from typing import Any

import islpy as isl
import numpy as np

from einalg.display.read_sets import (
    BoundRead,
    Grid,
    at,
    name_of,
    padded_points,
    reads,
    seen,
    shared,
    window,
)
from einalg.errors import UseError
from einalg.language.index.affine import Index
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope, inner_scopes

OUTSIDE, UNREAD, INSIDE, BORDER = (
    0,
    1,
    2,
    3,
)  # of a tensor: padding, elements never read, elements read; of the output: interior, border
COLOURS = ("#e4e4e4", "#ffffff", "#cfe2f3", "#fff2cc")
CHOSEN = ("#d1495b", "#2a9d8f", "#7b4fa3", "#e08e0b")
CELL, WIDEST, HIGHEST, LEAST = (
    0.34,
    11.0,
    4.4,
    0.9,
)  # inches: a cell, all grids together, and a grid at most and at least
LEFT, GAP, ABOVE, BELOW, ROW, LABEL = (
    0.7,
    0.85,
    0.35,
    0.6,
    0.22,
    2.1,
)  # inches: margins, a row and a column of the legend
LINES = 48  # cells along an axis up to which lines are drawn between them


def footprint(
    expr: Any,
    path: Sequence[Any] = (),
    axes: Sequence[str] | None = None,
    points: Sequence[Mapping[str, int]] | None = None,
) -> Any:
    """A Matplotlib figure of the points of an expression along two axes, and of what `points` read
    of every tensor.

    On the left the output: its points whose reads are all inside the tensors (interior) and those
    that read padding (border); points that `where` cuts away are left grey. On the right each
    tensor with the elements that are ever read and its padding; what one of `points` reads has its
    colour. The axes that are not shown are projected out of what is ever read.

    `path` is that of a scope as in `Session.places()`, by default the last statement. `axes` are
    two of its indices (or one), by default those with the most interesting reads; a point gives
    indices their values, by default the first point and the middle one.

    Raises `UseError` for a path, an index or a point that there is not, and for a picture of too
    many cells; `ImportError` without Matplotlib.

    >>> import einalg as ea
    >>> conv = ea.parse("O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]", A=(1, 2, 6, 7), K=(3, 2, 3, 3))
    >>> [grid.title for grid in grids(conv)]
    ['output', 'A', 'K']
    """
    made = grids(expr, path, axes, points)
    sizes = _sizes(made)
    width = LEFT + sum(w + GAP for w, _ in sizes)
    per_row = max(2, int(width / LABEL))
    below = BELOW + ROW * ceil((4 + len(made[0].marked)) / per_row)
    height = max(h for _, h in sizes) + below + ABOVE
    figure = _figure()(figsize=(width, height))
    left = LEFT
    for grid, (w, h) in zip(made, sizes):
        _draw(
            figure.add_axes((left / width, (height - ABOVE - h) / height, w / width, h / height)),
            grid,
            grid is made[0],
        )
        left += w + GAP
    figure.legend(
        handles=_handles(made),
        loc="lower left",
        bbox_to_anchor=(0.02, 0),
        ncols=per_row,
        frameon=False,
        fontsize=8,
    )
    return figure


def _handles(made: Sequence[Grid]) -> list[Any]:
    """What the colours mean, of those that occur."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    names = ("interior", "reads padding") if (made[0].cells == BORDER).any() else ("interior",)
    handles = [
        Patch(facecolor=COLOURS[INSIDE + k], edgecolor="#999999", label=name)
        for k, name in enumerate(names)
    ]
    handles += [
        Patch(facecolor=COLOURS[OUTSIDE], edgecolor="#999999", label="padding, or no point")
    ]
    handles += [
        Patch(facecolor=CHOSEN[k % len(CHOSEN)], label=f"point {k + 1} and what it reads")
        for k in range(len(made[0].marked))
    ]
    if any(np.sum(grid.marked, axis=0).max() > 1 for grid in made if len(grid.marked) > 1):
        both = np.mean([to_rgb(colour) for colour in CHOSEN[:2]], axis=0)
        handles += [Patch(facecolor=both, label="read by several of them")]
    return handles


def _sizes(made: Sequence[Grid]) -> list[tuple[float, float]]:
    """Width and height of each grid in inches: cells are of one size, but no grid is too small to
    see.
    """
    shapes = [
        (grid.cells.shape[-1], grid.cells.shape[0] if grid.cells.ndim == 2 else 1) for grid in made
    ]
    cell = min(
        CELL,
        WIDEST / sum(columns for columns, _ in shapes),
        HIGHEST / max(rows for _, rows in shapes),
    )
    units = [max(cell, min(CELL, LEAST / max(shape))) for shape in shapes]
    return [(columns * unit, rows * unit) for (columns, rows), unit in zip(shapes, units)]


@cache
def _figure() -> Any:
    """Matplotlib's figure, which a notebook shows without pyplot."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_png_(self) -> bytes:
            file = BytesIO()
            self.savefig(file, format="png", dpi=96)
            return file.getvalue()

    return Picture


def grids(
    expr: Any,
    path: Sequence[Any] = (),
    axes: Sequence[str] | None = None,
    points: Sequence[Mapping[str, int]] | None = None,
) -> list[Grid]:
    """What `footprint` draws: the output, then each tensor that is read."""
    scope = _scope(expr, path)
    found = reads(scope)
    chosen = _axes(scope, found, axes)
    at_points = [_point(scope, point) for point in points] if points is not None else _usual(scope)
    output = _output(scope, found, chosen, at_points)
    tensors: dict[str, list[BoundRead]] = {}
    for read in found:
        tensors.setdefault(name_of(read.access), []).append(read)
    near = {scope.indices[k] for k in chosen}
    return [
        output,
        *(
            _tensor(name, group, near, found, at_points)
            for name, group in tensors.items()
            if group[0].access.subscripts
        ),
    ]


def _scope(expr: Any, path: Sequence[Any]) -> Scope:
    program = as_program(expr)
    name, *positions = path or (program.outputs[-1],)
    if name not in program.names:
        raise UseError(
            f"there is no statement {name!r}\n  the statements are {', '.join(program.names)}"
        )
    scope = program[name]
    for position in positions:
        inner = inner_scopes(scope)
        if not isinstance(position, int) or not 0 <= position < len(inner):
            raise UseError(f"there is no inner scope number {position}: there are {len(inner)}")
        scope = inner[position]
    if not scope.iterators:
        raise UseError("the expression is a single number, which has no axes to draw")
    return scope


def _axes(scope: Scope, found: Sequence[BoundRead], names: Sequence[str] | None) -> list[int]:
    """Positions of the axes of the output that are drawn, at most two."""
    indices = {index.name: k for k, index in enumerate(scope.indices)}
    if names is not None:
        unknown = [name for name in names if name not in indices]
        if unknown or not 1 <= len(set(names)) == len(names) <= 2:
            raise UseError(
                f"axes are one or two of the indices {', '.join(indices)}, not {', '.join(map(str, names))}"
            )
        return [indices[name] for name in names]
    cut = {index for condition in scope.where for index in condition.indices}
    forms = [form for read in found for form in read.access.subscripts]

    def interest(k: int) -> tuple[Any, ...]:
        index, extent = scope.indices[k], scope.iterators[k].extent
        return (
            extent > 1,
            index in cut or any(index in form.indices and shared(form) for form in forms),
            extent,
        )

    return sorted(sorted(range(scope.rank), key=interest, reverse=True)[:2])


def _point(scope: Scope, given: Mapping[str, int]) -> dict[Index, int]:
    names = {index.name: index for index in scope.indices}
    middle = {index: (low + high - 1) // 2 for index, (low, high) in scope.ranges.items()}
    if any(name not in names for name in given):
        raise UseError(
            f"a point gives values to the indices {', '.join(names)}, not to {', '.join(map(str, given))}"
        )
    point = {**middle, **{names[name]: int(value) for name, value in given.items()}}
    if not all(
        low <= point[index] < high for index, (low, high) in scope.ranges.items()
    ) or not all(c.holds(point) for c in scope.where):
        shown = ", ".join(f"{index.name}={value}" for index, value in point.items())
        raise UseError(f"there is no point {shown}\n  the domain is {scope.domain}")
    return point


def _usual(scope: Scope) -> list[dict[Index, int]]:
    """The first point, and the middle one where it is one."""
    if scope.domain.is_empty():
        return []
    first = scope.domain.lexmin().sample_point()
    corner = {
        index: int(first.get_coordinate_val(isl.dim_type.set, k).to_python())
        for k, index in enumerate(scope.indices)
    }
    middle = {index: (low + high) // 2 for index, (low, high) in scope.ranges.items()}
    inside = middle != corner and all(c.holds(middle) for c in scope.where)
    return [corner, middle] if inside else [corner]


def _output(
    scope: Scope,
    found: Sequence[BoundRead],
    axes: Sequence[int],
    points: Sequence[Mapping[Index, int]],
) -> Grid:
    kept = sorted(axes)
    grid = Grid.empty("output", [str(scope.indices[k]) for k in kept], [scope.box[k] for k in kept])
    grid.fill(seen(scope.domain, kept), INSIDE)
    grid.fill(seen(padded_points(scope, found), kept), BORDER)
    for point in points:
        mask = np.zeros(grid.cells.shape, dtype=bool)
        mask[tuple(point[scope.indices[k]] - scope.box[k][0] for k in kept)] = True
        grid.marked.append(mask)
    return grid if list(axes) == kept else _turned(grid)


def _turned(grid: Grid) -> Grid:
    return Grid(
        grid.title,
        grid.labels[::-1],
        grid.box[::-1],
        grid.cells.T,
        [mask.T for mask in grid.marked],
    )


def _tensor(
    name: str,
    group: Sequence[BoundRead],
    near: set[Index],
    found: Sequence[BoundRead],
    points: Sequence[Mapping[Index, int]],
) -> Grid:
    """A tensor along the axes on which the drawn axes of the output move, or those that move with
    them.
    """
    windows = [window(read.access) for read in group]
    box = [
        (min(low for low, _ in sides), max(high for _, high in sides)) for sides in zip(*windows)
    ]
    beside = {
        index
        for read in found
        for form in read.access.subscripts
        if form.indices & near
        for index in form.indices
    }
    forms = list(zip(*(read.access.subscripts for read in group)))

    def interest(k: int) -> tuple[Any, ...]:
        moving = set().union(*(form.indices for form in forms[k]))
        return (
            box[k][1] - box[k][0] > 1,
            bool(moving & near),
            bool(moving & beside),
            box[k][1] - box[k][0],
        )

    kept = sorted(sorted(range(len(box)), key=interest, reverse=True)[:2])
    labels = [f"axis {k}: {', '.join(dict.fromkeys(map(str, forms[k])))}" for k in kept]
    grid = Grid.empty(name, labels, [box[k] for k in kept])
    inside = group[0].access.tensor.box
    grid.cells[tuple(slice(inside[k][0] - box[k][0], inside[k][1] - box[k][0]) for k in kept)] = (
        UNREAD
    )
    ever = np.zeros(grid.cells.shape, dtype=bool)
    for read in group:
        ever |= grid.mask(seen(read.relation.range(), kept))
    grid.cells[ever & (grid.cells == UNREAD)] = INSIDE
    for point in points:
        mask = np.zeros(grid.cells.shape, dtype=bool)
        for read in group:
            mask |= grid.mask(seen(at(read, point), kept))
        grid.marked.append(mask)
    return grid


def _draw(part: Any, grid: Grid, is_output: bool) -> None:
    """One grid: its cells, the chosen ones in their colours, and the box of a tensor as a frame."""
    from matplotlib.colors import to_rgb

    image = np.array([to_rgb(colour) for colour in COLOURS])[grid.cells]
    times = np.zeros(grid.cells.shape)
    mixed = np.zeros(image.shape)
    for k, mask in enumerate(grid.marked):
        mixed[mask] += to_rgb(CHOSEN[k % len(CHOSEN)])
        times[mask] += 1
    shade = np.where((grid.cells == OUTSIDE) & (not is_output), 0.45, 1.0)[
        ..., None
    ]  # what is read of the padding is paler
    chosen = times > 0
    blend = mixed / np.maximum(times, 1)[..., None]
    image[chosen] = (blend * shade + image * (1 - shade))[chosen]
    if image.ndim == 2:
        image = image[None]
    (bottom, top), (left, right) = ((0, 1), *grid.box) if len(grid.box) == 1 else grid.box
    part.imshow(
        image,
        extent=(left - 0.5, right - 0.5, top - 0.5, bottom - 0.5),
        interpolation="nearest",
        aspect="equal",
    )
    if max(image.shape[:2]) <= LINES:
        part.set_xticks(np.arange(left, right + 1) - 0.5, minor=True)
        part.set_yticks(np.arange(bottom, top + 1) - 0.5, minor=True)
        part.grid(which="minor", color="#999999", linewidth=0.5)
        part.tick_params(which="minor", length=0)
    part.set_title(grid.title, fontsize=10)
    part.set_xlabel(grid.labels[-1], fontsize=9)
    part.set_ylabel(grid.labels[0] if len(grid.labels) == 2 else "", fontsize=9)
    part.tick_params(labelsize=8)
    part.xaxis.get_major_locator().set_params(integer=True)
    part.yaxis.get_major_locator().set_params(integer=True)
    if len(grid.labels) == 1:
        part.set_yticks([])
