"""The rule of bilinear factorisation: on random contractions, by example, with a factorisation of a
user's own, and what it refuses.
"""

from __future__ import annotations

import json
from dataclasses import replace
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.bilinear import correlation, matmul, register
from derive.rewriting.moves import Move, apply, moves
from derive.rewriting.user_rules import check_rule
from derive.rules import ALL, RULES
from derive.rules.algebra.bilinear_factorisation import RULE
from einalg.language.ir.program import as_program, inlined
from einalg.language.ir.scope import all_scopes
from einalg.language.notation.program_json import program_from_record, program_record
from tests.helpers.batches import examples
from tests.helpers.factorisations import (
    COMPLEX,
    CONV,
    KARATSUBA,
    REAL,
    SQUARE,
    program,
    replace_matrix,
    winograd,
)

# The rule on random contractions


@st.composite
def correlations(draw):
    """`x + r` or `r - x`-like sums of one axis, beside other axes; negative starts, padding, a rest
    in the last tile.
    """
    x, r, c = draw(st.integers(1, 7)), draw(st.integers(1, 4)), draw(st.integers(0, 2))
    low, tap_low, sign = (
        draw(st.integers(-2, 2)),
        draw(st.integers(-1, 1)),
        draw(st.sampled_from([1, 1, -1])),
    )
    first = low + (tap_low if sign > 0 else 1 - r - tap_low)
    shift, before, after = draw(st.integers(0, 1)), draw(st.integers(0, 2)), draw(st.integers(0, 2))
    scale = draw(st.sampled_from([1, 1, 1, 2]))
    size = max(1, scale * (x + r - 2) + 1 + shift - before - after)
    taps = f"r - {tap_low}" if sign > 0 else f"{r - 1 + tap_low} - r"
    form = f"{scale}*(x {'+' if sign > 0 else '-'} r - {first}) + {shift} - {before}"
    pad = f".pad(({before + 2}, {after + 2}), 0)"
    channels, channel = (f", c:{c}", ", c") if c else ("", "")
    text = f"O[x:{low}:{low + x}, f:2] = Sum[r:{tap_low}:{tap_low + r}{channels}](K[{taps}, f{channel}]*A{pad}[{form}, {'c' if c else 0}])"
    return ea.parse(text, A=(size, max(1, c)), K=(r, 2, c) if c else (r, 2))


def with_arguments(*choices):
    """The rule, offering these moves wherever they hold."""

    def find(scope):
        for args in choices:
            try:
                RULE.rewrite(scope, **args)
            except ea.RuleError:
                continue
            yield args

    return replace(RULE, find=find)


def test_random_correlations_in_every_tile():
    tiled = with_arguments(
        *({"output": "x", "tap": "r", "tile": tile} for tile in (1, 2, 3, 5, 8)),
        {"output": "x", "tap": "r", "tile": 2, "points": None},
    )
    count = examples(40, at_night=120)
    report = check_rule(tiled, examples=count, strategy=correlations())
    assert report.moves > 4 * count, report


def test_what_is_found_on_random_correlations():
    count = examples(50, at_night=150)
    assert check_rule(RULE, examples=count, strategy=correlations()).moves > count // 3


@st.composite
def images(draw):
    """Two axes with taps, batches and channels."""
    h, w, r, s = (
        draw(st.integers(1, 5)),
        draw(st.integers(2, 4)),
        draw(st.integers(1, 3)),
        draw(st.integers(2, 3)),
    )
    top, left, c = draw(st.integers(0, 2)), draw(st.integers(0, 1)), draw(st.integers(1, 2))
    a = draw(
        st.sampled_from(
            [
                f"A.pad(0, {top}, ({left}, 1))[c, h + r - {top}, w + s - {left}]",
                f"A.pad(0, 2, 2)[c, h - r + 1, w + s - {left}]",
            ]
        )
    )
    k = draw(st.sampled_from(["K[f, c, r, s]", "K[f, c, s, r]", "K[f, c, r, s]"])).replace(
        "[f, c, s, r]", "[f, c, r, s]"
    )
    text = f"O[f:2, h:{h}, w:{w}] = Sum[r:{r}, s:{s}, c:{c}]({a}*{k})"
    return ea.parse(
        text, A=(c, max(1, h + r - 1 - top, h - 1), max(1, w + s - 1 - left)), K=(2, c, r, s)
    )


