"""Known derivations as chains of moves, each one found among `moves(program, [rule])`: proven at
real sizes, exact at small ones.
"""

from __future__ import annotations

import numpy as np
import pytest

import einalg as ea
from derive.rewriting.moves import Move, apply, moves
from derive.rewriting.paths import paths
from derive.rules import ALL
from einalg.language.ir.program import Program, as_program, statement_tensor
from einalg.language.ir.traversal import reductions

SPLIT, RENAME, MERGE, RELAX, TIGHTEN = (
    "summation splitting", "variable substitution", "traversal merging", "boundary relaxing", "boundary tightening",
)  # fmt: skip


def take(program, rule, path=None, **wanted):
    """The program after the first move of a rule whose arguments are the wanted ones, or fulfil
    them; replayed from JSON.
    """
    found = [
        m
        for m in moves(program, [ALL[rule]], path)
        if all(_fits(m.args.get(name), w) for name, w in wanted.items())
    ]
    assert found, f"no move of {rule} with {wanted} on\n{program}"
    return apply(program, Move.from_json(found[0].to_json()), ALL)


def _fits(value, wanted):
    return wanted(value) if callable(wanted) else value == wanted


def new(*forms):
    """A substitution whose new indices have these forms among theirs."""
    return lambda forward: all(form in forward.values() for form in forms)


def without(*names):
    return lambda forward: forward is not None and not set(names) & set(forward)


def weight(name, *shape):
    return ea.tensor(name, shape, role="weight")


def arrays(program):
    random = np.random.default_rng(0)
    return {
        name: random.integers(*((1, 9) if name == "variance" else (-3, 4)), t.shape)
        for name, t in program.tensors.items()
    }


def scopes(program):
    return [scope for _, scope in paths(program)]


def inner_contractions(program):
    """The scopes inside that sum."""
    return [
        s
        for path, s in paths(program)
        if len(path) > 1 and any(n.iterators for n in reductions(s.body))
    ]


# --- the chains


def transposed_as_product(start):
    """(i) ConvTranspose as one unpadded, unconditioned product, and a selective addition."""
    split = take(start, SPLIT, outer=("r", "s"))
    named = take(
        split,
        RENAME,
        ("O", 0),
        forward=lambda f: new("(h - r + 1)//2", "(w - s + 1)//2")(f) and "r" in f,
    )
    relaxed = take(take(named, MERGE, ("O",)), RELAX, where=())
    tight = take(relaxed, TIGHTEN, inner=0)
    (product,) = inner_contractions(tight)
    assert (
        not product.where
        and not product.body.where
        and "pad" not in str(product)
        and "//" not in str(product)
    )
    return tight


def transposed_as_phases(start):
    """(ii) ConvTranspose as one dense convolution for every phase, with the taps of its phase only."""
    phases = take(
        take(start, RENAME, target=0, forward=new("r//2", "s//2")),
        "expression splitting",
        phases=(2, 2),
    )
    dense = inner_contractions(phases)
    assert len(dense) == 4
    for phase in dense:
        assert (
            [i.name for i in phase.body.indices] == ["c", "r1", "s1"]
            and not phase.where
            and not phase.body.where
            and "//" not in str(phase)
        )
    forwards = take(
        phases,
        RENAME,
        ("O", 0),
        target=0,
        forward=lambda f: len([v for v in f.values() if v.startswith("-")]) == 2,
    )
    assert "h + r" in str(inner_contractions(forwards)[0])
    return take(forwards, "staging", ("O", 0), axes=lambda axes: axes[:2] == ("c", "f"))


def dilated_as_dense(start):
    """(iii) A dilated convolution as a dense one of the classes of its points."""
    classes = take(start, RENAME, target="traversal", forward=new("h//2", "h%2", "w//2", "w%2"))
    staged = take(
        classes, "staging", ("O", 0), axes=lambda axes: {"h1 + r", "h2", "w2"} <= set(axes)
    )
    (dense,) = inner_contractions(staged)
    assert all(abs(c) == 1 for a in dense.body.body.args for s in a.subscripts for _, c in s.terms)
    return staged


