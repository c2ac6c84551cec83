"""Results that are tables: candidates, timings, rooflines, distances, iterator mapping tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from derive.cost.roofline_table import RooflineTable
from derive.matching import Distances
from derive.matching.mapping_table import MappingTable
from derive.results.candidates import Candidates
from derive.results.timings import Timings
from einalg.display import html
from einalg.display.html import page
from einalg.display.roofline_svg import roofline_svg
from einalg.display.tables import long_table, table


def candidates_html(candidates: Candidates) -> str:
    """Return a row for each candidate, the last ones folded, and the remarks below."""
    return page(candidates_table(candidates), "einalg-candidates")


def candidates_table(candidates: Candidates) -> str:
    """Return the rows and the remarks of candidates without a page around them."""
    rows = list(candidates.rows())
    shown = long_table(candidates.heads, rows, numbers=(1, 4))
    return f"{shown}{_remarks(candidates.remarks(len(rows)))}"


def _remarks(remarks: Sequence[str]) -> str:
    lines = "<br>".join(map(escape, remarks))
    return f'<p class="einalg-muted">{lines}</p>' if lines else ""


def timings_html(timings: Timings) -> str:
    """Return a row for each way to run a program, and the remarks below."""
    shown = table(timings.heads, timings.rows(), numbers=(1, 2, 3, 4))
    return page(shown + _remarks(timings.remarks()), "einalg-timings")


def roofline_html(table: RooflineTable) -> str:
    """Return the picture of the roof with the candidates below it, and a row for each of them."""
    return page(roofline_picture(table), "einalg-roofline")


def roofline_picture(table: RooflineTable) -> str:
    """Return the picture and the rows without a page around them."""
    rows = []
    for row, cells in zip(table.rows, table.cells(), strict=True):
        rows.append((*cells, row.operators))
    heads = (*table.heads(), "kernels")
    shown = long_table(heads, rows, numbers=(1, 2, 3, 4, 5, 6, 8))
    return f"{roofline_svg(table)}{shown}{_remarks(table.remarks())}"


def distances_html(distances: Distances) -> str:
    """Return a row for each operator with a comparable body, and the names of the others."""
    rows = []
    for distance in distances.comparable:
        reasons = "<br>".join(escape(reason.text) for reason in distance.reasons)
        rows.append((f"{distance:g}", escape(distance.operator), reasons))
    shown = html.table(("distance", "operator", "what separates"), rows)
    if distances.remark:
        shown += f"<p>{escape(distances.remark)}</p>"
    return page(shown, "einalg-distances")


def mapping_table_html(mapping: MappingTable) -> str:
    """Return a row for each index, with the cells marked in which it occurs."""
    shown = table(mapping.head, mapping.rows, "Iterator mapping table")
    return page(shown.replace("<td>axis", '<td class="has">axis'), "einalg-mapping")
