"""The picture of a convolution in papers, of any expression: points of the output, and the elements
that some of them read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from math import ceil
from typing import Any

import islpy as isl
import numpy as np

from einalg.display.read_sets import (
    BoundRead,
    CellGrid,
    at,
    name_of,
    padded_points,
    reads,
    seen,
    shared,
    two_most_interesting,
    window,
)
from einalg.errors import UseError
from einalg.language.index.affine import Affine, Index
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope, inner_scopes
from einalg.language.notation.text_arguments import reads_text
from einalg.options import (
    Kind,
    Misfit,
    checked,
    either,
    optional,
    several,
    text,
    whole,
)

# Kinds of cells. Of a tensor: padding, an element that is never read, one that is. Of the output:
# no point, a point of the interior (INSIDE), and one that reads padding (BORDER).
OUTSIDE, UNREAD, INSIDE, BORDER = range(4)
COLOURS = ("#e4e4e4", "#ffffff", "#cfe2f3", "#fff2cc")  # of the kinds of cells
EDGE = "#999999"
CHOSEN = ("#d1495b", "#2a9d8f", "#7b4fa3", "#e08e0b")  # of the points that are marked
PADDING_SHADE = 0.45  # of the colour of a mark on padding
MAX_GRID_LINES = 48  # cells along an axis up to which lines are drawn between them


@dataclass(frozen=True)
class PageLayout:
    """Sizes in inches: of a cell, of all grids together and of one, of margins and the legend."""

    cell: float = 0.34
    max_width: float = 11.0
    max_height: float = 4.4
    min_side: float = 0.9
    left: float = 0.7
    gap: float = 0.85
    above: float = 0.35
    below: float = 0.6
    legend_row: float = 0.22
    legend_column: float = 2.1


PAGE = PageLayout()
Points = Sequence[Mapping[str, int]]


def _read_point(value: Any) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise Misfit
    point = {}
    for name, coordinate in value.items():
        point[text("h").read(name)] = whole(None).read(coordinate)
    return point


PLACE = several(
    either(whole(), text("O")), "a path, the name of a statement first", "e.g. {name}=('O', 0)"
)
AXES = several(text("h"), "names of indices in a list", "e.g. {name}=['h', 'w']")
POINTS = several(
    Kind("a point", _read_point, ""), "points in a list", "e.g. {name}=[{{'h': 0, 'w': 2}}]"
)


@reads_text("expr")
@checked(path=PLACE, axes=optional(AXES), points=optional(POINTS))
def footprint(
    expr: Any,
    path: Sequence[Any] = (),
    axes: Sequence[str] | None = None,
    points: Points | None = None,
    **tensors: Any,
) -> Any:
    """A Matplotlib figure of the points of an expression along two axes, and of what `points` read
    of every tensor.

    On the left the output: its points whose reads are all inside the tensors (interior) and those
    that read padding (border); points that `where` cuts away are left grey. On the right each
    tensor with the elements that are ever read and its padding; what one of `points` reads has its
    colour. The axes that are not shown are projected out of what is ever read.

    Text is read with the shapes that are given by name, as by `einalg.parse`. `path` is that of a
    scope as in `Session.places()`, by default the last statement. `axes` are
    two of its indices (or one), by default those with the most interesting reads; a point gives
    indices their values, by default the first point and the middle one.

    Raises `UseError` for a path, an index or a point that there is not, and for a picture of too
    many cells; `ImportError` without Matplotlib.

    >>> import einalg as ea
    >>> text = "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]"
    >>> conv = ea.parse(text, A=(1, 2, 6, 7), K=(3, 2, 3, 3))
    >>> [grid.title for grid in grids(conv)]
    ['output', 'A', 'K']
    """
    drawn = grids(expr, path, axes, points)
    sizes = _sizes(drawn)
    width = PAGE.left + sum(w + PAGE.gap for w, _ in sizes)
    columns = max(2, int(width / PAGE.legend_column))
    legend_rows = ceil((4 + len(drawn[0].marked)) / columns)
    below = PAGE.below + PAGE.legend_row * legend_rows
    height = max(h for _, h in sizes) + below + PAGE.above
    figure = _figure()(figsize=(width, height))
    left = PAGE.left
    for grid, (w, h) in zip(drawn, sizes):
        bottom = height - PAGE.above - h
        axes_box = (left / width, bottom / height, w / width, h / height)
        _draw(figure.add_axes(axes_box), grid, grid is drawn[0])
        left += w + PAGE.gap
    figure.legend(
        handles=_handles(drawn),
        loc="lower left",
        bbox_to_anchor=(0.02, 0),
        ncols=columns,
        frameon=False,
        fontsize=8,
    )
    return figure


def _handles(drawn: Sequence[CellGrid]) -> list[Any]:
    """Return the legend: what the colours mean, of those that occur."""
    from matplotlib.patches import Patch

    output = drawn[0]
    handles = [Patch(facecolor=COLOURS[INSIDE], edgecolor=EDGE, label="interior")]
    if (output.cells == BORDER).any():
        handles.append(Patch(facecolor=COLOURS[BORDER], edgecolor=EDGE, label="reads padding"))
    outside = COLOURS[OUTSIDE]
    handles.append(Patch(facecolor=outside, edgecolor=EDGE, label="padding, or no point"))
    for number in range(len(output.marked)):
        label = f"point {number + 1} and what it reads"
        handles.append(Patch(facecolor=_mark_colour(number), label=label))
    if _any_cell_twice(drawn):
        handles.append(Patch(facecolor=_mixed_colour(), label="read by several of them"))
    return handles


def _mark_colour(number: int) -> str:
    return CHOSEN[number % len(CHOSEN)]


def _mixed_colour() -> Any:
    """Return the colour of what the first two points read."""
    from matplotlib.colors import to_rgb

    return np.mean([to_rgb(colour) for colour in CHOSEN[:2]], axis=0)


def _any_cell_twice(drawn: Sequence[CellGrid]) -> bool:
    several = [grid.marked for grid in drawn if len(grid.marked) > 1]
    return any(np.sum(marked, axis=0).max() > 1 for marked in several)


def _sizes(drawn: Sequence[CellGrid]) -> list[tuple[float, float]]:
    """Return the width and height of each grid in inches.

    Cells are of one size, but no grid is too small to see.
    """
    widths = [grid.columns for grid in drawn]
    heights = [grid.rows for grid in drawn]
    cell = min(PAGE.cell, PAGE.max_width / sum(widths), PAGE.max_height / max(heights))
    sizes = []
    for columns, rows in zip(widths, heights):
        unit = max(cell, min(PAGE.cell, PAGE.min_side / max(columns, rows)))
        sizes.append((columns * unit, rows * unit))
    return sizes


@cache
def _figure() -> Any:
    """Return the class of Matplotlib's figure, which a notebook shows without pyplot."""
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
    points: Points | None = None,
) -> list[CellGrid]:
    """Return what `footprint` draws: the output, then each tensor that is read."""
    scope = _scope(expr, path)
    accesses = reads(scope)
    shown_axes = _axes(scope, accesses, axes)
    if points is None:
        marked = _default_points(scope)
    else:
        marked = [_point(scope, point) for point in points]
    shown_indices = {scope.indices[axis] for axis in shown_axes}
    result = [_output(scope, accesses, shown_axes, marked)]
    for name, group in _by_tensor(accesses).items():
        if group[0].access.subscripts:
            result.append(_tensor(name, group, shown_indices, accesses, marked))
    return result