@given(images(), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.data())
@settings(max_examples=examples(30, at_night=600))
def test_two_axes(scope, one, two, swapped, data):
    from einalg.testing import strategies

    axes = (("w", "s"), ("h", "r")) if swapped else (("h", "r"), ("w", "s"))
    program = as_program(scope)
    made = winograd(program, tiles=(one, two), axes=axes)
    arrays = data.draw(strategies.arrays_for(program))
    assert (ea.evaluate(made, **arrays) == ea.evaluate(program, **arrays)).all()
    assert ea.prove(program, made).verdict == "proved"


@st.composite
def products(draw):
    m, n, k = (draw(st.integers(1, 5)) for _ in range(3))
    low, batch = draw(st.integers(-2, 2)), draw(st.integers(0, 2))
    left = draw(st.sampled_from(["A[m, k]", "A[k, m]", "A.pad(1, 1)[m, k]"]))
    rows = f"m:{m}" if low == 0 or "pad" in left else f"m:{low}:{low + m}"
    left = left.replace("m", f"m - {low}") if rows != f"m:{m}" else left
    b, read = (f"b:{batch}, ", "B[b, k, n]") if batch else ("", "B[k, n]")
    scope = f"L[{b}{rows}, n:{n}](Sum[k:{k}]({left}*{read}))"
    return ea.parse(
        scope, A=(k, m) if "A[k" in left else (m, k), B=(batch, k, n) if batch else (k, n)
    )


def test_random_products_in_blocks():
    for sizes in ((1, 2, 3), (2, 2, 1), (2, 3, 2)):
        register(matmul(*sizes))
    names = ("strassen", "matmul_1_2_3", "matmul_2_2_1", "matmul_2_3_2")
    blocked = with_arguments(
        *({"row": "m", "column": "n", "inner": "k", "factorisation": name} for name in names)
    )
    count = examples(40, at_night=120)
    report = check_rule(blocked, examples=count, strategy=products())
    assert report.moves > 1.6 * count, report


def test_winograd_reads_as_it_should():
    one = program("O[x] += A[x+r]*K[r]", A=(9,), K=(3,))
    assert str(
        apply(one, Move(RULE.name, ("O",), {"output": "x", "tap": "r", "tile": 2}), ALL)
    ) == (
        "O[x:7] = Sum[p:4](F_2_3_W[x%2, p]*(L[p:4, x1:4]((L[p:4](Sum[j:3](F_2_3_V[p, j]*K[j])))[p]"
        "*(L[p:4, x1:4](Sum[i:4](F_2_3_U[p, i]*A.pad((0, 1))[i + 2*x1])))[p, x1]))[p, x//2])"
    )


def test_the_parts_of_two_axes():
    """What is made of weights reads nothing else, and no part has an index that it does not use."""
    made = inlined(winograd(CONV))
    of_weights = [s for s in all_scopes(made) if "K" in s.tensors and "A" not in s.tensors]
    assert len(of_weights) == 2 and all(
        t.is_compile_time_constant for s in of_weights for t in s.tensors.values()
    )
    assert all(
        it.index in s.body.free_symbols
        for s in all_scopes(made)
        for it in s.iterators
        if s is not made
    )
    inner = next(s for s in all_scopes(made) if set(s.tensors) == {"A", "F_2_3_U"})
    assert [it.index.name for it in inner.iterators] == ["p", "n", "h1", "t", "c"]


def test_sums_of_indices_become_an_axis_where_that_is_no_larger():
    dense, sparse = (
        program(f"O[x,w:3] = Sum[r:3,s:2](A[x+r,{k}*w+s]*K[r,s])", A=(9, 12), K=(3, 2))
        for k in (1, 5)
    )
    for start, names in ((dense, ["p", "x1", "t"]), (sparse, ["p", "x1", "w", "s"])):
        made = inlined(
            apply(start, Move(RULE.name, ("O",), {"output": "x", "tap": "r", "tile": 2}), ALL)
        )
        combined = next(s for s in all_scopes(made) if set(s.tensors) == {"A", "F_2_3_U"})
        assert [it.index.name for it in combined.iterators] == names and ea.prove(
            start, made
        ).verdict == "proved"


