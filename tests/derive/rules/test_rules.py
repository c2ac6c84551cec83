"""Each rule by example: what it makes, what undoes it, and what it refuses (design §6)."""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import einalg as ea
from derive.rewriting.moves import Move, apply, moves
from derive.rewriting.user_rules import check_moves, check_rule
from derive.rules import ALL, RULES
from einalg.language.analysis.canonical import key
from einalg.language.analysis.validate import check
from einalg.language.ir.program import as_program


def program(text, **tensors):
    return as_program(ea.parse(text, **tensors))


def only(start, rule, **wanted):
    """The first move of a rule that has the wanted arguments."""
    return next(
        m for m in moves(start, [ALL[rule]]) if all(m.args[k] == v for k, v in wanted.items())
    )


CONV = program("O[h,f] += A.pad(1,0)[h+r-1,c]*K[r,f,c]", A=(6, 3), K=(3, 2, 3))


@pytest.mark.parametrize(
    ("text", "step", "after"),
    [
        (
            "Sum[k](A[i,k]*B[k,j]) - 2*Sum[m](A[i,m]*C[m,j])",
            "join",
            "Sum[m:6](A[i, m]*(B[m, j] - 2*C[m, j]))",
        ),
        (
            "Sum[k](A[i,k]*(B[k,j]-2*C[k,j]))",
            "expand",
            "Sum[k:6](A[i, k]*B[k, j]) - 2*Sum[k:6](A[i, k]*C[k, j])",
        ),
        ("Sum[k](A[i,k]*B[i,j])", "out of", "B[i, j]*Sum[k:6](A[i, k])"),
        ("Sum[k](A[i,k])*B[i,j]", "into", "Sum[k:6](A[i, k]*B[i, j])"),
        (
            "(Sum[k](A[i,k]) - C[i,j])*B[i,j]",
            "expand",
            "B[i, j]*Sum[k:6](A[i, k]) - B[i, j]*C[i, j]",
        ),
        (
            "Sum[k](A[i,k]*B[k,j] - 2*C[i,k])",
            "apart",
            "Sum[k:6](A[i, k]*B[k, j]) - 2*Sum[k:6](C[i, k])",
        ),
        (
            "Sum[k]((A[i,k] - B[k,j])**2)",
            "expand",
            "Sum[k:6](A[i, k]**2) + Sum[k:6](B[k, j]**2) - 2*Sum[k:6](A[i, k]*B[k, j])",
        ),
        ("C[i,j]*(A[i,j] + 2)**2", "expand", "C[i, j]*(A[i, j]**2 + 4*A[i, j] + 4)"),
    ],
)
def test_distribution_by_example(text, step, after):
    start = program(f"O[i:6,j:6] = {text}", A=(6, 6), B=(6, 6), C=(6, 6))
    moved = apply(start, only(start, "distribution", step=step), ALL)
    assert str(moved) == f"O[i:6, j:6] = {after}" and same(start, moved)


def test_distribution_leaves_infinities_alone():
    start = program("O[i:6] = B[i]*Sum[k:6](A.pad(2, fill=inf)[i+k-2])", A=(8,), B=(6,))
    assert not list(moves(start, [ALL["distribution"]]))
    with pytest.raises(ea.RuleError, match="only a sum of finite terms can be distributed"):
        apply(start, Move("distribution", ("O",), {"step": "into", "reduction": 0}), ALL)


def test_traversal_merging_undoes_summation_splitting():
    split = apply(CONV, only(CONV, "summation splitting", outer=("r",)), ALL)
    merged = apply(split, only(split, "traversal merging"), ALL)
    assert key(merged) == key(CONV) != key(split)


def test_traversal_merging_undoes_variable_substitution():
    renamed = apply(CONV, only(CONV, "variable substitution", target="traversal"), ALL)
    merged = apply(renamed, only(renamed, "traversal merging"), ALL)
    assert key(merged) == key(CONV)


