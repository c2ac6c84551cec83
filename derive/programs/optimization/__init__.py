"""The optimization of a network, step by step, within the time that there is.

`optimize` goes through a graph, `optimize_program` through the steps for one program. These share
its `compiled_forms`: what a `trial` compiled and found right, and what was measured of it. Each
step is a file: the `first_form`, `comparisons` with libraries and with the program as it is,
`adapted_forms` of similar layers, `other_forms`, `mixed_layouts`, `searched_forms` by
`layer_search`, and the `answer`. Add a step there, and name it in `optimize_program`.
"""

from __future__ import annotations

from derive.programs.optimization.optimize import is_large, optimized, postponed

__all__ = ["is_large", "optimized", "postponed"]