def strided_as_dense(start):
    """(iv) Conv7x7 of stride 2 as Conv4x4 of stride 1 of four times the channels."""
    split = take(start, RENAME, target=0, forward=new("r//2", "s//2"))
    full = take(split, RELAX, where=())
    staged = take(full, "staging", access=0, axes=lambda axes: {"h + r1", "r2"} <= set(axes))
    staged = take(staged, "staging", axes=("f", "c", "r1", "r2", "s1", "s2"))
    (node,) = reductions(staged["O"].body)
    assert not node.where and [it.extent for it in node.iterators[1:]] == [4, 2, 4, 2]
    assert all(
        s.as_index() or len(s.terms) == 2 and {c for _, c in s.terms} == {1}
        for a in node.body.args
        for s in a.subscripts
    )
    return staged


def larger_as_smaller(start):
    """(v) Conv5x5 as Conv3x3 of four times the features and OffsetAdd."""
    full = take(take(start, RENAME, target=0, forward=new("r//3", "s//3")), RELAX, where=())
    split = take(full, SPLIT, outer=("r1", "s1"))
    skewed = take(
        split, RENAME, ("O", 0), forward=lambda f: new("h + 3*r1", "3*s1 + w")(f) and "r1" in f
    )
    relaxed = take(take(skewed, MERGE, ("O",)), RELAX, where=())
    (small,) = inner_contractions(relaxed)
    assert (
        not small.where
        and not small.body.where
        and [it.extent for it in small.body.iterators][1:] == [3, 3]
    )
    return take(relaxed, TIGHTEN, inner=0)


def dilated_band_as_dense(start):
    """(vi) Dilated G2BMM as dense G2BMM of the classes of its rows."""
    classes = take(start, RENAME, forward=new("i//4", "i%4"))
    staged = take(classes, "staging", ("O", 0), axes=("b", "i1 + w", "i2", "k"))
    staged = take(staged, "staging", ("O", 0), axes=("b", "i1", "i2", "k"))
    (dense,) = inner_contractions(staged)
    assert {abs(c) for a in dense.body.body.args for s in a.subscripts for _, c in s.terms} == {1}
    return staged


def normalization_into_weights(start):
    """(vii) A batch norm after a convolution scales its weights and shifts its bias."""
    one = take(take(start, "nesting"), MERGE)
    linear = take(take(one, "distribution", step="expand"), "distribution", step="into")
    scaled = take(linear, "staging", factors=lambda found: found is not None)
    shifted = take(scaled, "staging", terms=lambda found: found is not None)
    weights = [s for s in scopes(shifted)[1:] if not any(n.iterators for n in reductions(s.body))]
    assert len(weights) == 2 and all(
        t.role == "weight" for s in weights for t in s.tensors.values()
    )
    return shifted


def product_order(start):
    """(viii) (A·B)·v as A·(B·v)."""
    flat = take(take(start, "nesting"), MERGE)
    reordered = take(flat, SPLIT, outer=("k",))
    (inner,) = inner_contractions(reordered)
    assert set(inner.tensors) == {"B", "v"}
    return reordered


def common_factor(start):
    """(viii) A·B + A·C as A·(B + C)."""
    flat = take(take(take(take(start, "nesting"), "nesting"), MERGE), MERGE)
    joined = take(take(flat, "distribution", step="join"), "staging", axes=("k", "j"))
    assert len(list(reductions(joined["O"].body))) == 1 and len(scopes(joined)) == 2
    return joined


def transposed(n, c, size, f):
    return as_program(
        ea.ops.conv_transpose2d(
            ea.tensor("A", (n, c, size, size)), weight("K", c, f, 4, 4), stride=2, padding=1
        )
    )