@pytest.mark.parametrize(
    ("fill", "after"), [("0", "A.pad((1, 0), 0)"), ("5", "A.pad((1, 0), 0, fill=5)")]
)
def test_traversal_merging_pads_what_an_inner_scope_reorders(fill, after):
    """Padding of a tensor in another order is padding of the tensor, whatever it is filled with."""
    given = program(
        f"O[h:9,c] = (L[c:4,h:8](A[h,c])).pad((0,1),(1,2),fill={fill})[c,h-1]", A=(8, 4)
    )
    merged = apply(given, only(given, "traversal merging"), ALL)
    assert str(merged) == f"O[h:9, c:4] = {after}[h - 1, c]"
    given_array = np.arange(32).reshape(8, 4)
    assert ea.evaluate(merged, A=given_array).tolist() == ea.evaluate(given, A=given_array).tolist()


@pytest.mark.parametrize(
    "inner",
    [
        "L[c:4,h:7](A[h,c])",
        "L[c:4,h:8](A[h,2])",
        "L[c:4,h:8](A[h,c]+1)",
        "L[c:4,h:8](A.pad(1,0)[h-1,c])",
    ],
)
def test_traversal_merging_leaves_other_padded_scopes(inner):
    """A part, a copy of a part, what is computed: outside, they are not what the tensor is."""
    given = program(f"O[h:9,c] = ({inner}).pad((0,1),(1,2),fill=5)[c,h-1]", A=(8, 4))
    assert not list(moves(given, [ALL["traversal merging"]]))


@pytest.mark.parametrize(
    ("inner", "read", "after"),
    [
        ("L[h:8](A[h,2]).pad((1,2),fill=5)", "h-1", "A.pad((1, 0), 0, fill=5)[h - 1, 2]"),
        (
            "L[c:2,h:8](A[h,c+1]).pad(0,(1,2),fill=5)",
            "c,h-1",
            "A.pad((1, 0), 0, fill=5)[h - 1, c + 1]",
        ),
        ("L[h:8,c:3](A[h,0]).pad((1,2),0,fill=5)", "h-1,c", "A.pad((1, 0), 0, fill=5)[h - 1, 0]"),
    ],
)
def test_traversal_merging_pads_the_whole_axes_of_a_part(inner, read, after):
    """A part of a tensor along other axes than those that are padded is read where it lies."""
    given = program(f"O[h:9,c:2] = ({inner})[{read}]", A=(8, 4))
    merged = apply(given, only(given, "traversal merging"), ALL)
    assert str(merged) == f"O[h:9, c:2] = {after}"
    given_array = np.arange(32).reshape(8, 4)
    assert ea.evaluate(merged, A=given_array).tolist() == ea.evaluate(given, A=given_array).tolist()


@pytest.mark.parametrize(
    ("inner", "read"),
    [
        ("L[c:2,h:8](A[h,c]).pad((0,1),0,fill=5)", "c+1,h"),
        ("L[h:4](A[h,h]).pad(1,fill=5)", "h-1"),
        ("L[h:8](A[h,h//2]).pad((1,0),fill=5)", "h-1"),
        ("L[h:8,c:3](A[h,0]).pad(0,1,fill=5)", "h,c-1"),
    ],
)
def test_traversal_merging_leaves_paddings_of_no_whole_axis(inner, read):
    """Outside of a part there are other elements; outside of several axes at once, none."""
    given = program(f"O[h:3,c:2] = ({inner})[{read}]", A=(8, 4))
    assert not list(moves(given, [ALL["traversal merging"]]))


def test_expression_merging_undoes_expression_splitting():
    cut = apply(CONV, only(CONV, "expression splitting", index="f"), ALL)
    merged = apply(cut, only(cut, "expression merging"), ALL)
    whole = apply(merged, only(merged, "traversal merging"), ALL)
    assert key(whole) == key(CONV)