def _by_tensor(accesses: Sequence[BoundRead]) -> dict[str, list[BoundRead]]:
    tensors: dict[str, list[BoundRead]] = {}
    for read in accesses:
        tensors.setdefault(name_of(read.access), []).append(read)
    return tensors


def _scope(expr: Any, path: Sequence[Any]) -> Scope:
    """Return the scope at a path; by default that of the last statement."""
    program = as_program(expr)
    name, *positions = path or (program.outputs[-1],)
    if name not in program.names:
        known = ", ".join(program.names)
        raise UseError(f"there is no statement {name!r}\n  the statements are {known}")
    scope = program[name]
    for position in positions:
        inner = inner_scopes(scope)
        if not isinstance(position, int) or not 0 <= position < len(inner):
            raise UseError(
                f"there is no inner scope number {position}: there are {len(inner)}\n"
                "  a path is the name of a statement, then numbers of inner scopes"
            )
        scope = inner[position]
    if not scope.iterators:
        raise UseError(
            "the expression is a single number, which has no axes to draw\n"
            "  give an expression of at least one axis"
        )
    return scope


def _axes(scope: Scope, accesses: Sequence[BoundRead], names: Sequence[str] | None) -> list[int]:
    """Return the positions of the axes of the output that are drawn, at most two."""
    if names is not None:
        return _named_axes(scope, names)
    cut = set()
    for condition in scope.where:
        cut.update(condition.indices)
    shared_indices = set()
    for read in accesses:
        for form in read.access.subscripts:
            if shared(form):
                shared_indices.update(form.indices)

    def interest(axis: int) -> tuple[Any, ...]:
        index, extent = scope.indices[axis], scope.iterators[axis].extent
        return extent > 1, index in cut or index in shared_indices, extent

    return two_most_interesting(scope.rank, interest)


