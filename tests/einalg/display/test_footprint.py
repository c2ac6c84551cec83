"""Pictures of domains and of what is read: the sets are those that enumeration finds, point by
point.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import einalg as ea
from einalg.display.footprint import BORDER, INSIDE, OUTSIDE, UNREAD, footprint, grids
from einalg.language.ir.program import as_program
from einalg.language.ir.traversal import accesses, reductions

EXPRESSIONS = {
    "convolution": ea.parse(
        "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]", A=(1, 2, 5, 4), K=(2, 2, 3, 3)
    ),
    "strided, dilated": ea.parse(
        "O[h:3,w:3] += A.pad(1,0)[2*h+2*r-1,2*w+s]*K[r,s]", A=(8, 8), K=(3, 3)
    ),
    "triangle": ea.parse("O = L[i:6, j:6](A[i,j]*B[j], where=j<=i)", A=(6, 6), B=(6,)),
    "band": ea.parse("O[m,w:5] += A[m,k]*B.pad(2,0)[m+w-2,k]", A=(6, 2), B=(6, 2)),
    "digits": ea.parse("O[i:8,j:3] = A[i//2, j] + A[i%4, 2-j]", A=(4, 3)),
    "one axis": ea.parse("O[h] += A.pad((2, 0))[h+r-2]*K[r]", A=(6,), K=(3,)),
    "condition in a sum": ea.parse("O[i:5] = Sum[j:5](A[i,j], where=j>=i)", A=(5, 5)),
}


def enumerated(scope, point=None):
    """For each tensor the elements that all points, or one, read; and the points that read outside
    a tensor.
    """
    elements, border, domain = {}, set(), set()
    for values in product(*(range(it.low, it.high) for it in scope.iterators)):
        env = dict(zip(scope.indices, values))
        if not all(c.holds(env) for c in scope.where):
            continue
        domain.add(values)
        if point is not None and env != point:
            continue
        summed = list(reductions(scope.body))
        for inner in product(*(range(it.low, it.high) for node in summed for it in node.iterators)):
            bound = {
                **env,
                **dict(zip((it.index for node in summed for it in node.iterators), inner)),
            }
            if not all(c.holds(bound) for node in summed for c in node.where):
                continue
            for access in accesses(scope.body):
                element = tuple(int(form.evaluate(bound)) for form in access.subscripts)
                elements.setdefault(access.tensor.name, set()).add(element)
                if any(not low <= e < high for e, (low, high) in zip(element, access.tensor.box)):
                    border.add(values)
    return elements, border, domain


def cells(grid, mask):
    return {tuple(int(k) + low for k, (low, _) in zip(at, grid.box)) for at in np.argwhere(mask)}


def axes_of(grid, scope):
    if grid.title == "output":
        return [[str(i) for i in scope.indices].index(label) for label in grid.labels]
    return [int(label.split()[1].rstrip(":")) for label in grid.labels]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_cell_is_what_enumeration_says(name):
    scope = as_program(EXPRESSIONS[name]).result
    elements, border, domain = enumerated(scope)
    output, *tensors = grids(scope)
    kept = axes_of(output, scope)
    assert cells(output, output.cells == BORDER) == {tuple(p[k] for k in kept) for p in border}
    assert cells(output, output.cells != OUTSIDE) == {tuple(p[k] for k in kept) for p in domain}
    assert {grid.title for grid in tensors} == set(elements)
    for grid in tensors:
        kept, box = axes_of(grid, scope), scope.tensors[grid.title].box
        read = {tuple(e[k] for k in kept) for e in elements[grid.title]}
        inside = {e for e in read if all(box[k][0] <= v < box[k][1] for k, v in zip(kept, e))}
        assert cells(grid, grid.cells == INSIDE) == inside
        assert not cells(grid, grid.cells == UNREAD) & read


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_point_reads_what_enumeration_says(name):
    scope = as_program(EXPRESSIONS[name]).result
    corner = next(iter(sorted(enumerated(scope)[2])))
    point = dict(zip(scope.indices, corner))
    elements, _, _ = enumerated(scope, point)
    output, *tensors = grids(scope, points=[{index.name: value for index, value in point.items()}])
    assert cells(output, output.marked[0]) == {tuple(corner[k] for k in axes_of(output, scope))}
    for grid in tensors:
        assert cells(grid, grid.marked[0]) == {
            tuple(e[k] for k in axes_of(grid, scope)) for e in elements[grid.title]
        }


def test_axes_are_those_that_move_together_unless_others_are_wished():
    conv = EXPRESSIONS["convolution"]
    assert [grid.labels for grid in grids(conv)] == [
        ("h", "w"),
        ("axis 2: h + r - 1", "axis 3: s + w - 1"),
        ("axis 2: r", "axis 3: s"),
    ]
    assert grids(conv, axes=("w", "f"))[0].labels == ("w", "f") and grids(conv, axes=["f"])[
        0
    ].cells.shape == (2,)


def test_inner_scopes_are_reached_by_their_path():
    s = ea.Session(EXPRESSIONS["convolution"])
    s.apply(s.moves("summation splitting")[0])
    outer, inner = grids(s.expr), grids(s.expr, path=("O", 0))
    assert [grid.title for grid in outer] == ["output", "inner scope"] and [
        grid.title for grid in inner
    ] == ["output", "A", "K"]


@pytest.mark.parametrize(
    "wrong, said",
    [
        (dict(axes=("h", "x")), "axes are one or two of the indices n, f, h, w"),
        (dict(axes=("h", "h")), "axes are one or two"),
        (dict(points=[{"x": 1}]), "a point gives values"),
        (dict(points=[{"h": 99}]), "there is no point"),
        (dict(path=("P",)), "there is no statement 'P'"),
        (dict(path=("O", 0)), "there is no inner scope number 0"),
    ],
)
def test_what_there_is_not_is_said(wrong, said):
    with pytest.raises(ea.UseError, match=said):
        grids(EXPRESSIONS["convolution"], **wrong)


def test_a_picture_of_too_many_cells_is_refused():
    with pytest.raises(ea.UseError, match="1000 × 1000 cells"):
        grids(ea.parse("O[i,j] = A[i,j]", A=(1000, 1000)))


def test_the_figure_shows_the_chosen_points(tmp_path):
    pytest.importorskip("matplotlib", reason="needs einalg[notebook]")
    figure = footprint(EXPRESSIONS["convolution"])
    assert [part.get_title() for part in figure.axes] == ["output", "A", "K"]
    figure.savefig(tmp_path / "conv.png")
    pixels = figure.axes[1].images[0].get_array()
    assert (
        pixels.shape == (7, 6, 3)
        and len({tuple(np.round(p, 3)) for row in pixels for p in row}) == 6
    )  # two points, both, padding, its paler part, the rest
    assert footprint(EXPRESSIONS["one axis"])._repr_png_().startswith(b"\x89PNG")


def test_points_are_marked_where_there_are_some():
    """The first, and the middle one if it is a point."""
    marked = {
        "where=i >= 9": [],
        "where=i%4 == 1": [1],
        "where=i >= 2": [2],
        "where=i >= 1": [1, 2],
    }
    for condition, points in marked.items():
        output = grids(ea.parse(f"O = L[i](C[i], {condition})", C=(5,)))[0]
        places = [np.flatnonzero(mask == mask.max()).tolist() for mask in output.marked]
        assert places == [[point] for point in points]


def test_a_tensor_without_axes_is_not_drawn():
    scope = ea.parse("O[i] = A[i]*s[()]", A=(4,), s=())
    assert [grid.title for grid in grids(scope)] == ["output", "A"]
    with pytest.raises(ea.UseError, match="a single number, which has no axes"):
        grids(ea.parse("O[()] = Sum[i](A[i])", A=(4,)))


def test_a_point_is_a_mapping_of_whole_numbers():
    pytest.importorskip("matplotlib", reason="needs einalg[notebook]")
    figure = ea.footprint("O[i,j] = A[i,j]", A=(60, 60), points=[{"i": 1, "j": 2}])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "interior",
        "padding, or no point",
        "point 1 and what it reads",
    ]
    for wrong in (3, {"i": 1.5, "j": 0}):
        with pytest.raises(ea.UseError, match="points"):
            ea.footprint("O[i,j] = A[i,j]", A=(6, 6), points=[wrong])