def test_tightening_undoes_relaxing():
    split = apply(CONV, only(CONV, "summation splitting", outer=("r",)), ALL)
    skewed = apply(
        split,
        next(
            m
            for m in moves(split, [RULES["variable substitution"]])
            if m.path == ("O", 0)
            and "h + r - 1" in m.args["forward"].values()
            and "r" in m.args["forward"]
        ),
        ALL,
    )
    merged = apply(skewed, only(skewed, "traversal merging"), ALL)
    relaxed = apply(merged, only(merged, "boundary relaxing"), ALL)
    tight = apply(relaxed, only(relaxed, "boundary tightening"), ALL)
    assert (
        str(relaxed)
        == "O[h:6, f:2] = Sum[r:3]((L[r:3, t:-1:7, f:2](Sum[c:3](A.pad(1, 0)[t, c]*K[r, "
        "f, c])))[r, h + r - 1, f])"
    )
    assert (
        str(tight) == "O[h:6, f:2] = Sum[r:3]((L[r:3, t:6, f:2](Sum[c:3](A[t, c]*K[r, f, "
        "c]))).pad(0, 1, 0)[r, h + r - 1, f])"
    )
    again = apply(
        tight,
        Move(
            "boundary relaxing", ("O",), {"inner": 0, "box": [[0, 3], [-1, 7], [0, 2]], "where": []}
        ),
        ALL,
    )
    assert str(again) == str(relaxed) and same(tight, again)


def test_relaxing_minds_which_of_two_paddings_a_point_shows():
    """Found on a random expression: the inner fill (1) stands in the gap, the outer one (0) beyond."""
    start = program("O[i:2] = (L[t:3](X[t]*2, where=t>=1)).pad(0, fill=1).pad(1)[i] * X[i]", X=(3,))
    assert not list(moves(start, [RULES["boundary relaxing"]]))
    with pytest.raises(ea.RuleError, match="reads the fill at a point that would get a value"):
        apply(
            start,
            Move("boundary relaxing", ("O",), {"inner": 0, "box": [[0, 3]], "where": []}),
            ALL,
        )


@pytest.mark.parametrize("first", [-3, 0])
def test_relaxing_leaves_every_fill_where_it_is(first):
    """A larger scope under the same amounts of padding would show an inner fill further out."""
    padded = "(L[k:1](A[k])).pad((2, 5), fill=3).pad(1, fill=-2).pad((0, 12), fill=4)"
    program = as_program(ea.parse(f"O[m:6] = {padded}[3*m + {first}]", A=(3,)))
    relaxed = list(moves(program, [RULES["boundary relaxing"]]))
    arrays = {"A": np.arange(1, 4)}
    for move in relaxed:
        after = apply(program, move, ALL)
        assert ea.evaluate(after, **arrays).tolist() == ea.evaluate(program, **arrays).tolist()
    assert relaxed


def test_a_guarded_factor_stays_inside():
    """Found on a random expression: A[i] is read only where the condition on w lets it."""
    start = program("O[i:2] = Sum[s:2, w:1](A[i]*B[s], where=i + w <= 0)", A=(1,), B=(2,))
    assert check_moves(RULES["summation splitting"], start, arrays(start)) > 0


def arrays(start):
    import numpy as np

    rng = np.random.default_rng(0)
    return {name: rng.integers(-3, 4, t.shape) for name, t in start.tensors.items()}


def same(one, two):
    return bool((ea.evaluate(one, **arrays(one)) == ea.evaluate(two, **arrays(one))).all())


def test_siblings_that_share_an_input_become_one_product():
    qkv = program(
        "Q[i,j] += x[i,k]*Wq[k,j]\nK[i,j] += x[i,k]*Wk[k,j]\nO[i,l] = Sum[j](Q[i,j]*K[l,j])",
        x=(5, 3),
        Wq=(3, 4),
        Wk=(3, 4),
    )
    for axis in (None, 1):
        stacked = apply(qkv, only(qkv, "expression merging", axis=axis), ALL)
        assert same(qkv, stacked) and any(name == "Wq_Wk" for name in stacked.names)
        sums = [s for _, s in stacked.statements if "Wq_Wk" in s.tensors]
        assert len(sums) == 1 and len({"Wq", "Wk"} & set(sums[0].tensors)) == 0


def test_siblings_among_many_statements_that_read_each_other():
    """There are as many ways from the last statement to the first as the 80th number of Fibonacci."""
    lines = [
        "T0[i] = A[i]",
        "T1[i] = A[i] + 1",
        *(f"T{k}[i] = T{k - 1}[i] + T{k - 2}[i]" for k in range(2, 80)),
        "O[i] = T79[i]",
    ]
    program = ea.parse("\n".join(lines), A=(4,))
    assert all(move.args["sibling"] != "O" for move in moves(program, [ALL["expression merging"]]))


