"""Rules are found in programs by their mathematics, and what takes their place is equal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.programs.forms.rewriting.convolutions import convolution_kinds
from derive.programs.forms.rewriting.matching import matches
from derive.programs.forms.rewriting.patterns import apart, patterns_of
from derive.programs.forms.rewriting.replacement import replaced
from einalg.language.ir.program import as_program
from tests.helpers.rule_files import CONV, K3, conv, op, rule, write

ops = ea.ops
X, A, B = ea.tensor("x", ("N", "K")), ea.tensor("a", ("K", "M")), ea.tensor("b", ("K", "L"))
MERGED = (
    "W[k,j:M+L] = a.pad(0,(0,L))[k,j] + b.pad(0,(M,0))[k,j-M]\n"
    "T[i,j] += x[i,k]*W[k,j]\nP[i,j:M] = T[i,j]\nQ[i,l:L] = T[i,l+M]\nP, Q"
)
MERGE = ea.substitutions.Rule(
    "merge",
    ea.parse("P[i,j] += x[i,k]*a[k,j]\nQ[i,l] += x[i,k]*b[k,l]\nP, Q", x=X, a=A, b=B),
    ea.parse(MERGED, x=X, a=A, b=B),
)
STACK = ea.substitutions.Rule(
    "stack",
    ea.parse("P[i,j] += x[i,k]*a[k,j]\nQ[i,j] += y[i,k]*a[k,j]\nP, Q", x=X, a=A, y=("R", "K")),
    ea.parse(
        "W[i:N+R,k] = x.pad((0,R),0)[i,k] + y.pad((N,0),0)[i-N,k]\n"
        "T[i,j] += W[i,k]*a[k,j]\nP[i:N,j] = T[i,j]\nQ[i:R,j] = T[i+N,j]\nP, Q",
        x=X,
        a=A,
        y=("R", "K"),
    ),
)
TRANSPOSED = ea.substitutions.Rule(
    "transposed", ops.transpose(ops.matmul(X, A)), ops.matmul(ops.transpose(A), ops.transpose(X))
)
DATA, KERNEL = ea.tensor("d", ("N", "C", "H", "W")), ea.tensor("k", ("F", "C", 3, 3))


def scaled_convolution():
    s = ea.tensor("s", ("F",))
    n, f, h, w, c, r, q = ea.indices("n f h w c r q")
    scale = ea.L[n : ea.size("N"), f : ea.size("F"), h : ea.size("H"), w : ea.size("W")](
        ops.conv2d(DATA, KERNEL, padding=1)[n, f, h, w] * s[f]
    )
    kernel = ea.L[f : ea.size("F"), c : ea.size("C"), r:3, q:3](KERNEL[f, c, r, q] * s[f])
    return ea.substitutions.Rule("scaled", scale, ops.conv2d(DATA, kernel, padding=1))


def replacements(rule, program):
    program = apart(as_program(program))
    made = []
    for pattern in patterns_of(rule, convolution_kinds(program)):
        made += [replaced(pattern, match, program) for match in matches(pattern, program)]
    return [one for one in made if one is not None]


def assert_equal(program, made):
    """Check a replacement by its proof, and by values of the whole program."""
    assert made.is_proved()
    rng = np.random.default_rng(0)
    program = as_program(program)
    arrays = {
        name: rng.integers(-3, 4, tensor.shape).astype(float)
        for name, tensor in program.inputs.items()
    }
    read = {name: arrays[name] for name in made.program.inputs}
    np.testing.assert_array_equal(ea.evaluate(made.program, **read), ea.evaluate(program, **arrays))


def sums(program):
    return [name for name, scope in program.statements if "Sum[" in str(scope)]


@pytest.mark.parametrize(
    "text",
    [
        "P[i,j] += A[i,k]*V[k,j]\nQ[i,j] += A[i,k]*W[k,j]\nO[i,j] = P[i,j]*Q[i,2]",
        "P[j,i] += A[k,i]*V[j,k]\nQ[i,j] += A[k,i]*W[k,j]\nO[i,j] = P[j,i]*Q[i,2]",
        "P[i,j] = c[j] + Sum[k](A[i,k]*V[k,j])\nQ[i,j] = Sum[k](A[i,k]*W[k,j])*2\n"
        "O[i,j] = P[i,j]*Q[i,2]",
    ],
)
def test_products_of_one_tensor_are_merged_wherever_its_axes_lie(text):
    shapes = {"A": (5, 3), "V": (3, 4), "W": (3, 6), "c": (4,)}
    if "V[j,k]" in text:
        shapes |= {"A": (3, 5), "V": (4, 3)}
    used = {name: shape for name, shape in shapes.items() if f"{name}[" in text}
    program = ea.parse(text, **used)
    made = replacements(MERGE, program)
    assert any(len(sums(one.program)) == 1 for one in made)
    for one in made:
        assert_equal(program, one)


def test_what_holds_for_matrices_holds_for_many():
    text = (
        "P[b,i,j] += A[b,i,k]*V[j,k]\nQ[b,i,j] += A[b,i,k]*W[b,j,k]\nO[b,i,j] = P[b,i,j]*Q[b,i,1]"
    )
    program = ea.parse(text, A=(2, 5, 3), V=(4, 3), W=(2, 6, 3))
    made = [one for one in replacements(MERGE, program) if len(sums(one.program)) == 1]
    assert made
    for one in made:
        assert_equal(program, one)


def test_a_transposed_product_is_a_product():
    program = ea.parse("T[i,j] += A[i,k]*V[k,j]\nO[j,i] = T[i,j]", A=(5, 3), V=(3, 4))
    one, *_ = replacements(TRANSPOSED, program)
    assert_equal(program, one)
    assert "T" not in one.program.names and sums(one.program) == ["O"]


def test_a_factor_goes_into_the_weights_of_a_convolution():
    rule = scaled_convolution()
    assert ea.substitutions.verify(rule)
    text = (
        "T[n,f,h:5,w:6] += A.pad(0,0,1,1)[n,c,h+r-1,w+q-1]*K[f,c,r,q]\n"
        "R[n,f,h,w] = T[n,f,h,w]*exp(s[f])"
    )
    program = ea.parse(text, A=(1, 2, 5, 6), K=(3, 2, 3, 3), s=(3,))
    made = replacements(rule, program)
    assert made and all(one.is_proved() for one in made)
    assert sums(made[0].program) == ["R"]


def test_other_paddings_and_strides_are_no_match():
    text = (
        "T[n,f,h:4,w:6] += A.pad(0,0,0,1)[n,c,h+r,w+q-1]*K[f,c,r,q]\nR[n,f,h,w] = T[n,f,h,w]*s[f]"
    )
    program = ea.parse(text, A=(1, 2, 6, 6), K=(3, 2, 3, 3), s=(3,))
    assert not replacements(scaled_convolution(), program)


def test_no_statement_needs_itself():
    program = ea.parse("P[i,j] += A[i,k]*W[k,j]\nQ[i,j] += P[i,k]*W[k,j]", A=(3, 3), W=(3, 3))
    for one in replacements(STACK, program):
        assert_equal(program, one)
    assert not any(len(sums(one.program)) == 1 for one in replacements(STACK, program))
    text = "P[i,j] += A[i,k]*W[k,j]\nQ[i,j] += B[i,k]*W[k,j]\nO[i,j] = P[i,j]+Q[i,j]"
    independent = ea.parse(text, A=(3, 3), B=(3, 3), W=(3, 3))
    assert any(len(sums(one.program)) == 1 for one in replacements(STACK, independent))


def test_what_others_read_stays():
    program = ea.parse(
        "T[i,j] += A[i,k]*V[k,j]\nR[j,i] = T[i,j]\nO[i,j] = T[i,j]*R[j,i]", A=(5, 3), V=(3, 4)
    )
    made = replacements(TRANSPOSED, program)
    assert made
    for one in made:
        assert_equal(program, one)
        assert "T" in one.program.names


def test_a_rule_fits_where_its_sizes_do():
    rule = ea.substitutions.Rule("first", "O[i] += A[i,k]", "O[i] = A[i,0]", A=("N", "K"))
    single = ea.parse("O[i] += A[i,k]\nR[i] = O[i]*2", A=(4, 1))
    several = ea.parse("O[i] += A[i,k]\nR[i] = O[i]*2", A=(4, 3))
    assert [one.is_proved() for one in replacements(rule, single)] == [True]
    assert [one.is_proved() for one in replacements(rule, several)] == [False]


RULES = {
    "convolutions of one image": rule(
        "merge",
        [conv(1, 2, "relu"), conv(1, 3, "relu"), op("concat", "0", "1", axis=1)],
        [op("concat", 2, 3, axis=0), conv(1, "0", "relu")],
    ),
    "a sum of convolutions": rule(
        "sum", [conv(1, 2), conv(1, 3), op("ewadd", "0", "1")], [op("ewadd", 2, 3), conv(1, "0")]
    ),
    "a split product": rule(
        "split",
        [op("concat", 1, 2, axis=1), op("matmul", 3, "0"), op("split", "1", axis=1, n=2)],
        [op("matmul", 3, 1), op("matmul", 3, 2)],
        {"src": [2, 0], "dst": [0, 0]},
        {"src": [2, 1], "dst": [1, 0]},
    ),
    "transposes": rule(
        "transposes",
        [op("transpose", 1, perm=[1, 0]), op("transpose", 2, perm=[1, 0]), op("ewmul", "0", "1")],
        [op("ewmul", 1, 2), op("transpose", "0", perm=[1, 0])],
    ),
    "an average": rule(
        "average",
        [op("concat", 1, 2, axis=1), op("poolavg", "0", **K3, **CONV, act="none")],
        [
            op("poolavg", 1, **K3, **CONV),
            op("poolavg", 2, **K3, **CONV),
            op("concat", "0", "1", axis=1),
        ],
    ),
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_is_found_in_its_own_left_side(name, tmp_path):
    (one,) = ea.substitutions.load(write(tmp_path, RULES[name]))
    assert ea.substitutions.verify(one)
    before = apart(one.before)
    numbers = {size: 2 + number for number, size in enumerate(before.sizes)}
    program = before.at(**numbers)
    made = replacements(one, program)
    assert made
    for replacement in made[:2]:
        assert replacement.is_proved()


@settings(max_examples=12)
@given(st.permutations("bik"), st.permutations("jk"), st.permutations("jk"), st.integers(1, 4))
def test_merged_products_are_equal_in_any_layout(data, one, other, rows):
    sizes = {"b": 2, "i": rows, "k": 3, "j": 4}
    text = (
        f"P[b,i,j] += A[{','.join(data)}]*V[{','.join(one)}]\n"
        f"Q[b,i,j] += A[{','.join(data)}]*W[{','.join(other)}]\nO[b,i,j] = P[b,i,j]*Q[b,i,j]"
    )
    shapes = {
        "A": tuple(sizes[axis] for axis in data),
        "V": tuple(sizes[axis] for axis in one),
        "W": tuple(sizes[axis] for axis in other),
    }
    program = ea.parse(text, **shapes)
    made = replacements(MERGE, program)
    assert any(len(sums(replacement.program)) == 1 for replacement in made)
    for replacement in made[:2]:
        assert_equal(program, replacement)


SAME = {"stride": [1, 1], "pad": "same"}
OPEN_RULES = {
    "features": rule(
        "features",
        [op("conv2d", 1, 2, **SAME), op("conv2d", 1, 3, **SAME), op("concat", "0", "1", axis=1)],
        [op("concat", 2, 3, axis=0), op("conv2d", 1, "0", **SAME)],
    ),
    "sum": rule(
        "sum",
        [op("conv2d", 1, 2, **SAME), op("conv2d", 1, 3, **SAME), op("ewadd", "0", "1")],
        [op("ewadd", 2, 3), op("conv2d", 1, "0", **SAME)],
    ),
    "groups": rule(
        "groups",
        [op("conv2d", 1, 2, **SAME), op("conv2d", 3, 4, **SAME), op("concat", "0", "1", axis=1)],
        [
            op("concat", 1, 3, axis=1),
            op("concat", 2, 4, axis=0),
            op("conv2d", "0", "1", **SAME),
        ],
    ),
    "enlarge": rule(
        "enlarge",
        [op("conv2d", 1, 2, **SAME), op("conv2d", 1, 3, **SAME), op("concat", "0", "1", axis=1)],
        [
            op("enlarge", 3, kernel=[3, 5]),
            op("concat", 2, "0", axis=0),
            op("conv2d", 1, "1", **SAME),
        ],
    ),
}


def convolved(taps, groups=1, others=None, join="concat", data="x"):
    """Two convolutions of channels that are groups of two, joined."""
    channels = 2 * groups
    image, other = ea.tensor("x", (1, channels, 5, 6)), ea.tensor(data, (1, channels, 5, 6))
    parts = []
    for source, name, sizes in ((image, "v", taps), (other, "w", others or taps)):
        kernel = ea.tensor(name, (3 * groups, 2, *sizes))
        around = [((size - 1) // 2, size // 2) for size in sizes]
        parts.append(ops.conv2d(source, kernel, padding=around, groups=groups))
    if join == "concat":
        return ops.concat(parts, axis=1)
    return ops.add(*parts)


@pytest.mark.parametrize("taps", [(1, 1), (3, 3), (5, 5), (1, 7), (2, 3)])
def test_a_rule_of_open_kernels_fits_any_kernel(taps, tmp_path):
    (one,) = ea.substitutions.load(write(tmp_path, OPEN_RULES["features"]))
    program = convolved(taps)
    made = replacements(one, program)
    assert made and len(sums(made[0].program)) == 1
    assert_equal(program, made[0])
    assert not replacements(one, convolved(taps, others=(taps[0], taps[1] + 1)))


@pytest.mark.parametrize("groups", [2, 7])
def test_a_rule_of_open_groups_fits_any_groups(groups, tmp_path):
    (one,) = ea.substitutions.load(write(tmp_path, OPEN_RULES["sum"]))
    program = convolved((3, 3), groups, join="add")
    made = replacements(one, program)
    assert made and len(sums(made[0].program)) == 1
    assert_equal(program, made[0])


def test_a_right_side_whose_sizes_stay_open_is_not_written(tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text("(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 (conv2d 1 1 0 0 ?x ?w) (Iconv 1 1))")
    (one,) = ea.substitutions.load(path)
    assert replacements(one, convolved((3, 3), 2, join="add")) == []


@pytest.mark.parametrize("groups", [1, 3])
def test_convolutions_of_two_images_become_one_of_more_groups(groups, tmp_path):
    (one,) = ea.substitutions.load(write(tmp_path, OPEN_RULES["groups"]))
    program = convolved((1, 3), groups, data="y")
    made = [other for other in replacements(one, program) if len(sums(other.program)) == 1]
    assert made
    assert_equal(program, made[0])


def test_a_kernel_is_enlarged_and_merged_with_another_one(tmp_path):
    (one,) = ea.substitutions.load(write(tmp_path, OPEN_RULES["enlarge"]))
    program = convolved((3, 5), others=(1, 1))
    made = replacements(one, program)
    assert made and len(sums(made[0].program)) == 1
    assert_equal(program, made[0])
    assert not replacements(one, convolved((3, 3), others=(1, 1)))


@pytest.mark.parametrize(("groups", "count"), [(4, 2), (6, 3), (5, 5)])
def test_groups_are_merged(groups, count, tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text(f"(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 ?x (merge ?w {count}))")
    (one,) = ea.substitutions.load(path)
    assert ea.substitutions.verify(one)
    image, kernel = ea.tensor("x", (1, 2 * groups, 4, 5)), ea.tensor("w", (3 * groups, 2, 3, 3))
    program = ops.conv2d(image, kernel, padding=1, groups=groups)
    made = replacements(one, program)
    (merged,) = sums(made[0].program)
    assert made[0].program[merged].body.iterators[0].extent == 2 * count
    assert_equal(program, made[0])
    path.write_text(f"(conv2d 1 1 0 0 ?x ?w)=>(conv2d 1 1 0 0 ?x (merge ?w {groups + 1}))")
    assert not replacements(*ea.substitutions.load(path), program)


def test_convolutions_of_each_channel_by_itself_are_of_as_many_groups(tmp_path):
    (one,) = ea.substitutions.load(write(tmp_path, OPEN_RULES["sum"]))
    image, parts = ea.tensor("x", (1, 3, 5, 5)), []
    for name in "vw":
        kernel = ea.tensor(name, (6, 1, 3, 3))
        parts.append(ops.depthwise_conv2d(image, kernel, padding=1))
    program = ops.add(*parts)
    made = replacements(one, program)
    assert made and len(sums(made[0].program)) == 1
    assert_equal(program, made[0])
