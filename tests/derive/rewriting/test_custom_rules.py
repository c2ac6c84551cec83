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


def replacing(name, find, replacement):
    """Return a rule that puts one sub-expression for another."""

    @ea.rule(name, before="L[x] f", after="L[x] g")
    def replaced(scope):
        after = scope.body.replace(find, replacement)
        if after != scope.body:
            yield ea.Scope(scope.iterators, scope.where, after)

    return replaced


def test_a_law_of_real_functions_is_accepted():
    def is_exponential_of_sum(body):
        return isinstance(body, sympy.exp) and isinstance(body.args[0], sympy.Add)

    def product_of_exponentials(body):
        factors = [sympy.exp(part, evaluate=False) for part in body.args[0].args]
        return sympy.Mul(*factors, evaluate=False)

    law = replacing("exp of a sum", is_exponential_of_sum, product_of_exponentials)
    scope = ea.parse("O[i] = exp(A[i] + B[i])*C[i]", A=(4,), B=(4,), C=(4,))
    report = ea.testing.check_rule(law, examples=4, strategy=st.just(scope))
    assert (report.programs, report.moves) == (1, 1)


LOST = {
    "a statement": "T[i] = A[i]*A[i]\nO[i] = T[i]*Sum[k:3](k - 1)",
    "an inner scope": "O[i:4] = (L[i:4](A[i]*A[i]))[i]*Sum[k:3](k - 1)",
}


@pytest.mark.parametrize("text", LOST.values(), ids=LOST)
def test_what_the_program_does_with_a_wrong_scope_does_not_hide_it(text):
    """The product is multiplied by 0."""
    power = replacing("wrong", lambda body: body.is_Pow, lambda body: body.base * 3)
    program = ea.parse(text, A=(4,))
    with pytest.raises(ea.RuleError, match=r"wrong at .* changes the value"):
        ea.testing.check_rule(power, examples=3, strategy=st.just(program))


def test_a_wrong_law_is_tried_at_fractions():
    rounding = replacing("whole", sympy.floor, lambda argument: argument)
    scope = ea.parse("O[i] = floor(A[i])", A=(4,))
    with pytest.raises(ea.RuleError, match="changes the value"):
        ea.testing.check_rule(rounding, examples=1, strategy=st.just(scope))
    whole = ea.parse("O[i] = floor(A[i])", A=ea.tensor("A", (4,), "i32"))
    assert ea.testing.check_rule(rounding, examples=1, strategy=st.just(whole)).moves == 1


@pytest.mark.parametrize("wrong", ["log(Abs(A[i]))", "-log(A[i])", "log(A[i])*1.0001"])
def test_wrong_laws_of_real_functions_are_refused(wrong):
    after = ea.parse(f"O[i] = {wrong}", A=(9,)).body
    law = replacing("wrong", lambda body: isinstance(body, sympy.log), lambda _: after)
    scope = ea.parse("O[i] = log(A[i])", A=(9,))
    with pytest.raises(ea.RuleError, match="changes the value"):
        ea.testing.check_rule(law, examples=1, strategy=st.just(scope))


def test_the_report_counts_what_is_distinct():
    scopes = [ea.parse(f"O[i] += A[i,j]*{factor}", A=(2, 3)) for factor in (2, 3)]
    splitting = ea.rules["summation splitting"]
    nothing = ea.testing.check_rule(splitting, examples=9, strategy=st.sampled_from(scopes))
    assert (nothing.programs, nothing.moves) == (2, 0)
    pairs = [ea.parse("O[i] += A[i,j,k]", A=(2, 3, size)) for size in (2, 4)]
    report = ea.testing.check_rule(splitting, examples=9, strategy=st.sampled_from(pairs))
    once = len(list(ea.Session(pairs[0]).moves(splitting.name)))
    assert (report.programs, report.moves) == (2, 2 * once)
    assert "distinct moves on 2 distinct programs" in str(report)


def test_a_rule_that_cancels_is_accepted_and_one_that_changes_a_domain_is_not():
    """At a pole alone, both sides need not have a value."""
    cancelled = ea.parse("O[i] = B[i]", B=(4,)).body
    cancelling = replacing("cancelling", lambda body: body.is_Mul, lambda _: cancelled)
    scope = ea.parse("O[i] = A[i]*B[i]*exp(-log(A[i]**2)/2)*sign(A[i])", A=(4,), B=(4,))
    report = ea.testing.check_rule(cancelling, examples=3, strategy=st.just(scope))
    assert report.moves == 1
    halved = ea.parse("O[i] = 2*log(A[i])", A=(4,)).body
    narrowing = replacing("narrowing", lambda body: isinstance(body, sympy.log), lambda _: halved)
    wide = ea.parse("O[i] = log(A[i]**2)", A=(4,))
    with pytest.raises(ea.RuleError, match="changes the value"):
        ea.testing.check_rule(narrowing, examples=1, strategy=st.just(wide))