def test_siblings_of_different_width_are_stacked_along_their_axis():
    two = program(
        "P[i,j] += x[i,k]*U[k,j]\nQ[i,j] += x[i,k]*V[k,j]\nO[i,j,l] = P[i,j]*Q[i,l]",
        x=(5, 3),
        U=(3, 2),
        V=(3, 7),
    )
    stacked = apply(two, only(two, "expression merging", axis=1), ALL)
    assert same(two, stacked) and stacked["P_Q"].shape == (5, 9)


def test_fusion_refuses_unbounded_recomputation():
    chain = program(
        "T[i,j] += A[i,k]*B[k,j]\nO[i,l] = Sum[j](T[i,j]*C[j,l])", A=(4, 5), B=(5, 6), C=(6, 9)
    )
    assert not list(moves(chain, [RULES["expression fusion"]]))
    with pytest.raises(
        ea.RuleError, match=r"every element of T would be computed 9\.0 times, more than 4"
    ):
        apply(chain, Move("expression fusion", ("O",), {"producer": "T"}), ALL)
    fused = apply(chain, Move("expression fusion", ("O",), {"producer": "T", "limit": 9}), ALL)
    assert fused.names == ("O",) and same(chain, fused)


def test_an_epilogue_fuses_into_its_producer():
    relu = program(
        "T[i,j] += A[i,k]*B[k,j]\nO[i,j] = Max(T[i,j] + b[j], 0)", A=(4, 5), B=(5, 6), b=(6,)
    )
    fused = apply(relu, only(relu, "expression fusion"), ALL)
    assert str(fused) == "O[i:4, j:6] = Max(0, b[j] + Sum[k:5](A[i, k]*B[k, j]))"


@pytest.mark.parametrize("low", [-3, 0, 1])
def test_phases_of_an_index_turn_conditions_on_it_into_ranges(low):
    """Floor semantics: a range that starts below 0 and that 3 does not divide."""
    start = program(
        f"O = L[h:{low}:{low + 8},f](Sum[s:3](A.pad(4,0)[(h - s)//3,f]*K[s], where=(h - s)%3==0))",
        A=(3, 2),
        K=(3,),
    )
    cut = apply(start, only(start, "expression splitting", phases=3), ALL)
    assert (
        same(start, cut)
        and str(cut).count("Sum[()]") == 3
        and "s" not in {i.name for i in cut["O"].indices}
    )
    assert "Sum[s" not in str(cut)


def test_phases_of_two_indices_at_once():
    start = program("O[h:5,w:7] = A[h//2,w//3]*(h + w)", A=(3, 3))
    cut = apply(start, only(start, "expression splitting", phases=(2, 3)), ALL)
    assert same(start, cut) and str(cut).count("Sum[()]") == 6
    for phases in ([2], [1, 2], 2, ["a", "b"]):
        with pytest.raises(ea.RuleError):
            apply(
                start,
                Move("expression splitting", ("O",), {"index": ["h", "w"], "phases": phases}),
                ALL,
            )


@pytest.mark.parametrize("stride", [2, 3])
def test_splits_by_the_strides_that_occur(stride):
    strided = program(f"O[h] += A.pad(1)[{stride}*h+r-1]*K[r]", A=(11,), K=(5,))
    found = [m for m in moves(strided, [RULES["variable substitution"]]) if m.args["target"] == 0]
    assert any(f"r//{stride}" in m.args["forward"].values() for m in found)
    for move in found:
        assert same(strided, apply(strided, move, ALL))


def test_merges_of_adjacent_indices_make_the_read_bare():
    flat = program("O[i:3,j:4] = X[4*i+j]", X=(12,))
    move = next(
        m for m in moves(flat, [RULES["variable substitution"]]) if len(m.args["forward"]) == 1
    )
    assert str(apply(flat, move, ALL)) == "O[i:3, j:4] = (L[t:12](X[t]))[4*i + j]"


