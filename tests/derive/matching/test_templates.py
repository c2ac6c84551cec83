"""Operators that need no library: each is matched however it is spelled, its kernel says how to
call it, and near misses have reasons.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.lib.stride_tricks import as_strided

import einalg as ea
from codegen.program.compile import compile_program
from derive.matching import (
    distance,
    distance_to,
    groups,
    kernels_of,
    match,
    nearest_templates,
    templates,
    with_operator_names,
)
from derive.matching.arrays import match as arrays
from einalg.language import ops
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import Reduce, rebuild, substitute
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import Scope
from einalg.language.ir.traversal import map_accesses, rebased
from einalg.language.ops.templates import PLAIN, TEMPLATES, ArrayTemplate, Template
from tests.helpers.batches import examples

SIZES = (2, 3, 4, 5, 7)


def sizes(rng, rank=None, least=1):
    return tuple(rng.sample(SIZES, rank or rng.randint(least, 3)))


def array(rng, name="x", **options):
    return ea.tensor(name, sizes(rng, **options))


def vector(name, size):
    return ea.tensor(name, (size,))


# One random instance of every operator.


def function(name):
    return lambda rng: getattr(ops, name)(array(rng))


def with_numbers(name, *parameters):
    return lambda rng: getattr(ops, name)(
        array(rng), **{p: rng.choice((0.25, 0.5, 3, 7)) for p in parameters}
    )


def pair(name):
    kinds = (
        ("equal", "spread", "front")
        if name.startswith("logical")
        else ("equal", "spread", "left", "right", "front")
    )

    def build(rng):
        shape = sizes(rng)
        kind = rng.choice(kinds)
        full = ea.tensor("a", shape)
        if kind in ("left", "right"):
            number = rng.choice((3, 0.25, 7))
            return (
                getattr(ops, name)(full, number)
                if kind == "right"
                else getattr(ops, name)(number, full)
            )
        units = tuple(rng.choice((1, size)) for size in shape)
        other = {"equal": shape, "spread": units, "front": shape[1:]}[kind]
        return getattr(ops, name)(full, ea.tensor("b", other))

    return build


def choice(rng):
    shape = sizes(rng)
    parts = [ea.tensor(n, tuple(rng.choice((1, size)) for size in shape)) for n in "ab"]
    if rng.random() < 0.3:
        parts[rng.randint(0, 1)] = rng.choice((0, 5))
    return ops.where(ea.tensor("condition", shape), *parts)


def transposed(rng):
    x = array(rng, least=2)
    return ops.transpose(x, tuple(rng.sample(range(x.rank), x.rank)))


def reshaped(rng):
    a, b, c = sizes(rng, 3)
    old, new = rng.choice(
        (
            ((a, b, c), (a * b, c)),
            ((a * b, c), (a, b, c)),
            ((a, b), (b, a)),
            ((a, 1, b), (a, b)),
            ((a, b), (1, a, 1, b)),
        )
    )
    return ops.reshape(ea.tensor("x", old), new)


def sliced(rng):
    x = array(rng)
    starts = tuple(rng.randint(0, s - 1) for s in x.shape)
    steps = tuple(rng.choice((1, 1, 2, -1)) for _ in x.shape)
    return ops.slice(x, starts, tuple(None for _ in x.shape), steps)


def padded(rng):
    x = array(rng)
    amounts = [(rng.randint(-1, 3), rng.randint(0, 2)) for _ in x.shape]
    return ops.pad(x, amounts, value=rng.choice((0, 0, -3, 1.5)))


def concatenated(rng):
    shape = sizes(rng)
    axis = rng.randrange(len(shape))
    parts = [
        ea.tensor(
            f"x{k}", tuple(rng.choice(SIZES) if a == axis else s for a, s in enumerate(shape))
        )
        for k in range(rng.randint(2, 4))
    ]
    return ops.concat(parts, axis)


def flipped(rng):
    x = array(rng)
    return ops.flip(x, tuple(rng.sample(range(x.rank), rng.randint(1, x.rank))))


def broadcast(rng):
    x = array(rng)
    return ops.broadcast_to(x, (*sizes(rng), *x.shape))


def tiled(rng):
    x = array(rng)
    return ops.tile(x, tuple(rng.randint(1, 3) for _ in x.shape))


def repeated(rng):
    x = array(rng)
    return ops.repeat(x, rng.randint(2, 3), rng.randrange(x.rank))


def rows(name):
    def build(rng):
        x = array(rng)
        return getattr(ops, name)(x, rng.randrange(x.rank))

    return build


def normalised(name, *vectors):
    def build(rng):
        x = array(rng, least=2)
        axes = tuple(rng.sample(range(x.rank), rng.randint(1, x.rank)))
        own = tuple(x.shape[a] for a in sorted(axes))
        given = {v: ea.tensor(v, own) for v in vectors if rng.random() < 0.7}
        return getattr(ops, name)(x, axes=axes, eps=rng.choice((1e-5, 1e-3)), **given)

    return build


def batch_normed(rng):
    x = array(rng, least=2)
    axis = rng.randrange(x.rank)
    given = {v: vector(v, x.shape[axis]) for v in ("weight", "bias") if rng.random() < 0.7}
    return ops.batch_norm(
        x,
        vector("mean", x.shape[axis]),
        vector("variance", x.shape[axis]),
        axis=axis,
        eps=1e-3,
        **given,
    )


def bias_added(rng):
    x = array(rng, least=2)
    axis = rng.randrange(x.rank)
    return ops.bias_add(x, vector("bias", x.shape[axis]), axis)


def clipped(rng):
    low, high = rng.choice(((0, 6), (-1, 1), (None, 2.5), (0.5, None)))
    return ops.clip(array(rng), low, high)


FUNCTIONS = [
    t.name
    for t in PLAIN
    if isinstance(t, Template)
    and t.definition == t.name
    and tuple(t.operands) == ("x",)
    and not t.numbers
]
INSTANCES = {
    **{name: function(name) for name in FUNCTIONS},
    **{
        t.name: pair(t.name)
        for t in PLAIN
        if isinstance(t, Template) and tuple(t.operands) == ("a", "b")
    },
    "leaky_relu": with_numbers("leaky_relu", "slope"),
    "elu": with_numbers("elu", "alpha"),
    "softplus": with_numbers("softplus", "beta"),
    "clip": clipped,
    "where": choice,
    "bias_add": bias_added,
    "batch_norm": batch_normed,
    "softmax": rows("softmax"),
    "log_softmax": rows("log_softmax"),
    "layer_norm": normalised("layer_norm", "weight", "bias"),
    "rms_norm": normalised("rms_norm", "weight"),
    "concat": concatenated,
    "transpose": transposed,
    "reshape": reshaped,
    "slice": sliced,
    "pad": padded,
    "flip": flipped,
    "broadcast_to": broadcast,
    "tile": tiled,
    "repeat": repeated,
}
AS_THEY_LIE = {t.name for t in PLAIN if isinstance(t, ArrayTemplate) and not t.views}
OF_VECTORS = ("bias_add", "batch_norm")


def test_every_operator_has_an_instance():
    assert INSTANCES.keys() == {t.name for t in PLAIN}


# Spellings.


def respelled(scope, rng, axes=False, inner=False):
    """Other names, another order of sums and, with `axes`, of the scope's own indices, and other
    origins of all that nothing reads.
    """

    def placed(iterators, shift):
        for it in iterators:
            name, by = (
                Index(f"{rng.choice('xyzuvab')}{next(numbers)}"),
                rng.randint(-3, 3) if shift else 0,
            )
            yield it.index, affine(name) - by, LoopIndex(name, it.low + by, it.high + by)

    def leaf(node):
        if not isinstance(node, Reduce):
            return node
        found = list(placed(node.iterators, True))
        names = {old: new for old, new, _ in found}
        iterators = rng.sample([it for _, _, it in found], len(found))
        return Reduce(
            node.op,
            iterators,
            [c.substitute(names) for c in node.where],
            rebuild(substitute(node.body, names), leaf),
        )

    numbers = iter(range(1000))
    body = map_accesses(
        scope.body,
        lambda a: (
            rebased(a, respelled(a.tensor, rng, inner=True)) if isinstance(a.tensor, Scope) else a
        ),
    )
    found = list(placed(scope.iterators, not inner))
    names = {old: new for old, new, _ in found}
    iterators = [it for _, _, it in found]
    where = tuple(c.substitute(names) for c in scope.where)
    return Scope(
        rng.sample(iterators, len(iterators)) if axes else iterators,
        where,
        rebuild(substitute(body, names), leaf),
    )


def as_seen(view, flat):
    """An array with one axis for each letter of a view."""
    groups = list(view.axes.values())
    steps = [pair for group in groups for pair in group]
    step = flat.itemsize
    strided = as_strided(
        flat[view.offset :], [extent for extent, _ in steps], [stride * step for _, stride in steps]
    )
    return strided.reshape([int(np.prod([extent for extent, _ in group])) for group in groups])


def called(kernel, given):
    """The value of the operator's definition, called as the kernel says."""
    template = next(t for t in templates(kernel.op) if is_of(kernel, t))
    *views, out = kernel.views
    seen = [as_seen(view, given[view.name].ravel()) for view in views]
    if (
        isinstance(template, Template) and kernel.op not in OF_VECTORS
    ):  # these broadcast: axes that an operand does not have are of size 1
        seen = [
            a.reshape([a.shape[list(v.axes).index(x)] if x in v.axes else 1 for x in out.axes])
            for a, v in zip(seen, views)
        ]
    operands = [ea.tensor(f"operand{k}", a.shape) for k, a in enumerate(seen)]
    if getattr(template, "many", False):
        built = template.build(operands, kernel.parameters)
    else:
        built = getattr(ops, kernel.op)(
            **dict(zip(template.operands, operands)), **kernel.parameters
        )
    return ea.evaluate(built, **{f"operand{k}": a for k, a in enumerate(seen)})