def test_moves_replay_from_json_and_programs_from_records():
    made = winograd(CONV, tiles=(4, 3))
    found = list(moves(CONV, [RULE]))
    assert [dict(m.args) for m in found if m.args["output"] == "h"] == [
        {"output": "h", "tap": "r", "tile": t} for t in (2, 4)
    ]
    assert all(apply(CONV, Move.from_json(m.to_json()), ALL) == apply(CONV, m, ALL) for m in found)
    assert program_from_record(json.loads(json.dumps(program_record(made)))) == made


def test_the_rule_is_the_ninth():
    assert (
        list(RULES)[8:9] == ["bilinear factorisation"]
        and "Σ[p] W[k,p]·U[p,i]·V[p,j]" in RULE.card()
    )


def test_finding_is_cheap():
    for scope in (REAL["O"], SQUARE["O"]):
        began = process_time()
        for _ in range(20):
            assert list(RULE.find(scope))
        assert (process_time() - began) / 20 < 0.005  # 0.2 ms on an idle machine


CHAIN = program("O[i,j] += A[i,k]*B[k,l]*C[l,j]", A=(2, 2), B=(2, 2), C=(2, 2))
REFUSED = [
    (
        "O[x:3] += A[2*x+r]*K[r]",
        dict(A=(7,), K=(3,)),
        "and other factors of neither\n  strides and dilations are removed by",
    ),
    ("O[x:3] += A[x+2*r]*K[r]", dict(A=(7,), K=(3,)), "no read is one of x + r or x - r"),
    (
        "O[x:3] += A[x+r]*K[r]*B[x]",
        dict(A=(5,), K=(3,), B=(3,)),
        "beside another of r alone, and other factors of neither",
    ),
    (
        "O[x:3] += A[x+r]*K[r]*exp(B[r])",
        dict(A=(5,), K=(3,), B=(3,)),
        "beside another of r alone, and other factors of neither",
    ),
    ("O[x:3] += A[x+r]*K[r,x]", dict(A=(5,), K=(3, 3)), "no read is one of x + r or x - r"),
    ("O[x:3] += A[x,r]*K[r]", dict(A=(3, 3), K=(3,)), "no read is one of x + r or x - r"),
    ("O[x:3] += A[x+r]", dict(A=(5,)), "the body A[r + x] is no product of two reads"),
    ("O[x:3] += A[x+r]*(K[r] + 1)", dict(A=(5,), K=(3,)), "is no product of two reads"),
    ("O[x:3] += A[x+r]*A[x+r]", dict(A=(5,)), "the body A[r + x]**2 is no product of two reads"),
    (
        "O[x:3] += A.pad(1,fill=-inf).pad(1)[x+r]*K[r]",
        dict(A=(5,), K=(3,)),
        "may be infinite, so linear combinations of it have no value",
    ),
    ("O[x:3] = Max[r:3](A[x+r]*K[r])", dict(A=(5,), K=(3,)), "the scope is no unconditional sum"),
    (
        "O[x:3] = Max(0, Sum[r:3](A[x+r]*K[r]))",
        dict(A=(5,), K=(3,)),
        "the scope is no unconditional sum\n  move the sum into a scope of its own",
    ),
    (
        "O = L[x:3](Sum[r:3](A[x+r]*K[r]), where=x>=1)",
        dict(A=(5,), K=(3,)),
        "the scope is no unconditional sum",
    ),
    (
        "O[x:3] = Sum[r:3](A[x+r]*K[r], where=r>=x)",
        dict(A=(5,), K=(3,)),
        "the scope is no unconditional sum",
    ),
    (
        "O[x:3] = Sum[r:3](A.pad(1,fill=-inf)[x+r-1]*K[r])",
        dict(A=(5,), K=(3,)),
        "A.pad(1, fill=-inf)[r + x - 1] may be infinite",
    ),
    (
        "O[x:3] = Sum[r:3]((L[i:5, j:2](A[i], where=i+j<=4))[x+r, 0]*K[r])",
        dict(A=(5,), K=(3,)),
        "has no value outside i + j <= 4\n  pad it: (...).pad(0, 0)",
    ),
]


