"""The iterator mapping table, matches of every operator with the parameters that they were built
with, and reasons in words.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from codegen.program.compile import compile_program
from derive.cost.model import Roofline, operations, total, traffic
from derive.matching import (
    distance,
    distance_to,
    kernels_of,
    match,
    matches,
    normal_form,
    reasons,
    templates,
)
from derive.matching.patterns.normal_form import OUTPUT
from einalg.language import ops
from einalg.language.ir.program import as_program
from einalg.language.ops.templates import Template
from tests.helpers.batches import examples


def rows(text, **tensors):
    found = normal_form(ea.parse(text, **tensors))
    names = {k: read.name for k, read in enumerate(found.reads)} | {OUTPUT: "O"}
    return {index.name: "".join(sorted(names[p] for p in row)) for index, row in found.rows.items()}


def test_the_iterator_mapping_table_tells_where_an_index_occurs():
    table = rows("O[b,h,f,w] += A[b,h,w,c]*K[b,f,c]", A=(2, 3, 4, 5), K=(2, 6, 5))
    assert table == {"b": "AKO", "h": "AO", "f": "KO", "w": "AO", "c": "AK"}


def test_equal_scopes_share_a_profile_only_where_their_indices_are_the_same():
    """These two differ in which of the sums is over k: what is told of an index of one is wrong for
    the other.
    """
    one, other = (f"O[i] = Sum[{a}:3](A[i,{a}]) + Sum[{b}:3](B[i,{b}])" for a, b in ("kl", "lk"))
    assert ea.parse(one, A=(2, 3), B=(2, 3)) == ea.parse(other, A=(2, 3), B=(2, 3))
    assert rows(one, A=(2, 3), B=(2, 3)) == {"i": "ABO", "k": "A", "l": "B"}
    assert rows(other, A=(2, 3), B=(2, 3)) == {"i": "ABO", "k": "B", "l": "A"}
    assert rows(one.replace("k", "j"), A=(2, 3), B=(2, 3)) == {"i": "ABO", "j": "A", "l": "B"}


@pytest.mark.parametrize("text", ["O[i,j] += A[i,k]*B[k,j]", "O[j,i] = A[i,j]*2"])
def test_the_kernel_of_an_equal_scope_writes_its_own_output(text):
    one, other = (ea.parse(text, A=(3, 4), B=(4, 5)) for _ in range(2))
    found = match(one, "P"), match(other, "Q"), match(one, "P")
    assert [(kernel.output, kernel.views[-1].name, kernel.inputs) for kernel in found] == [
        (name, name, found[0].inputs) for name in "PQP"
    ]
    assert found[0].scope is one and found[1].scope is other and found[0].sizes == found[1].sizes


def test_the_definition_of_an_operator_of_the_same_sizes_is_built_once(monkeypatch):
    """However a product is written; one of other sizes is another."""
    built = []
    build = Template.build

    def counted(self, *arguments):
        built.append(self.name)
        return build(self, *arguments)

    monkeypatch.setattr(Template, "build", counted)

    def builds(text, **shapes):
        built.clear()
        assert match(ea.parse(text, **shapes), "O").op == "matmul"
        return len(built)

    assert builds("O[i,j] += A[i,k]*B[k,j]", A=(37, 41), B=(41, 43))
    assert not builds("O[i,j] += A[k,i]*B[j,k]", A=(41, 37), B=(43, 41))
    assert builds("O[i,j] += A[k,i]*B[j,k]", A=(41, 37), B=(47, 41))


def test_indices_of_extent_one_are_in_no_row():
    assert rows("O[b,i,j] += A[b,i,k]*B[k,j]", A=(1, 3, 4), B=(4, 1)) == {"i": "AO", "k": "AB"}


def test_digits_of_one_index_are_indices_of_their_own():
    found = normal_form(ea.parse("O[i:12] = A[i//4, i%4]", A=(3, 4)))
    assert sorted(found.extents.values()) == [3, 4] and all(
        axis.index is not None for read in found.reads for axis in read.axes
    )


@pytest.mark.parametrize(
    ("text", "tensors", "sizes"),
    [
        ("O[i,j] += A[i,k]*B[k,j]", dict(A=(3, 4), B=(4, 5)), {"b": 1, "m": 3, "n": 5, "k": 4}),
        ("O[j,i] += A[k,i]*B[j,k]", dict(A=(4, 3), B=(5, 4)), {"b": 1, "m": 3, "n": 5, "k": 4}),
        (
            "O[x,b,i,j] += A[b,i,k,x]*B[b,k,j]",
            dict(A=(2, 3, 4, 7), B=(2, 4, 5)),
            {"b": 2, "m": 21, "n": 5, "k": 4},
        ),
        (
            "O[n,f,h,w] += A[n,c,h,w]*K[f,c]",
            dict(A=(2, 3, 4, 7), K=(5, 3)),
            {"b": 1, "m": 56, "n": 5, "k": 3},
        ),
        ("O[i] += A[i,k]*B[k]", dict(A=(3, 4), B=(4,)), {"b": 1, "m": 3, "n": 1, "k": 4}),
    ],
)
def test_every_layout_of_a_product_matches(text, tensors, sizes):
    kernel = match(ea.parse(text, **tensors), "O")
    assert kernel is not None and kernel.op == "matmul" and set(kernel.inputs) == set(tensors)
    straight = kernel.inputs == tuple(tensors)
    assert dict(kernel.sizes) == (sizes if straight else sizes | {"m": sizes["n"], "n": sizes["m"]})


@pytest.mark.parametrize(
    ("text", "tensors", "why"),
    [
        ("O[i] = A[i]", dict(A=(3,)), "the body A[i] is not of the form Sum["),
        ("O[i] = Max[k](A[i,k]*B[k])", dict(A=(3, 4), B=(4,)), "the body "),
        ("O[i] += A[i,j]*B[j,k]*C[k]", dict(A=(3, 4), B=(4, 5), C=(5,)), "the body "),
        (
            "O[h] += A.pad((0,2))[h+r]*K[r]",
            dict(A=(5,), K=(3,)),
            "the subscript h + r of A is not a bare index",
        ),
        ("O[i:5] += A.pad(1)[k]*B[i,k]", dict(A=(5,), B=(5, 5)), None),
        ("O[i] += A[i,k,k]*B[k]", dict(A=(3, 4, 4), B=(4,)), "k stands twice in A"),
        (
            "O[i,j] += A[i,k]*B[j]",
            dict(A=(3, 4), B=(5,)),
            "index k occurs in A; matmul has no such index left",
        ),
        (
            "O[i,j] = Sum[k](A[i,k]*B[k,j], where=k>=i)",
            dict(A=(3, 4), B=(4, 5)),
            "the domain has the condition k >= i",
        ),
    ],
)
def test_each_reason_has_words_and_a_weight(text, tensors, why):
    (template,) = templates("matmul")
    found = reasons(ea.parse(text, **tensors), template)
    if why is not None:
        assert any(r.text.startswith(why) for r in found), [r.text for r in found]
        assert found and all(r.weight > 0 for r in found)
        assert match(ea.parse(text, **tensors), "O", templates("matmul")) is None


def test_distance_is_zero_exactly_for_a_match():
    matmul = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(3, 4), B=(4, 5))
    flat = ea.parse("O[i,j] += A[i,k]*B[k,j]*C[k]", A=(3, 4), B=(4, 5), C=(4,))
    assert distance([matmul]) == 0 < distance([flat])
    assert float(ea.distance(matmul, "matmul")) == 0.0 < float(ea.distance(flat, "matmul"))
    assert str(ea.distance(matmul, "matmul")) == "0: it is a matmul"


def test_distance_has_reasons_and_a_number():
    conv = ea.parse("O[h,f] += A.pad(1,0)[h+r-1,c]*K[r,f,c]", A=(6, 3), K=(3, 2, 3))
    found = ea.distance(conv, "matmul")
    assert float(found) == sum(
        r.weight for r in found.reasons
    ) > 0 and "the subscript h + r - 1 of A is not a bare index" in str(found)
    assert distance_to(conv, "conv1d") == 0.0
    with pytest.raises(ea.MatchError, match="there is no template 'conv9d'"):
        ea.distance(conv, "conv9d")


def test_why_not_tells_the_same_reasons():
    conv = ea.parse("O[h,f] += A.pad(1,0)[h+r-1,c]*K[r,f,c]", A=(6, 3), K=(3, 2, 3))
    told = ea.derive(conv, states=0, measure=False).why_not("matmul")
    assert told.splitlines() == [
        "O is not a matmul:",
        *(f"  - {r.text}" for r in ea.distance(conv, "matmul").reasons),
    ]


# Every operator with random parameters. Sizes are distinct primes where that makes parameters
# identifiable; taps are at least 2.

SPATIAL = ("W", "HW", "DHW")
READS = {"D": ("d", "q"), "H": ("h", "r"), "W": ("w", "s")}


def the_match(expression, op):
    found = [k for k in matches(expression, "O") if k.op == op]
    assert found, f"{expression} is no {op}"
    return found[0]


def order(draw, letters):
    return "".join(draw(st.permutations(letters)))


@st.composite
def convolutions(draw):
    rank = draw(st.integers(1, 3))
    spatial = SPATIAL[rank - 1]
    groups = draw(st.sampled_from((1, 1, 2, 3)))
    sizes = {"N": 2, "C": 5 * groups, "O": 7 * groups, "I": 5}
    taps = {x: draw(st.integers(2, 3)) for x in spatial}
    stride, dilation = ({x: draw(st.integers(1, 3)) for x in spatial} for _ in range(2))
    pads = {x: tuple(draw(st.tuples(st.integers(0, 1), st.integers(0, 1)))) for x in spatial}
    outs = {x: draw(st.integers(3, 5)) for x in spatial}
    space = {
        x: (outs[x] - 1) * stride[x] + (taps[x] - 1) * dilation[x] + 1 - sum(pads[x])
        for x in spatial
    }
    layout, weights, out = (
        order(draw, "NC" + spatial),
        order(draw, "OI" + spatial),
        order(draw, "NC" + spatial),
    )
    A = ea.tensor("A", [sizes.get(x) or space[x] for x in layout])
    K = ea.tensor("K", [taps.get(x) or sizes[x] for x in weights])
    options = {
        "stride": tuple(stride.values()),
        "dilation": tuple(dilation.values()),
        "padding": tuple(pads.values()),
        "groups": groups,
    }
    expression = getattr(ops, f"conv{rank}d")(
        A, K, layout=layout, weight_layout=weights, out_layout=out, **options
    )
    return expression, rank, taps, stride, dilation, pads, groups


@pytest.mark.parametrize("tap", ["t + q", "t - q + 2", "2*t + q", "2*t - q + 2"])
@pytest.mark.parametrize("digits", ["3*r + q", "3*r - q + 2", "r + 2*q"])
def test_taps_that_run_backwards_or_are_digits_of_an_axis_are_taps(tap, digits):
    """A part of the taps of a convolution, as its filters cut in two have them; each statement runs
    as the kernel that it is said to be.
    """
    scope = ea.parse(
        f"O[r:2, t:4, f:5] = Sum[c:3, q:3](x[c, {tap}]*K[c, f, {digits}])",
        x=(3, 9),
        K=ea.tensor("K", (3, 5, 6), role="weight"),
    )
    kernel = match(scope, "O")
    assert kernel is not None and kernel.op == "conv1d" and kernel.sizes["f"] == 10
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal(tensor.shape) for name, tensor in scope.tensors.items()}
    assert np.allclose(
        compile_program(as_program(scope), [kernel])(**arrays),
        ea.evaluate(scope, **arrays),
        atol=1e-5,
    )


@settings(max_examples=40)
@given(convolutions())
def test_convolutions_are_matched_with_their_parameters(drawn):
    expression, rank, taps, stride, dilation, pads, groups = drawn
    kernel = the_match(expression, f"conv{rank}d")
    assert kernel.inputs == ("A", "K") and kernel.sizes.get("groups", 1) == groups
    found = [
        (
            kernel.sizes[tap],
            *(kernel.sizes.get(f"{name}_{point}", 1) for name in ("stride", "dilation")),
            tuple(kernel.sizes.get(f"padding_{point}_{side}", 0) for side in ("before", "after")),
        )
        for point, tap in (READS[x] for x in taps)
    ]
    assert sorted(found) == sorted(
        (taps[x], stride[x], dilation[x], pads[x]) for x in taps
    )  # which axis is H has no meaning


@settings(max_examples=examples(12, at_night=250))
@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(2, 4),
    st.integers(0, 1),
    st.integers(2, 4),
)
def test_transposed_convolutions_are_matched_with_their_parameters(strides, taps, padding, space):
    """The axes may have different strides, and some of them 1."""
    rank = len(strides)
    A, K = ea.tensor("A", (2, 5, *[space] * rank)), ea.tensor("K", (5, 7, *[taps] * rank))
    name = f"conv_transpose{rank}d"
    expression = getattr(ops, name)(A, K, stride=tuple(strides), padding=padding)
    if max(strides) == 1:  # a convolution
        return
    assert not distance_to(expression, name).reasons
    sizes = the_match(expression, name).sizes
    axes = "dhw"[3 - rank :]
    assert sorted(sizes.get(f"stride_{axis}", 1) for axis in axes) == sorted(strides)
    assert all(sizes.get(f"padding_{axis}_before", 0) == padding for axis in axes)
    assert sizes["s"] == taps


@settings(max_examples=40)
@given(
    st.sampled_from(("g2bmm", "gbmm")),
    st.integers(1, 3),
    st.integers(5, 11),
    st.integers(2, 5),
    st.integers(1, 2),
    st.integers(1, 3),
)
def test_bands_are_matched_with_their_parameters(op, batch, rows_, depth, width, dilation):
    first = (batch, rows_, depth) if op == "g2bmm" else (batch, rows_, 2 * width + 1)
    expression = getattr(ops, op)(
        ea.tensor("X", first), ea.tensor("V", (batch, rows_, depth)), width=width, dilation=dilation
    )
    sizes = the_match(expression, op).sizes
    assert (
        sizes["b"] == batch
        and sizes["i"] == rows_
        and sizes["k"] == depth
        and sizes.get("dilation", 1) == dilation
    )
    assert sizes.get("width", sizes["w"] // 2) == width


@settings(max_examples=40)
@given(
    st.permutations("bmk"),
    st.permutations("bkn"),
    st.permutations("bmn"),
    st.booleans(),
    st.booleans(),
)
def test_products_are_matched_in_every_order_and_with_a_batch_of_one_operand(
    left, right, out, alone, other
):
    sizes = {"b": 2, "m": 3, "k": 4, "n": 5}
    left, right = [
        "".join(x for x in s if x != "b" or not drop) for s, drop in ((left, alone), (right, other))
    ]
    out = "".join(x for x in out if x != "b" or "b" in left + right)
    shapes = {"A": [sizes[x] for x in left], "B": [sizes[x] for x in right]}
    kernel = match(
        ea.parse(f"O[{','.join(out)}] += A[{','.join(left)}]*B[{','.join(right)}]", **shapes), "O"
    )
    assert kernel is not None and kernel.op == "matmul"
    rows_ = {
        "m": 3 * (1 if other is False or alone else 2),
        "n": 5 * (1 if alone is False or other else 2),
    }
    found = (
        dict(kernel.sizes)
        if kernel.inputs == ("A", "B")
        else dict(kernel.sizes) | {"m": kernel.sizes["n"], "n": kernel.sizes["m"]}
    )
    assert found == {"b": 2 if not (alone or other) else 1, "k": 4, **rows_}


@settings(max_examples=30)
@given(
    st.sampled_from(("max", "avg")),
    st.integers(1, 3),
    st.integers(2, 3),
    st.integers(1, 2),
    st.booleans(),
)
def test_poolings_are_matched_with_their_parameters(kind, rank, taps, stride, last):
    if stride >= taps:
        return  # the windows are apart: a reduction of digits
    size = 2 * stride + taps
    spatial = SPATIAL[rank - 1]
    layout = f"N{spatial}C" if last else f"NC{spatial}"
    A = ea.tensor("A", [{"N": 2, "C": 3}.get(x, size) for x in layout])
    kernel = the_match(
        getattr(ops, f"{kind}_pool{rank}d")(A, taps, stride=stride, layout=layout),
        f"{kind}_pool{rank}d",
    )
    assert [
        kernel.sizes[f"kernel_{READS[x][0]}"]
        for x in spatial
        if f"kernel_{READS[x][0]}" in kernel.sizes
    ] == [taps] * rank
    assert all(kernel.sizes.get(f"stride_{READS[x][0]}", 1) == stride for x in spatial)


@pytest.mark.parametrize(
    ("kind", "axes"),
    list(itertools.product(("sum", "mean", "max", "min", "prod"), ((0,), (1,), (0, 2), (1, 2)))),
)
def test_reductions_are_matched_along_any_axes(kind, axes):
    kernel = the_match(getattr(ops, kind)(ea.tensor("X", (2, 3, 5)), axes=axes), "reduce")
    summed = 1
    for axis in axes:
        summed *= (2, 3, 5)[axis]
    assert (
        kernel.inputs == ("X",)
        and summed in kernel.sizes.values()
        and 30 // summed in kernel.sizes.values()
    )


def test_the_estimate_counts_operations_and_bytes():
    matmul = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(30, 40), B=(40, 50))
    assert operations(matmul) == 2 * 30 * 40 * 50
    assert traffic(matmul) == 4 * (30 * 40 + 40 * 50 + 30 * 50)
    model = Roofline(library=1e9, generated=1e8, bandwidth=1e12, call=0.0)
    assert total(model, kernels_of(as_program(matmul))) == pytest.approx(operations(matmul) / 1e9)
    half = ea.parse("O[i] = A[i] + 1", A=ea.tensor("A", (10,), dtype="f16"))
    assert traffic(half) == 2 * 20


def test_a_reason_names_the_numbers_that_differ():
    text = str(
        ea.distance(ea.parse("O[n,c,w:4] = 1/4*Sum[r:2](A[n,c,2*w+r])", A=(2, 5, 8)), "avg_pool1d")
    )
    assert (
        text == "1 from an avg_pool1d:\n  - its numbers are 1/4, where an avg_pool1d of these "
        "sizes has 1/2"
    )
    assert (
        str(
            ea.distance(
                ea.parse("O[n,c,w:4] = 1/2*Sum[r:2](A[n,c,2*w+r])", A=(2, 5, 8)), "avg_pool1d"
            )
        )
        == "0: it is an avg_pool1d"
    )


def test_subscripts_are_told_beside_those_of_the_operator():
    """The phases of a stride: the definition divides the difference of point and tap."""
    scope = ea.parse(
        "O[n,f,h:14] += A.pad(0,0,2)[n,c,(h+1)//2 - r] * K[c,f,2*r + (h+1)%2]",
        A=(2, 5, 7),
        K=(5, 3, 4),
    )
    assert (
        ea.prove(
            scope,
            ea.ops.conv_transpose1d(
                ea.tensor("A", (2, 5, 7)), ea.tensor("K", (5, 3, 4)), stride=2, padding=1
            ),
        ).verdict
        == "proved"
    )
    told = str(ea.distance(scope, "conv_transpose1d"))
    assert (
        "a conv_transpose1d is written, for example, Sum[" in told
        and "(w - 2*s + 1)//6]*K[c, f, s], where=Eq((w - 2*s + 1)%6, 0))" in told
    )
    assert "is written" not in str(ea.distance(scope, "matmul"))


PADDED_TWICE = [
    (
        "O[n,f,h:6,w:6] = "
        "Sum[c,r:3,s:3](A.pad(0,0,1,1,fill=2).pad(0,0,1,1)[n,c,h+r-2,w+s-2]*K[f,c,r,s])",
        dict(A=(1, 2, 4, 4), K=(3, 2, 3, 3)),
    ),
    (
        "O[n,c,h:6,w:6] = "
        "Max[r:3,s:3](A.pad(0,0,1,1,fill=9).pad(0,0,1,1,fill=-inf)[n,c,h+r-2,w+s-2])",
        dict(A=(1, 2, 4, 4)),
    ),
    (
        "O[i,j] = Sum[k](A.pad(1,0,0,fill=2).pad(1,0,0,fill=3)[-1,i,k]*B[k,j])",
        dict(A=(2, 3, 4), B=(4, 5)),
    ),
    (
        "O[i,j:8] = A.pad(0,(0,1),fill=2).pad(0,(0,2))[i,j] + B.pad(0,(5,0))[i,j-5]",
        dict(A=(4, 5), B=(4, 3)),
    ),
    ("O[n,c,h:8,w:8] = A.pad(0,0,1,1,fill=2).pad(0,0,1,1)[n,c,h-2,w-2]", dict(A=(1, 2, 4, 4))),
]


@pytest.mark.parametrize(("text", "tensors"), PADDED_TWICE)
def test_no_operator_pads_twice(text, tensors):
    """The definition of an operator pads with one fill: with two it is another function."""
    program = as_program(ea.parse(text, **tensors))
    assert match(program.result, "O") is None
    given_arrays = {
        name: np.arange(1.0, 1 + np.prod(t.shape)).reshape(t.shape) % 7
        for name, t in program.inputs.items()
    }
    run = compile_program(program, kernels_of(program))
    np.testing.assert_allclose(run(**given_arrays), ea.evaluate(program, **given_arrays))


def test_two_paddings_are_told_as_the_reason():
    found = reasons(ea.parse(PADDED_TWICE[0][0], **PADDED_TWICE[0][1]), templates("conv2d")[0])
    assert "two paddings" in " ".join(reason.text for reason in found)


def test_padding_of_a_fixed_place_is_no_part_of_an_operand():
    """A softmax over what lies in the padding beside an axis."""
    text = "O[i,j] = exp(A.pad(1,0,0)[-1,i,j])/Sum[k](exp(A.pad(1,0,0)[-1,i,k]))"
    program = as_program(ea.parse(text, A=(2, 3, 4)))
    run = compile_program(program, kernels_of(program))
    np.testing.assert_allclose(run(A=np.ones((2, 3, 4))), np.full((3, 4), 0.25))


@pytest.mark.parametrize(
    ("name", "meant"),
    [("conv", "conv2d"), ("Conv3d", "conv3d"), ("gemm", "matmul"), ("maxpool", "max_pool2d")],
)
def test_an_unknown_operator_is_told_with_the_one_that_is_meant(name: str, meant: str):
    with pytest.raises(ea.MatchError, match=f"there is no template '{name}'\n  write '{meant}'"):
        ea.distance("O[i] = A[i]", name, A=(3,))


@pytest.mark.parametrize(
    ("text", "operator", "what"),
    [
        ("O[i,j] = Sum[k](A[i,k]*B[k,j]) + b[j]", "matmul", "sum"),
        ("O[i,j] = Max(0, 2*Sum[k](A[i,k]*B[k,j]) + b[j])", "matmul", "sum"),
        ("O[i] = Max[k](A[i,k])/2 + 1", "reduce", "maximum"),
        ("O[i,j] = Max(A[i,j], 0) + 3", "relu", "part"),
    ],
)
def test_why_not_knows_an_operator_inside_a_body(text: str, operator: str, what: str):
    s = ea.Session(text, A=(4, 5), B=(5, 6), b=(6,))
    *_, last = s.why_not(operator).splitlines()
    assert last.startswith(f"  the inner {what} is one: L[")
    inner = ea.parse(last.partition(": ")[2], **s.expr.inputs)
    assert ea.distance(inner, operator) == 0


def test_why_not_names_nothing_inside_where_there_is_nothing():
    s = ea.Session("O[i,j] = Sum[k](A[i,k]*B[k,j]) + b[j]", A=(4, 5), B=(5, 6), b=(6,))
    assert "is one" not in s.why_not("gbmm")