@pytest.mark.parametrize(
    "mapping",
    [
        "{ [h, w] -> [w, h] }",
        "{ [h, w] -> [t = h + w, w] }",
        "{ [h, w] -> [a = floor(h/2), b = h mod 2, w] }",
        "{ [h, w] -> [k = 5h + w] : 0 <= w < 5 }",
        "{ [h, w] -> [h + 3, -w] }",
        "{ [h, w] -> [h + 2w, h + 3w] }",
    ],
)
def test_any_isl_map_of_a_user(mapping):
    start = program("O[h:6,w] = A.pad(1,0)[h-1,w]*(h + 2*w)", A=(6, 5))
    session = ea.Session(start)
    step = session.substitute(mapping)
    assert step.verdict == "proved" or step.verdict == "tested"
    assert same(start, step.program) and str(step.program) != str(start)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (
            "{ [h, w] -> [h] }",
            "the map is not a bijection on the domain, so it cannot rename its points",
        ),
        (
            "{ [h, w] -> [h, w] : h < 3 }",
            "the map is not a bijection on the domain, so it cannot rename its points",
        ),
        ("{ [h] -> [h] }", "the map takes 1 indices, but there are 2: h, w"),
    ],
)
def test_maps_that_cannot_rename_points(mapping, message):
    with pytest.raises(ea.RuleError) as error:
        ea.Session(program("O[h,w] = A[h,w]", A=(6, 5))).substitute(mapping)
    assert str(error.value).startswith(message)


def test_an_unreadable_map():
    with pytest.raises(ea.RuleError, match="isl cannot read the map"):
        ea.Session(program("O[h,w] = A[h,w]", A=(6, 5))).substitute("h -> w")


STRIDED = program(
    "O[h:8,f] = Sum[r1:4,r2:2,c](A.pad(3,0)[2*h+2*r1+r2-3,c]*K[r1,r2,f,c])",
    A=(20, 3),
    K=(4, 2, 5, 3),
)


def test_staging_copies_by_the_digits_of_a_stride():
    copied = apply(STRIDED, only(STRIDED, "staging", axes=("h + r1", "r2", "c")), ALL)
    inner = "(L[y0:11, y1:2, y2:3](A.pad((3, 0), 0)[2*y0 + y1 - 3, y2]))[h + r1, r2, c]"
    assert inner in str(copied) and same(STRIDED, copied)
    back = apply(copied, only(copied, "traversal merging"), ALL)
    assert key(back) == key(STRIDED)


@pytest.mark.parametrize(
    ("factor", "is_staged"),
    [("0.9**j", True), ("sin(j/7)", True), ("(j + 1)", False), ("Piecewise((1, j<3), (0, True))", False)],
)  # fmt: skip
def test_staging_evaluates_functions_of_indices_once(factor, is_staged):
    start = program(f"O[i] = Sum[j:9]({factor}*x[i,j])", x=(5, 9))
    staged = [
        move for move in moves(start, [ALL["staging"]]) if list(move.args.get("axes", ())) == ["j"]
    ]
    assert bool(staged) == is_staged
    for move in staged:
        assert ea.prove(start, apply(start, move, ALL)).verdict == "proved"


def test_staging_evaluates_weights_in_a_scope_of_their_own():
    weight = [
        ea.tensor(name, shape, role="weight") for name, shape in (("K", (4, 3, 3)), ("g", (4,)))
    ]
    scaled = program(
        "O[h,f] = Sum[c,r](A.pad(0,1)[c,h+r-1]*K[f,c,r]*g[f])", A=(3, 8), K=weight[0], g=weight[1]
    )
    folded = apply(scaled, only(scaled, "staging", axes=("f", "c", "r")), ALL)
    assert "(L[f:4, c:3, r:3](K[f, c, r]*g[f]))[f, c, r]" in str(folded) and same(scaled, folded)


@pytest.mark.parametrize("condition", ["i >= 7", "Eq(i, 9)", "(i >= 2, i <= 1)"])
def test_what_is_never_read_is_not_staged(condition):
    start = program(f"O = L[i:4](A[2*i]*B[i]**2, where={condition})", A=(8,), B=(4,))
    staging = list(moves(start, [ALL["staging"]]))
    assert not [move for move in staging if "access" in move.args]
    for move in staging:
        apply(start, move, ALL)
    sums = program("O[i:4] = A[2*i] + Sum[s:3](A[2*i]*B[s], where=i >= 7)", A=(8,), B=(4,))
    copies = [move for move in moves(sums, [ALL["staging"]]) if "access" in move.args]
    for move in copies:
        check(apply(sums, move, ALL))
    assert copies