@pytest.mark.parametrize(
    ("text", "tensors", "message"), REFUSED, ids=[text for text, _, _ in REFUSED]
)
def test_refused(text, tensors, message):
    start = program(text, **tensors)
    assert not list(moves(start, [RULE]))
    with pytest.raises(ea.RuleError) as error:
        apply(start, Move(RULE.name, ("O",), {"output": "x", "tap": "r", "tile": 2}), ALL)
    assert message in str(error.value)


LINE = program("O[x] += A[x+r]*K[r]", A=(9,), K=(3,))
INTEGERS = program(
    "O[x] += A[x+r]*K[r]", A=ea.tensor("A", (9,), "i32"), K=ea.tensor("K", (3,), "i32")
)
SHIFTED = program("O[m,n] = Sum[k:3](A[m,k]*B[k,n])", A=(4, 4), B=(4, 4))
BAD_ARGUMENTS = [
    (
        LINE,
        {"output": "y", "tap": "r", "tile": 2},
        "there is no index y in the traversal; it has x",
    ),
    (LINE, {"output": "x", "tap": "s", "tile": 2}, "there is no index s in the sum; it has r"),
    (
        LINE,
        {},
        "bilinear factorisation cannot use the arguments none\n  give output=, tap=, "
        "tile=; or row=",
    ),
    (
        LINE,
        {"output": "x", "tap": "r"},
        "bilinear factorisation cannot use the arguments output, tap",
    ),
    (
        LINE,
        {"output": "x", "tap": "r", "tile": 0},
        "F(0, 3) does not exist: a tile and a filter have at least 1 element",
    ),
    (
        LINE,
        {"output": "x", "tap": "r", "tile": 2, "points": ["0", "1"]},
        "F(2, 3) takes 3 different points besides infinity, not 0, 1",
    ),
    (
        LINE,
        {"output": "x", "tap": "r", "tile": 2, "points": ["0", "1", "1"]},
        "F(2, 3) takes 3 different points besides infinity",
    ),
    (
        LINE,
        {"output": "x", "tap": "r", "tile": 2, "points": ["0", "1", "a"]},
        "bilinear factorisation at O: output=x",
    ),
    (
        LINE,
        {"output": "x", "tap": "r", "factorisation": "nobody"},
        "there is no factorisation 'nobody'; known: strassen",
    ),
    (
        LINE,
        {"output": "x", "tap": "r", "factorisation": "strassen"},
        "strassen does not compute 2 outputs of a correlation with the 3 taps r:3",
    ),
    (
        LINE,
        {"output": "x", "tap": "r", "factorisation": correlation(2, 2).as_record()},
        "F_2_2 does not compute 2 outputs of a correlation",
    ),
    (
        INTEGERS,
        {"output": "x", "tap": "r", "tile": 2},
        "F_2_3_V has fractions, and the scope computes with i32\n  take tensors of a",
    ),
    (
        SQUARE,
        {"row": "n", "column": "n", "inner": "k", "factorisation": "strassen"},
        "n, n and k do not stand as in a matrix product",
    ),
    (
        SQUARE,
        {"row": "m", "column": "n", "inner": "k", "factorisation": KARATSUBA.as_record()},
        "complex3 computes no product of matrices",
    ),
    (
        SHIFTED,
        {"row": "m", "column": "n", "inner": "k", "factorisation": "strassen"},
        "the 3 values of k make no 2 equal blocks, and beyond them no",
    ),
    (
        CHAIN,
        {"tensor": "B", "factorisation": "strassen"},
        "the scope is no Σ B[k,i,j]·x[i]·y[j] with a constant B that strassen computes",
    ),
]


@pytest.mark.parametrize(
    ("start", "args", "message"),
    BAD_ARGUMENTS,
    ids=[message[:40] for _, _, message in BAD_ARGUMENTS],
)
def test_bad_arguments(start, args, message):
    with pytest.raises(ea.RuleError) as error:
        apply(start, Move(RULE.name, ("O",), args), ALL)
    assert str(error.value).startswith(message)


def test_nothing_is_found_that_does_not_hold():
    odd = program("O[m,n] = Sum[k:257](A[m,k]*B[k,n])", A=(256, 300), B=(300, 256))
    assert not list(moves(odd, [RULE])) and not list(moves(INTEGERS, [RULE]))
    padded = program("O[m,n] += A[m,k]*B[k,n]", A=(256, 257), B=(257, 256))
    assert [
        ea.prove(padded, apply(padded, move, ALL)).verdict for move in moves(padded, [RULE])
    ] == ["proved"]