def is_of(kernel, template):
    """Whether a kernel has the operands and the parameters of a template."""
    own = {*getattr(template, "numbers", ()), *template.fixed, *getattr(template, "sources", ())}
    return own == set(kernel.parameters) and (
        getattr(template, "many", False) or len(template.operands) == len(kernel.inputs)
    )


def assert_same_values(kernel, scope, rng):
    given = {
        n: np.array([rng.randint(1, 4) for _ in range(int(np.prod(t.shape)))]).reshape(t.shape)
        for n, t in scope.tensors.items()
    }
    expected = np.ascontiguousarray(ea.evaluate(scope, **given))
    value = called(kernel, given)
    *_, out = kernel.views
    seen = as_seen(out, expected.ravel()) if kernel.op not in AS_THEY_LIE else expected
    np.testing.assert_allclose(
        value.astype(float).reshape(seen.shape), seen.astype(float), rtol=1e-12
    )


@pytest.mark.parametrize("name", INSTANCES)
@settings(max_examples=examples(2, at_night=30))
@given(rng=st.randoms(use_true_random=False))
def test_an_operator_is_matched_however_it_is_spelled(name, rng):
    built = INSTANCES[name](rng)
    scope = respelled(built, rng, axes=name not in AS_THEY_LIE)
    kernel = match(scope, "O", templates(name))
    assert kernel is not None, f"{scope} is no {name}: {distance_to(scope, name)}"
    assert kernel.op == name and kernel.is_eop and distance_to(scope, name) == 0
    assert_same_values(kernel, scope, rng)


