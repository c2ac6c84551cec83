"""Whole networks: the programs of a graph, optimized one after the other and put together again.

`optimization` goes through the programs of a graph and the `forms` of each, as a `task` says;
`optimized_program` is one result and `optimized` the whole. What rewrites a program as a whole is a
pass in `passes`: add one there, and name it in `forms.variants`. The rooms of `derive` may be
imported, and the graphs of `einalg.frontends`; nothing that shows things.
"""

from __future__ import annotations

from derive.programs.forms.layers import Layer
from derive.programs.forms.rewriting.rule_set import RuleSet, rule_set
from derive.programs.optimized import OptimizedNetwork, repeated_programs
from derive.programs.optimized_program import OptimizedProgram

__all__ = [
    "Layer",
    "OptimizedNetwork",
    "OptimizedProgram",
    "RuleSet",
    "repeated_programs",
    "rule_set",
]
