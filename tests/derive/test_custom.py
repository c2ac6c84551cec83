"""What `check_rule` says of a rule that is wrong."""

from __future__ import annotations

import pytest

import einalg as ea
from einalg.scope import Reduce
from einalg.testing import strategies
from einalg.traverse import substitute

SMALL = strategies.scopes(max_indices=2, nested=False, quotients=False, where=False, max_points=20)


@ea.rule("reversal", before="L[x] Σ[s] f(s)", after="L[x] Σ[s] f(high - s)")
def reversal(scope):
    """Wrong in two ways: it reads another element, and where there is no padding, outside."""
    node = scope.body
    if isinstance(node, Reduce) and not node.where:
        for it in node.iterators:
            body = substitute(node.body, {it.index: it.high - it.index})
            yield {"index": it.index.name}, ea.Scope(scope.iterators, scope.where, Reduce(node.op, node.iterators, None, body))


def test_a_rule_that_is_wrong_in_several_ways_is_one_error():
    with pytest.raises(ea.RuleError, match="reversal at O: index="):
        ea.testing.check_rule(reversal, examples=60, strategy=SMALL)