def test_a_sum_of_truth_values_is_a_factor_as_a_number():
    start = program(
        "O[i:2] = Sum[s:3](2*(L[j:4](Eq(A[j], 0), where=j >= 1)).pad(1)[i + s])", A=(4,)
    )
    distributed = program("O[i:2] = B[i]*Sum[s:3](Eq(A[s], 0))", A=(4,), B=(2,))
    arrays = {"A": np.array([0, 1, 0, 0]), "B": np.array([2, 3])}
    tried = 0
    for expression in (start, distributed):
        given = {name: arrays[name] for name in expression.inputs}
        for move in moves(expression, ALL.values()):
            after = apply(expression, move, ALL)
            assert (
                ea.evaluate(after, **given).tolist() == ea.evaluate(expression, **given).tolist()
            ), f"{move}\n{after}"
            tried += 1
    assert tried > 3


def test_a_scope_that_a_statement_is_too_is_lifted():
    start = program("T[i:4] = 2*A[i]\nO[i:4] = (L[j:4](2*A[j]))[i] + T[i]", A=(4,))
    lifted = apply(start, Move("lifting", ("O", 0), {"name": "U"}), ALL)
    assert lifted["T"] == start["T"] and set(lifted["O"].tensors) == {"T", "U"}


def test_a_scope_without_points_has_only_moves_that_apply():
    start = program("O[i:4, j:0] = A[3*i + j]*Sum[s:3](B[s, i//2])", A=(9,), B=(3, 2))
    for move in moves(start, ALL.values()):
        check(apply(start, move, ALL))


@pytest.mark.parametrize("fill", [0, 5])
def test_no_move_reads_a_statement_where_it_has_no_value(fill):
    """A scope does not say that a statement has gaps, so that its padding seemed superfluous."""
    text = f"""T = L[k:-1:5](2*A[k+1], where=Eq(k%2, 0))
    O[i:9] = T.pad(2, fill={fill})[i - 3]*B[i]"""
    start = program(text, A=(6,), B=(9,))
    arrays = {"A": np.arange(1, 7), "B": np.arange(9) - 4}
    expected = ea.evaluate(start, **arrays).tolist()
    splitting = [RULES["expression splitting"]]
    halves = [apply(start, move, ALL) for move in moves(start, splitting, ("O",))]
    parts = []
    for half in halves:
        for place in (("O", 0), ("O", 1)):
            parts += [apply(half, move, ALL) for move in moves(half, splitting, place)]
    for after in (*halves, *parts):
        check(after)
        assert ea.evaluate(after, **arrays).tolist() == expected
    assert parts
    move = Move("expression splitting", ("O", 1), {"index": "i", "at": 8})
    with pytest.raises(ea.RuleError, match=r"T\.pad\(0\)"):
        apply(next(half for half in halves if "L[i:2:9]" in str(half)), move, ALL)


@pytest.mark.parametrize("dtype", ["f32", "i32", "u8", "bool"])
def test_fusion_keeps_the_type_of_a_statement(dtype):
    text = """T[k:1:8] = A[0]
    U[j:2, k:4] = T.pad((2, 0))[-2*k + 5]
    O[i:2] = U[i, i]"""
    start = program(text, A=ea.tensor("A", (1,), dtype))
    fused = apply(start, Move("expression fusion", ("U",), {"producer": "T"}), ALL)
    assert fused["U"].dtype == start["U"].dtype == dtype and fused.names == ("U", "O")


def test_staging_minds_a_cut_domain():
    """The box of the axes reads points at which the inner scope has no value."""
    start = program("O[i:3,j:4] = Sum[k:8]((L[t:8](B[t], where=t>=4))[4 + k//2]*(j + 1))", B=(8,))
    move = Move(
        "staging", ("O",), {"access": 0, "axes": ["k//2 + i", "i"], "subscripts": ["y0 - y1 + 4"]}
    )
    after = apply(start, move, ALL)
    assert ".pad((0, 2))" in str(after) and same(start, after)