def _named_axes(scope: Scope, names: Sequence[str]) -> list[int]:
    positions = {index.name: axis for axis, index in enumerate(scope.indices)}
    unknown = [name for name in names if name not in positions]
    if unknown or not 1 <= len(set(names)) == len(names) <= 2:
        known, wanted = ", ".join(positions), ", ".join(map(str, names))
        raise UseError(
            f"axes are one or two of the indices {known}, not {wanted}\n"
            f"  e.g. axes={list(positions)[:2]}"
        )
    return [positions[name] for name in names]


def _point(scope: Scope, values: Mapping[str, int]) -> dict[Index, int]:
    """Return a point with the values of a user, in the middle along all other indices."""
    names = {index.name: index for index in scope.indices}
    if any(name not in names for name in values):
        known, written = ", ".join(names), ", ".join(map(str, values))
        raise UseError(
            f"a point gives values to indices, not to {written}\n  the indices are {known}"
        )
    point = {index: (low + high - 1) // 2 for index, (low, high) in scope.ranges.items()}
    for name, value in values.items():
        point[names[name]] = value
    if not _is_point(scope, point):
        shown = ", ".join(f"{index.name}={value}" for index, value in point.items())
        raise UseError(f"there is no point {shown}\n  the domain is {scope.domain}")
    return point


def _is_point(scope: Scope, point: Mapping[Index, int]) -> bool:
    for index, (low, high) in scope.ranges.items():
        if not low <= point[index] < high:
            return False
    return all(condition.holds(point) for condition in scope.where)


def _default_points(scope: Scope) -> list[dict[Index, int]]:
    """Return the first point, and the middle one where it is one."""
    if scope.domain.is_empty():
        return []
    first = scope.domain.lexmin().sample_point()
    corner = {}
    for axis, index in enumerate(scope.indices):
        corner[index] = int(first.get_coordinate_val(isl.dim_type.set, axis).to_python())
    middle = {index: (low + high) // 2 for index, (low, high) in scope.ranges.items()}
    if middle != corner and all(condition.holds(middle) for condition in scope.where):
        return [corner, middle]
    return [corner]


def _output(
    scope: Scope,
    accesses: Sequence[BoundRead],
    axes: Sequence[int],
    points: Sequence[Mapping[Index, int]],
) -> CellGrid:
    """Return the grid of the output, with `points` marked."""
    shown = sorted(axes)
    labels, box = [str(scope.indices[axis]) for axis in shown], [scope.box[axis] for axis in shown]
    grid = CellGrid.empty("output", labels, box)
    grid.fill(seen(scope.domain, shown), INSIDE)
    grid.fill(seen(padded_points(scope, accesses), shown), BORDER)
    for point in points:
        mask = np.zeros(grid.cells.shape, dtype=bool)
        cell = tuple(point[scope.indices[axis]] - scope.box[axis][0] for axis in shown)
        mask[cell] = True
        grid.marked.append(mask)
    return grid if list(axes) == shown else grid.transposed()


def _tensor(
    name: str,
    group: Sequence[BoundRead],
    shown_indices: set[Index],
    accesses: Sequence[BoundRead],
    points: Sequence[Mapping[Index, int]],
) -> CellGrid:
    """Return the grid of a tensor that all accesses of a `group` read.

    Its axes are those on which the drawn axes of the output move, or those that move with them.
    """
    box = _common_window(group)
    forms = list(zip(*(read.access.subscripts for read in group)))
    shown = _tensor_axes(box, forms, shown_indices, accesses)
    labels = []
    for axis in shown:
        subscripts = dict.fromkeys(map(str, forms[axis]))
        labels.append(f"axis {axis}: {', '.join(subscripts)}")
    grid = CellGrid.empty(name, labels, [box[axis] for axis in shown])
    grid.cells[_elements(group[0].access.tensor.box, box, shown)] = UNREAD
    ever = np.zeros(grid.cells.shape, dtype=bool)
    for read in group:
        ever |= grid.mask(seen(read.relation.range(), shown))
    grid.cells[ever & (grid.cells == UNREAD)] = INSIDE
    for point in points:
        mask = np.zeros(grid.cells.shape, dtype=bool)
        for read in group:
            mask |= grid.mask(seen(at(read, point), shown))
        grid.marked.append(mask)
    return grid


def _common_window(group: Sequence[BoundRead]) -> list[tuple[int, int]]:
    """Return the smallest box around all that may be read, padding included."""
    box = []
    for sides in zip(*(window(read.access) for read in group)):
        lows, highs = zip(*sides)
        box.append((min(lows), max(highs)))
    return box


def _elements(
    inside: Sequence[tuple[int, int]], box: Sequence[tuple[int, int]], axes: Sequence[int]
) -> tuple[slice, ...]:
    """Return where a tensor's own elements lie in its grid."""
    slices = []
    for axis in axes:
        (low, high), start = inside[axis], box[axis][0]
        slices.append(slice(low - start, high - start))
    return tuple(slices)


def _tensor_axes(
    box: Sequence[tuple[int, int]],
    forms: Sequence[Sequence[Affine]],
    shown_indices: set[Index],
    accesses: Sequence[BoundRead],
) -> list[int]:
    """Return the axes of a tensor that are drawn, at most two."""
    moving_together: set[Index] = set()
    for read in accesses:
        for form in read.access.subscripts:
            if form.indices & shown_indices:
                moving_together |= form.indices

    def interest(axis: int) -> tuple[Any, ...]:
        moving = set().union(*(form.indices for form in forms[axis]))
        low, high = box[axis]
        moves, moves_along = bool(moving & shown_indices), bool(moving & moving_together)
        return high - low > 1, moves, moves_along, high - low

    return two_most_interesting(len(box), interest)


def _draw(axes: Any, grid: CellGrid, is_output: bool) -> None:
    """Draw one grid: its cells, and the chosen ones in their colours."""
    image = _image(grid, is_output)
    ranges = grid.box if len(grid.box) == 2 else ((0, 1), *grid.box)
    (bottom, top), (left, right) = ranges
    axes.imshow(
        image,
        extent=(left - 0.5, right - 0.5, top - 0.5, bottom - 0.5),
        interpolation="nearest",
        aspect="equal",
    )
    if max(image.shape[:2]) <= MAX_GRID_LINES:
        axes.set_xticks(np.arange(left, right + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(bottom, top + 1) - 0.5, minor=True)
        axes.grid(which="minor", color=EDGE, linewidth=0.5)
        axes.tick_params(which="minor", length=0)
    axes.set_title(grid.title, fontsize=10)
    axes.set_xlabel(grid.labels[-1], fontsize=9)
    axes.set_ylabel(grid.labels[0] if len(grid.labels) == 2 else "", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.yaxis.get_major_locator().set_params(integer=True)
    if len(grid.labels) == 1:
        axes.set_yticks([])


def _image(grid: CellGrid, is_output: bool) -> Any:
    """Return the colour of every cell, as rows of columns; marks on padding are paler."""
    from matplotlib.colors import to_rgb

    image = np.array([to_rgb(colour) for colour in COLOURS])[grid.cells]
    times = np.zeros(grid.cells.shape)
    mixed = np.zeros(image.shape)
    for number, mask in enumerate(grid.marked):
        mixed[mask] += to_rgb(_mark_colour(number))
        times[mask] += 1
    is_padding = (grid.cells == OUTSIDE) & (not is_output)
    shade = np.where(is_padding, PADDING_SHADE, 1.0)[..., None]
    chosen = times > 0
    blend = mixed / np.maximum(times, 1)[..., None]
    image[chosen] = (blend * shade + image * (1 - shade))[chosen]
    return image if image.ndim == 3 else image[None]
