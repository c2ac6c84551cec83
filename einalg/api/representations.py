"""The HTML that Jupyter shows for expressions and for each kind of result.

`derive` returns plain values; this table gives their classes the HTML of `einalg.display.results`.
`einalg.api` imports it, so that whatever is made by a public function has its picture.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from codegen.tuning.by_hand.choices import ScheduleChoices
from derive.cost.roofline_table import RooflineTable
from derive.interactive.choices import MoveList
from derive.matching import Distances
from derive.matching.mapping_table import MappingTable
from derive.programs import OptimizedNetwork
from derive.programs.report import Report
from derive.proof import Proof
from derive.results.candidates import Candidate, Candidates
from derive.results.costs import Costs
from derive.results.derivation import SearchResult
from derive.results.history import History
from derive.results.script import Explanation
from derive.results.timings import Timings
from derive.rules.partial.mutants import Mutant, Mutants
from derive.search.search_tree import SearchTree
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.api.interactive.schedule_html import choices_html
from einalg.display.mathml import attach_to_expressions
from einalg.display.network_graph import NetworkGraph
from einalg.display.results.costs import costs_html
from einalg.display.results.derivation import (
    candidate_html,
    derivation_html,
    explanation_html,
)
from einalg.display.results.moves import moves_html
from einalg.display.results.mutant import mutant_html, mutants_html
from einalg.display.results.network import network_html
from einalg.display.results.proof import history_html, proof_html, rule_verdict_html
from einalg.display.results.report import optimized_html, report_html
from einalg.display.results.search_tree import search_tree_html
from einalg.display.results.tables import (
    candidates_html,
    distances_html,
    mapping_table_html,
    roofline_html,
    timings_html,
)

METHOD = "_repr_html_"  # which IPython calls
HTML: Mapping[type, Callable[[Any], str]] = MappingProxyType(
    {
        Candidate: candidate_html,
        Candidates: candidates_html,
        Costs: costs_html,
        Distances: distances_html,
        Explanation: explanation_html,
        History: history_html,
        MappingTable: mapping_table_html,
        MoveList: moves_html,
        Mutant: mutant_html,
        Mutants: mutants_html,
        NetworkGraph: network_html,
        OptimizedNetwork: optimized_html,
        Proof: proof_html,
        Report: report_html,
        RooflineTable: roofline_html,
        RuleVerdict: rule_verdict_html,
        ScheduleChoices: choices_html,
        SearchResult: derivation_html,
        SearchTree: search_tree_html,
        Timings: timings_html,
    }
)


def attach_representations() -> None:
    """Give expressions, and every class of `HTML`, the method that IPython calls."""
    attach_to_expressions()
    for kind, html in HTML.items():
        setattr(kind, METHOD, html)
