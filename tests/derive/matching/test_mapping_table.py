"""The iterator mapping table: where every index runs, in which steps."""

from __future__ import annotations

import pytest

import einalg as ea


def test_every_index_with_the_axes_it_runs_along():
    table = ea.mapping_table(
        ea.parse(
            "O[n,f,h,w] += A.pad(0,0,1,3)[n,c,2*h+r-1,w+3*s-3]*K[f,c,r,s]",
            A=(2, 4, 13, 6),
            K=(5, 4, 3, 3),
        )
    )
    assert table.head == ("index", "range", "output", "A", "K")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["h"] == ("0..6", "axis 2", "axis 2 by 2", "") and rows["s"] == (
        "0..2",
        "",
        "axis 3 by 3",
        "axis 3",
    )
    assert rows["c"] == ("0..3", "", "axis 1", "axis 1") and rows["n"] == (
        "0..1",
        "axis 0",
        "axis 0",
        "",
    )


def test_several_axes_and_quotients():
    table = ea.mapping_table(ea.parse("O[i:6] = A[i,i] + B[(i+1)//2]", A=(6, 6), B=(4,)))
    assert table.rows == [("i", "0..5", "axis 0", "axis 0, axis 1", "axis 0 in (i + 1)//2")]


def test_statements_are_one_expression():
    table = ea.mapping_table(
        ea.parse("T[i,j] += A[i,k]*B[k,j]\nO[i,j] = T[i,j]", A=(3, 4), B=(4, 5))
    )
    assert table.head[-1] == "the inner scope" and [row[0] for row in table.rows] == ["i", "j"]


def test_in_jupyter_cells_that_hold_something_are_marked():
    html = ea.mapping_table(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(3, 4), B=(4, 5)))._repr_html_()
    assert html.count('class="has"') == 6 and html.count("<tr>") == 4


def test_what_is_no_expression_is_refused():
    with pytest.raises(ea.NotationError, match="expected a tensor expression"):
        ea.mapping_table(3)