def test_integers_where_the_factorisation_has_no_fractions():
    made = apply(INTEGERS, Move(RULE.name, ("O",), {"output": "x", "tap": "r", "tile": 1}), ALL)
    assert made["O"].dtype == "i32" and ea.prove(INTEGERS, made).verdict == "proved"


OTHER_FACTORS = [
    ("O[x,f] += 2*A[x+r,c]*K[r,c]*exp(B[f])*C[c]", dict(A=(9, 2), K=(3, 2), B=(2,), C=(2,))),
    ("O[i] += A[i+j]*K[j]", dict(A=(9,), K=(3,))),
    ("O[i1,i] += A[i+j,p,i1]*K[j,p]*B[i1,p]", dict(A=(9, 2, 2), K=(3, 2), B=(2, 2))),
    ("O[x,t] += A[x+r,t]*K[r]", dict(A=(9, 2), K=(3,))),
    ("O[t,x] += A[x+r,t+t1,t1]*K[r]", dict(A=(9, 4, 2), K=(3,))),
    ("O[x] += A[x+r,x+r]*K[r]", dict(A=(9, 9), K=(3,))),
    ("O[x:6] += A[(x+r)//2,(x+r)%2]*K[r]", dict(A=(4, 2), K=(3,))),
    ("O[x:4] = Sum[r:3, q:2](A[2*x+2*r+q]*K[2*r+q])", dict(A=(12,), K=(6,))),
]


@pytest.mark.parametrize(
    ("text", "tensors"), OTHER_FACTORS, ids=[text for text, _ in OTHER_FACTORS]
)
def test_other_factors_names_and_forms(text, tensors):
    start = program(text, **tensors)
    found = list(moves(start, [RULE]))
    assert found
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(-5, 6, t.shape) for name, t in start.inputs.items()}
    for move in found:
        made = apply(start, move, ALL)
        proof = ea.prove(start, made)
        assert proof.verdict == "proved", (move, made, proof)
        if "exp" not in text:
            assert (ea.evaluate(made, **arrays) == ea.evaluate(start, **arrays)).all()


def test_a_name_that_a_tensor_has_already():
    start = program("O[x] += F_2_3_U[x+r]*K[r]", F_2_3_U=(9,), K=(3,))
    made = apply(start, Move(RULE.name, ("O",), {"output": "x", "tap": "r", "tile": 2}), ALL)
    assert "F_2_3_U_" in made.constants and ea.prove(start, made).verdict == "proved"


# A user's own


def test_a_complex_product_with_three_multiplications():
    start = program(
        "O[n,k,f] += T[k,i,j]*X[n,i,c]*Y[j,c,f]",
        T=ea.constant("T", COMPLEX),
        X=(3, 2, 4),
        Y=(2, 4, 5),
    )
    move = Move(RULE.name, ("O",), {"tensor": "T", "factorisation": KARATSUBA.as_record()})
    made = apply(start, Move.from_json(move.to_json()), ALL)
    assert "T" not in made.tensors and ea.prove(start, made).verdict == "proved"
    rng = np.random.default_rng(0)
    x, y = rng.integers(-5, 6, (3, 2, 4)), rng.integers(-5, 6, (2, 4, 5))
    assert (ea.evaluate(made, X=x, Y=y) == ea.evaluate(start, X=x, Y=y)).all()
    register(KARATSUBA)
    assert [dict(m.args) for m in moves(start, [RULE])] == [
        {"tensor": "T", "factorisation": "complex3"}
    ]
    with pytest.raises(ea.RuleError, match="another factorisation is called complex3"):
        register(replace_matrix(KARATSUBA, "U", ea.constant("U", [[1, 0], [0, 1], [2, 1]])))


def test_a_correlation_of_ones_own_and_other_points():
    mine = correlation(2, 3, ("0", "2", "-1/3"))
    for args in ({"factorisation": mine.as_record()}, {"tile": 2, "points": ("0", "2", "-1/3")}):
        made = apply(LINE, Move(RULE.name, ("O",), {"output": "x", "tap": "r", **args}), ALL)
        assert "F_2_3_at_0_2_m1over3_U" in made.tensors and ea.prove(LINE, made).verdict == "proved"