def convolution(n, c, size, f, taps, **options):
    return as_program(
        ea.ops.conv2d(ea.tensor("A", (n, c, size, size)), weight("K", f, c, taps, taps), **options)
    )


def band(b, rows, k, width, dilation):
    return as_program(
        ea.ops.g2bmm(ea.tensor("Q", (b, rows, k)), ea.tensor("K", (b, rows, k)), width, dilation)
    )


def normalized(n, c, size, f):
    first = ea.ops.conv2d(ea.tensor("A", (n, c, size, size)), weight("K", f, c, 3, 3), padding=1)
    channel = [weight(name, f) for name in ("mean", "variance", "gamma", "beta")]
    return Program([("T", first), ("O", ea.ops.batch_norm(statement_tensor("T", first), *channel))])


def products(text, i, k, j):
    return as_program(
        ea.parse(text, A=(i, k), B=(k, j), **({"v": (j,)} if "v[" in text else {"C": (k, j)}))
    )


TWICE = "T[i,j] += A[i,k]*B[k,j]\nO[i] += T[i,j]*v[j]"
BESIDE = "T[i,j] += A[i,k]*B[k,j]\nU[i,j] += A[i,k]*C[k,j]\nO[i,j] = T[i,j] + U[i,j]"

CHAINS = [
    (transposed_as_product, lambda: transposed(16, 448, 2, 256), lambda: transposed(2, 3, 3, 2)),
    (transposed_as_phases, lambda: transposed(16, 448, 2, 256), lambda: transposed(2, 3, 3, 2)),
    (
        dilated_as_dense,
        lambda: convolution(1, 512, 14, 512, 3, padding=2, dilation=2),
        lambda: convolution(2, 2, 5, 3, 3, padding=2, dilation=2),
    ),
    (
        strided_as_dense,
        lambda: convolution(1, 3, 224, 64, 7, padding=3, stride=2),
        lambda: convolution(2, 2, 9, 2, 7, padding=3, stride=2),
    ),
    (
        larger_as_smaller,
        lambda: convolution(16, 32, 224, 1, 5, padding=2),
        lambda: convolution(2, 2, 5, 1, 5, padding=2),
    ),
    (dilated_band_as_dense, lambda: band(8, 10000, 64, 1000, 4), lambda: band(2, 11, 3, 2, 4)),
    (
        normalization_into_weights,
        lambda: normalized(1, 512, 7, 512),
        lambda: normalized(2, 2, 3, 2),
    ),
    (product_order, lambda: products(TWICE, 512, 1024, 2048), lambda: products(TWICE, 3, 4, 5)),
    (common_factor, lambda: products(BESIDE, 512, 1024, 2048), lambda: products(BESIDE, 3, 4, 5)),
]
NAMES = [chain.__name__ for chain, _, _ in CHAINS]


@pytest.mark.parametrize(("chain", "real"), [(chain, real) for chain, real, _ in CHAINS], ids=NAMES)
def test_every_chain_is_proven_at_real_sizes(chain, real):
    start = real()
    assert ea.prove(start, chain(start)).verdict == "proved"


@pytest.mark.parametrize(
    ("chain", "small"), [(chain, small) for chain, _, small in CHAINS], ids=NAMES
)
def test_every_chain_keeps_every_value_at_small_sizes(chain, small):
    start = small()
    values = arrays(start)
    expected, value = ea.evaluate(start, **values), ea.evaluate(chain(start), **values)
    assert (
        np.array_equal(expected, value)
        if chain is not normalization_into_weights
        else np.allclose(expected, value)
    )


@pytest.mark.parametrize("start", [real for _, real, _ in CHAINS], ids=NAMES)
def test_few_moves_are_proposed_at_one_place(start):
    program = start()
    for rule in ALL.values():
        if rule.level == "scope":
            assert len(list(moves(program, [rule], (program.names[-1],)))) <= 12, rule.name
