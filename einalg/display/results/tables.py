"""Results that are tables: candidates, timings, distances, the iterator mapping table."""

from __future__ import annotations

from html import escape
from itertools import islice

from derive.matching import Distances
from derive.matching.mapping_table import MappingTable
from derive.results.candidates import MOST_ROWS, Candidates
from derive.results.timings import Timings
from einalg.display import html
from einalg.display.html import page
from einalg.display.tables import table


def candidates_html(candidates: Candidates) -> str:
    """Return the first candidates as rows, and the remarks below."""
    rows = islice(candidates.rows(), MOST_ROWS)
    remarks = "<br>".join(candidates.remarks())
    return page(table(candidates.heads, rows) + remarks, "einalg-candidates")


def timings_html(timings: Timings) -> str:
    """Return a row for each way to run a program, and the remarks below."""
    remarks = "<br>".join(timings.remarks())
    return page(table(timings.heads, timings.rows()) + remarks, "einalg-timings")


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