# What is near, and is none.


@pytest.mark.parametrize(
    ("op", "text", "tensors", "why"),
    [
        ("transpose", "O[i:3,j] = A[j,i+1]", dict(A=(3, 4)), "axes=(1, 0) is L[i:4, j:3](A[j, i])"),
        ("transpose", "O[i] = A[i,i]", dict(A=(3, 3)), "no axes makes it a transpose"),
        (
            "transpose",
            "O[i,j] = A[j,i]*A[j,i]",
            dict(A=(3, 4)),
            "the body A[j, i]**2 is not of the form x[j, i]",
        ),
        (
            "transpose",
            "O[i:5,j] = A.pad(0,(0,1))[j,i]",
            dict(A=(3, 4)),
            "transpose with axes=(1, 0) is",
        ),
        ("reshape", "O[i:12] = A[i%3,i//3]", dict(A=(3, 4)), "reshape with shape=(12,) is"),
        ("reshape", "O[i:3,j:3] = A[i,j]", dict(A=(3, 4)), "holds 9 elements"),
        ("slice", "O[i:2,j:2] = A[2*j,i]", dict(A=(3, 4)), "slice with starts=(0, 0)"),
        ("slice", "O[i:3] = A[i,i]", dict(A=(3, 4)), "slice with"),
        ("pad", "O[i:6] = A.pad((0,3))[2*i]", dict(A=(8,)), "no amounts makes it a pad"),
        (
            "concat",
            "O[i:7] = A.pad((0,4))[i] + B.pad((2,1))[i-2]",
            dict(A=(3,), B=(4,)),
            "concat with axis=0 is",
        ),
        (
            "concat",
            "O[i:7] = A.pad((0,4))[i] * B.pad((3,0))[i-3]",
            dict(A=(3,), B=(4,)),
            " is not of the form ",
        ),
        (
            "softmax",
            "M[i] = Max[j](A[i,j])\nS[i] += exp(A[i,j] - M[i])\nO[i,j] = exp(A[i,j])/S[i]",
            dict(A=(3, 4)),
            " is not of the form ",
        ),
        (
            "softmax",
            "M[j] = Max[i](A[i,j])\nS[i] += exp(A[i,j] - M[j])\nO[i,j] = exp(A[i,j] - M[j])/S[i]",
            dict(A=(3, 3)),
            "softmax with axis=",
        ),
        (
            "exp",
            "O[i] = exp(A[i] + 1)",
            dict(A=(3,)),
            "the body exp(A[i] + 1) is not of the form exp(x[i])",
        ),
        (
            "exp",
            "O[h:5] = exp(A[h//2])",
            dict(A=(3,)),
            "the subscript h//2 of A is not a bare index",
        ),
        ("exp", "O[h:5] = exp(A.pad((0,2))[h])", dict(A=(3,)), "A is read through padding at h"),
        (
            "sub",
            "O[i] = A[i] + 3*B[i]",
            dict(A=(3,), B=(3,)),
            "its numbers are 3, where a sub of these sizes has -1",
        ),
        (
            "leaky_relu",
            "O[i] = Max(A[i], 0) + Min(B[i], 0)/4",
            dict(A=(3,), B=(3,)),
            " is not of the form ",
        ),
        (
            "softplus",
            "O[i] = Max(A[i], 0) + log(1 + exp(-2*Abs(A[i])))/3",
            dict(A=(3,)),
            "its numbers, strides, offsets or sizes",
        ),
        (
            "bias_add",
            "O[i,j] = A[i] + B[j]",
            dict(A=(3,), B=(4,)),
            "index i occurs in A and the output; bias_add has no",
        ),
        ("gelu", "O[i] = A[i]*(1 + erf(A[i]/2))/2", dict(A=(3,)), " is not of the form "),
        ("silu", "O[i,j] = A[i]/(1 + exp(-A[j]))", dict(A=(3,)), " is not of the form "),
    ],
)
def test_what_is_near_is_not_matched_and_told_why(op, text, tensors, why):
    expression = ea.parse(text, **tensors)
    found = ea.distance(expression, op)
    assert found > 0 and why in str(found), str(found)
    assert all(match(scope, "O", templates(op)) is None for _, scope in as_program(expression))


