"""Mutants: what was changed, and the points of the output that differ, drawn along two axes."""

from __future__ import annotations

from html import escape
from itertools import groupby
from math import prod

import islpy as isl

from derive.rules.partial.mutants import Mutant, Mutants
from einalg.display.html import badge, code, page
from einalg.display.mathml import formula
from einalg.display.read_sets import CellGrid, seen, two_most_interesting
from einalg.display.tables import long_table
from einalg.language.ir.scope import Scope

DIFFERS = 1  # the kind of a cell at which the output differs, for some values of the other axes
COLOURS = ("#cfe2f3", "#d1495b")  # of the points of the interior and of those that differ
EDGE = "#999999"
CELL = 12  # pixels
MAX_CELLS = 64  # along an axis that is drawn


def mutant_html(mutant: Mutant) -> str:
    """Return a mutant as its formula, with where it differs in words and as a picture."""
    if mutant.is_equal:
        verdict = badge("equal", "good")
    else:
        verdict = badge("equal in part", "")
    words = str(mutant).splitlines()[0]
    rows = [f"<p>{verdict} {escape(words)}</p>", formula(mutant.program)]
    for name, region in mutant.regions.items():
        if not region.is_empty():
            rows.append(f"<p>{escape(name)} differs where {code(str(region))}</p>")
            rows.append(region_svg(mutant.original[name], region))
    return page("".join(rows), "einalg-mutant")


def mutants_html(mutants: Mutants) -> str:
    """Return a row for each mutant, the last ones folded."""
    if not mutants:
        return page(str(mutants), "einalg-mutants")
    return page(long_table(mutants.heads, list(mutants.rows())), "einalg-mutants")


def region_svg(scope: Scope, region: isl.Set) -> str:
    """Return the picture of a region of an output; nothing where it has too many points to draw, or
    symbolic sizes.
    """
    if scope.sizes or not scope.rank:
        return ""
    axes = _axes(scope, region)
    shape = [scope.shape[axis] for axis in axes]
    if max(shape) > MAX_CELLS:
        return ""
    labels = [scope.indices[axis].name for axis in axes]
    grid = CellGrid.empty("output", labels, [(0, extent) for extent in shape])
    grid.fill(seen(region, axes), DIFFERS)
    return _drawn(grid)


def _axes(scope: Scope, region: isl.Set) -> list[int]:
    """Return one or two axes to draw: those along which some places do not differ, then the
    longest.
    """

    def interest(axis: int) -> tuple[bool, int]:
        extent = scope.shape[axis]
        return seen(region, [axis]).count_val() < extent, extent

    return two_most_interesting(scope.rank, interest)


def _drawn(grid: CellGrid) -> str:
    """Return a grid as SVG: its cells in runs of one colour, lines between cells, names of axes."""
    rows = grid.cells.reshape(grid.rows, grid.columns)
    width, height = CELL * grid.columns, CELL * grid.rows
    parts = []
    for row, cells in enumerate(rows.tolist()):
        column = 0
        for kind, run in groupby(cells):
            length = len(list(run))
            parts.append(
                f'<rect x="{CELL * column}" y="{CELL * row}" width="{CELL * length}" '
                f'height="{CELL}" fill="{COLOURS[kind]}"/>'
            )
            column += length
    lines = [f"M{CELL * column} 0V{height}" for column in range(grid.columns + 1)]
    lines += [f"M0 {CELL * row}H{width}" for row in range(grid.rows + 1)]
    parts.append(f'<path d="{"".join(lines)}" stroke="{EDGE}" stroke-width="0.5"/>')
    label = " down, ".join(grid.labels) + " across"
    differing = int(rows.sum())
    title = f"{label}: {differing} of {prod(rows.shape)} places differ"
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg><p><small>{escape(label)}</small></p>"
    )