BAD_MOVES = [
    (
        Move("summation splitting", ("O",), {"reduction": 0, "outer": ["q"]}),
        "the reduction has the indices r, c, not all of q",
    ),
    (
        Move("summation splitting", ("O",), {"reduction": 0, "outer": ["r", "c"]}),
        "no index is left to move into the inner scope\n  leave at least one index out of `outer`",
    ),
    (
        Move("summation splitting", ("O",), {"reduction": 3, "outer": []}),
        "there is no reduction number 3: there are 1",
    ),
    (
        Move("summation splitting", ("P",), {"reduction": 0, "outer": []}),
        "there is no statement 'P'\n  the statements are O",
    ),
    (
        Move("summation splitting", ("O", 1), {"reduction": 0, "outer": []}),
        "there is no inner scope number 1: there are 0",
    ),
    (
        Move("traversal merging", ("O",), {"inner": 0}),
        "there is no inner scope number 0: there are 0",
    ),
    (
        Move(
            "variable substitution",
            ("O",),
            {
                "target": "traversal",
                "forward": {"x": "h//2", "f": "f"},
                "backward": {"h": "2*x", "f": "f"},
            },
        ),
        "the map is not a bijection with that inverse: it returns to a point 2*(h//2) - h away",
    ),
    (
        Move(
            "variable substitution",
            ("O",),
            {"target": "traversal", "forward": {"x": "h"}, "backward": {"h": "x"}},
        ),
        "the map must go from the indices h, f to new ones and back\n"
        "  give forward={new: form in the old indices} and backward={old: form in the new indices}",
    ),
    (
        Move("expression splitting", ("O",), {"index": "h", "at": 6}),
        "h ranges over [0,6): a cut at 6 leaves one part empty",
    ),
    (
        Move("expression splitting", ("O",), {"index": "c", "at": 1}),
        "there is no index c in the traversal; it has h, f",
    ),
    (
        Move("boundary tightening", ("O",), {"reduction": 0, "box": [[0, 2], [0, 3]]}),
        "the body is not 0 at every point that would be removed from the reduction",
    ),
    (
        Move("boundary relaxing", ("O",), {"box": []}),
        "boundary relaxing at O: box=() cannot be applied",
    ),
    (
        Move("expression fusion", ("O",), {"producer": "T"}),
        "statement O does not read a statement T",
    ),
    (
        Move("staging", ("O",), {"access": 2, "axes": [], "subscripts": []}),
        "there is no read number 2: there are 2",
    ),
    (
        Move("staging", ("O",), {"access": 0, "axes": ["h + r", "c"], "subscripts": ["y0", "y1"]}),
        "the axes give h + r where h + r - 1 is read",
    ),
    (
        Move("staging", ("O",), {"access": 0, "axes": ["h + x"], "subscripts": ["y0", "0"]}),
        "index x is not bound where A.pad(1, 0)[h + r - 1, c] is read",
    ),
    (
        Move("staging", ("O",), {"access": 0, "axes": ["h"], "subscripts": ["h", "0"]}),
        "the staged subscripts speak of h, but the axes are y0",
    ),
    (
        Move("staging", ("O",), {"factors": [0, 7], "axes": [], "reduction": 0}),
        "there are 2 factors, not all of 0, 7",
    ),
    (
        Move("staging", ("O",), {"factors": [1], "axes": ["r"], "reduction": 0}),
        "the factors K[r, f, c] use the indices c, f, r, not r",
    ),
    (Move("staging", ("O",), {"axes": []}), "staging takes one of access=, factors= and terms="),
    (Move("magic", ("O",), {}), "there is no rule 'magic'\n  known: a"),
]


@pytest.mark.parametrize(("move", "message"), BAD_MOVES, ids=[str(m)[:60] for m, _ in BAD_MOVES])
def test_a_move_that_does_not_hold_is_a_rule_error(move, message):
    with pytest.raises(ea.RuleError) as error:
        apply(CONV, move, ALL)
    assert str(error.value).startswith(message)


