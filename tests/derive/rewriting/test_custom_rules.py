"""What `check_rule` says of a rule that is wrong."""

from __future__ import annotations

import pytest
import sympy
from hypothesis import strategies as st

import einalg as ea
from einalg.language.ir.body import Reduce, substitute
from einalg.testing import strategies

SMALL = strategies.scopes(max_indices=2, nested=False, quotients=False, where=False, max_points=20)


@ea.rule("reversal", before="L[x] Σ[s] f(s)", after="L[x] Σ[s] f(high - s)")
def reversal(scope):
    """Wrong in two ways: it reads another element, and where there is no padding, outside."""
    node = scope.body
    if isinstance(node, Reduce) and not node.where:
        for it in node.iterators:
            body = substitute(node.body, {it.index: it.high - it.index})
            yield (
                {"index": it.index.name},
                ea.Scope(scope.iterators, scope.where, Reduce(node.op, node.iterators, None, body)),
            )


def test_a_rule_that_is_wrong_in_several_ways_is_one_error():
    with pytest.raises(ea.RuleError, match="reversal at O: index="):
        ea.testing.check_rule(reversal, examples=60, strategy=SMALL)


MASKED = "O[i] = Piecewise((tanh(A[i]), i < 3), ({fill}, True))"


@ea.rule("other value", before="L[x] tanh(f)", after="L[x] 1.01 - 2/(exp(2*f) + 1)")
def other_value(scope):
    """Wrong by a little, where no other element is far larger."""
    after = scope.body.replace(
        sympy.tanh, lambda x: sympy.Rational(101, 100) - 2 / (sympy.exp(2 * x) + 1)
    )
    if after != scope.body:
        yield ea.Scope(scope.iterators, scope.where, after)


@pytest.mark.parametrize("fill", ["-3.4e38", "-1e12", "-1e9"])
def test_a_large_element_does_not_hide_that_a_rule_is_wrong(fill):
    scope = ea.parse(MASKED.format(fill=fill), A=(7,))
    session = ea.Session(scope, rules=[other_value])
    with pytest.raises(ea.RuleError, match="other value is wrong here"):
        session.apply(session.moves("other value")[0])
    with pytest.raises(ea.RuleError, match="changes the value"):
        ea.testing.check_rule(other_value, examples=5, strategy=st.just(scope))