def test_an_operator_is_one_line():
    sinusoid = Template("sinusoid", "sin", {"x": "i"}, plain=True)
    backwards = ArrayTemplate(
        "backwards", "flip", {"x": "ij"}, {"axes": "reversed axes"}, {"axes": (0,)}
    )
    assert (
        match(ea.parse("O[j,i] = sin(A[i,j])", A=(3, 4)), "O", (sinusoid, backwards)).op
        == "sinusoid"
    )
    assert match(ea.parse("O[i] = A[2-i]", A=(3,)), "O", (sinusoid, backwards)).parameters == {
        "axes": (0,)
    }


# Statements together.

STATEMENTS = "M[i] = Max[j](S[i,j])\nE[i,j] = exp(S[i,j] - M[i])\nO[i,j] = E[i,j] / Sum[k](E[i,k])"


@pytest.mark.parametrize("text", [STATEMENTS, "S[i,j] += Q[i,k]*K[j,k]\n" + STATEMENTS])
def test_a_softmax_of_several_statements_is_one_operator(text):
    program = ea.parse(
        text, **({"S": (3, 5)} if text == STATEMENTS else {"Q": (3, 4), "K": (5, 4)})
    )
    (group,) = groups(program)
    assert (
        group.kernel.op == "softmax"
        and group.statements == ("M", "E", "O")
        and group.kernel.inputs == ("S",)
    )
    assert ea.distance(program, "softmax") == 0 and group.kernel.parameters == {"axis": 1}