def test_apply_checks_again_what_find_promised():
    """A move found for one program, applied to another, is refused and not wrong."""
    other = program("O[h,f] += A.pad((0,2),0)[h+r,c]*K[r,f,c]", A=(6, 3), K=(3, 2, 3))
    for move in moves(CONV, RULES.values()):
        try:
            after = apply(other, move, ALL)
        except ea.RuleError:
            continue
        assert same(other, after), move


def test_a_wrong_rule_is_caught():
    @ea.rule("forgets a term", before="L[x] Σ[s] f", after="L[x] Σ[s'] f")
    def wrong(scope):
        from einalg.language.index.iterator import LoopIndex
        from einalg.language.ir.body import Reduce

        if isinstance(scope.body, Reduce) and scope.body.iterators[0].extent > 1:
            first, *rest = scope.body.iterators
            shorter = Reduce(
                scope.body.op,
                [LoopIndex(first.index, first.low, first.high - 1), *rest],
                scope.body.where,
                scope.body.body,
            )
            yield {"index": first.index.name}, ea.Scope(scope.iterators, scope.where, shorter)

    with pytest.raises(ea.RuleError, match="changes the value of"):
        check_rule(wrong, examples=300)
    session = ea.Session(CONV, rules=[wrong])
    number = next(c.number for c in session.moves() if c.move.rule == wrong.name)
    with pytest.raises(ea.RuleError, match="forgets a term is wrong here"):
        session.apply(number)
    assert len(session.history) == 0


def test_a_right_rule_of_a_user_passes_and_can_be_applied():
    @ea.rule("doubling", before="L[x] f", after="L[x] (2*f)/2", requires="nothing")
    def doubling(scope):
        yield ea.Scope(scope.iterators, scope.where, scope.body)

    report = check_rule(doubling, examples=30)
    assert report.moves >= 30 and "doubling" in doubling.card()


def test_a_sum_that_is_inlined_does_not_take_the_name_of_what_is_outside_it():
    inner = "(L[u:3, z1:4](Sum[z2:2:4](x[z2-2, u, z1])))"
    scope = ea.parse(f"O = L[z2:4, y:3](B[z2]*{inner}[y, z2])", B=(4,), x=(2, 3, 4))
    program = as_program(scope)
    (move,) = moves(program, [ALL["traversal merging"]])
    assert ea.prove(program, apply(program, move, ALL)).verdict == "proved"


def test_a_reduction_that_occurs_twice_is_split_in_both_places():
    i, s, t = ea.indices("i s t")
    A, B, C = ea.tensor("A", (3, 4)), ea.tensor("B", (4, 2)), ea.tensor("C", (3, 4))
    shared = sympy.Max(ea.Sum[t:2](B[s, t]), 0)
    scope = ea.L[i:3](ea.Sum[s:4](A[i, s] * shared) + ea.Sum[s:4](C[i, s] * shared))
    program = as_program(scope)
    for move in moves(program, [ALL["summation splitting"]]):
        after = apply(program, move, ALL)
        check(after)
        assert ea.prove(program, after).verdict == "proved"


def test_a_comparison_is_staged_whole() -> None:
    start = as_program(ea.parse("O = L[i:3](Ne(A[i], 0))", A=(3,)))
    move = Move("staging", ("O",), {"factors": (0,), "reduction": None, "axes": ("i",)})
    staged = apply(start, move, ALL)
    values = [0, 2, 0]
    assert list(ea.evaluate(staged, A=values)) == list(ea.evaluate(start, A=values))


@pytest.mark.parametrize(
    "text",
    [
        "O[j:3] = Sum[s:-2:-2, r:1](B[0, r+2]*((j-s+1)%3))",
        "O[j:5] = Max[s:2](B[0,0]*s) + Sum[s:0](B[j,0]*C[0])",
        "O[j:3] = Sum[s:4, r:2](B[0, r+2]*(j+s), where=s>=5)",
        "O[j:3,h:0] = Sum[s:4, r:2](B[0, r+2]*s*h)",
    ],
)
def test_splitting_takes_no_read_out_of_an_empty_reduction(text):
    """Where no point is reached, a read beyond a tensor is none; outside it would be one."""
    start = program(text, B=(1, 1), C=(1,))
    for move in moves(start, [ALL["summation splitting"]]):
        after = apply(start, move, ALL)
        check(after)
        assert same(start, after)