def test_a_statement_that_others_need_is_in_no_group():
    program = ea.parse(STATEMENTS, S=(3, 5))
    assert groups(Program(program.statements, ["E", "O"])) == []


def test_expressions_are_their_operator():
    x = ea.tensor("x", (2, 3, 5))
    for name in ("softmax", "log_softmax", "layer_norm", "rms_norm", "gelu", "transpose"):
        assert ea.distance(getattr(ops, name)(x), name) == 0
    assert (
        ea.distance(
            ops.depthwise_conv2d(ea.tensor("A", (1, 3, 8, 8)), ea.tensor("K", (3, 1, 3, 3))),
            "conv2d",
        )
        == 0
    )


# In a search.


def test_they_are_no_aims_of_a_search():
    assert not any(t.plain for t in TEMPLATES) and all(t.plain for t in PLAIN)
    copy = ea.parse("O[i,j] = A[j,i]", A=(3, 4))
    assert nearest_templates(copy) == [] and kernels_of(as_program(copy))[0].op == "eop"
    matmul = ea.parse("T[i,j] += A[i,k]*B[k,j]\nO[j,i] = T[i,j]", A=(3, 4), B=(4, 5))
    assert distance(scope for _, scope in matmul) == distance([*(s for _, s in matmul)][:1]) + 0.5


def test_kernels_have_names_and_run():
    text = "T[i,j] += A[i,k]*B[k,j]\nU[j,i] = T[i,j]\nV[j,i] = Max(U[j,i], 0)\nW[j:7,i] = V.pad((1,1),0)[j-1,i]\nO[j,i] = W[j,i] + bias[i]"
    program = ea.parse(text, A=(3, 4), B=(4, 5), bias=(3,))
    kernels = with_operator_names(kernels_of(program))
    assert [k.op for k in kernels] == ["matmul", "transpose", "relu", "pad", "bias_add"]
    assert [k.is_eop for k in kernels] == [False, True, True, True, True]
    rng = np.random.default_rng(0)
    given = {
        name: rng.standard_normal(t.shape).astype(np.float32) for name, t in program.inputs.items()
    }
    run = compile_program(program, kernels)
    np.testing.assert_allclose(run(**given), ea.evaluate(program, **given), rtol=1e-4, atol=1e-5)
    assert [k.op for k in run.kernels] == [k.op for k in kernels]


def test_what_has_another_body_is_ruled_out_without_calling_a_definition(monkeypatch):
    scope = ea.parse("O[h,w] = Sum[r:3,s:3](T.pad(1,1,0,0)[h+r-1,w+s-1,r,s])", T=(5, 6, 3, 3))
    assert match(scope, "O", PLAIN) is None  # what is known of every template is known by now
    monkeypatch.setattr(Template, "build", None)
    monkeypatch.setattr(ArrayTemplate, "build", None)
    monkeypatch.setattr(arrays, "in_output_order", None)
    assert match(Scope(scope.iterators, scope.where, scope.body), "O", PLAIN) is None


def test_a_sum_may_be_called_as_what_is_outside_it():
    mean = "(L[e:3, c1:4](Sum[c:2:4](x[c-2, e, c1])/2))[b, c]"
    variance = "(L[b:3, c:4](Sum[c1:2]((x[c1, b, c] - (L[b:3, c:4](Sum[a:2](x[a, b, c])/2))[b, c])**2)/2))[b, c]"
    scope = ea.parse(
        f"O = L[a:2, b:3, c:4]((x[a, b, c] - {mean})/sqrt({variance} + 0.001))", x=(2, 3, 4)
    )
    assert match(scope, "O", templates("layer_norm")).parameters == {"axes": (0,), "eps": 0.001}
