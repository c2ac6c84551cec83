"""Programs made ready for a search: element-wise statements fused, factors of results taken into
the weights.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy

import einalg as ea
from derive.matching import kernels_of
from derive.programs.passes.normalise import shaped, with_epilogues
from derive.programs.passes.weights import folding as weight_folding
from derive.programs.passes.weights.folding import folded
from derive.rules.inter.lifting_nesting import lifted
from einalg.language import ops
from einalg.language.analysis.compile_time import compile_time_statements
from einalg.language.ir.program import as_program
from einalg.language.ir.scope import Scope
from tests.helpers.networks import assert_same_values, network, weight


def test_shaping_fuses_what_is_elementwise():
    program = network()
    flat, moves = shaped(program)
    assert_same_values(program, flat)
    assert (
        len(flat.statements) == 4 and len(moves) > 2
    )  # two convolutions with all that follows, of which the first is read twice


def test_shaping_takes_reductions_out_of_their_bodies():
    program = as_program(
        ea.parse("O[i] = Max(Sum[j:4](A[i,j]*B[j]) + c[i], 0)", A=(3, 4), B=(4,), c=(3,))
    )
    flat, _ = shaped(program)
    assert_same_values(program, flat)
    assert type(flat.statements[0][1].body).__name__ == "Reduce" and len(flat.statements) == 2


@pytest.mark.parametrize(
    "text",
    [
        "T[i] = A[i] + 1\nO[i] = T[i]*T[4-i]",
        "T[i] = A[i]\nO[i] = T.pad(1)[i+1] + T[i]",
        "T[i] = A[i]*2\nO[i] = Max[j:5](T[j]) + T[i]",
    ],
)
def test_shaping_keeps_what_is_read_at_several_points(text):
    program = ea.parse(text, A=(5,))
    assert_same_values(program, shaped(program)[0])


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("T[i,j,k] = A[i,j,k]*b[k]\nO[i:4,j:6,k] = T[(i+3)%4,(j+5)%6,k]", 1),  # rolled
        ("T[i,j,k] = A[i,j,k]*b[k]\nO[w:6,p:4,k] = T[2*(w//3)+p//2,2*(w%3)+p%2,k]", 1),  # windows
        ("T[i,j,k] = A[i,j,k]*b[k]\nO[i:2,j:3,k] = T[2*i+1,2*j,k] + c[k]", 1),  # a part
        ("T[i,j,k] = A[i,j,k]*b[k]\nO[i:4,j:6,k:5] = T[i,j,(k+2)%5] + c[k]", 2),  # no rows
        ("T[i,j,k] = A[i,j,k]*b[k]\nO[i:8,j:6,k] = T[i//2,j,k] + c[k]", 2),  # computed twice
        ("T[i,j,k] = A[i,j,k]*b[k]\nO[i:3,j:6,k] = T[i,j,k]*T[i+1,j,k]", 2),  # read twice
    ],
)
def test_what_is_moved_in_rows_is_computed_where_it_goes(text, statements):
    program = as_program(ea.parse(text, A=(4, 6, 5), b=(5,), c=(5,)))
    flat, _ = shaped(program)
    assert len(flat.statements) == statements
    assert_same_values(program, flat)


def test_a_part_of_a_cache_is_joined_with_new_rows_where_it_lies():
    """As the keys of one layer, which are a part of those of all layers."""
    text = "T[h,j,k] = P[1,h,j,k]\n"
    text += "O[h,j:9,k] = T.pad(0,(0,1),0)[h,j,k] + N.pad(0,(8,0),0)[h,j-8,k]"
    program = as_program(ea.parse(text, P=(2, 3, 8, 4), N=(3, 1, 4)))
    flat, _ = shaped(program)
    assert len(flat.statements) == 1
    assert_same_values(program, flat)


@pytest.mark.parametrize(
    ("order", "statements"),
    [
        ("i:3, j:40, k:5", 2),  # the sum over all j at each j
        ("i:3, k:5, j:40", 1),
        ("k:5, i:3, j:40", 1),
        ("j:40, i:3, k:5", 2),
        ("i:3, j:1, k:5", 1),
    ],
)
def test_sums_are_not_made_a_part_of_what_would_compute_them_again(order, statements):
    text = f"m[i:3, k:5] = Sum[r:40](x[i, r, k]**2 + 1)/40\nO[{order}] = x[i, j, k] - m[i, k]"
    program = as_program(ea.parse(text, x=(3, 40, 5)))
    after = with_epilogues(program)
    assert_same_values(program, after)
    assert len(after.statements) == statements


@pytest.mark.parametrize(
    ("element", "total", "statements"),
    [
        ("exp(x[i, j] - m[i])", "exp(x[i, r] - m[i])", 1),
        ("2*tanh(x[i, j])", "tanh(x[i, r])*x[i, r]", 1),
        ("exp(x[i, j] - m[i])", "exp(x[i, r] + m[i])", 2),
        ("exp(x[i, j] - m[i])", "x[i, r]**2", 2),
        ("x[i, j]", "exp(x[i, r])", 2),
        ("exp(x[i, 99 - j])", "exp(x[i, r])", 2),
    ],
)
def test_long_sums_of_a_function_that_their_reader_computes_are_a_part_of_it(
    element, total, statements
):
    text = f"s[i] = Sum[r]({total})\nO[i, j:100] = {element}/s[i]"
    shapes = {"x": (3, 100)}
    if "m[" in text:
        shapes["m"] = (3,)
    program = as_program(ea.parse(text, **shapes))
    after = with_epilogues(program)
    assert_same_values(program, after)
    assert len(after.statements) == statements


@pytest.mark.parametrize(
    ("order", "statements"), [("n:3, h:7, c:8", 2), ("n:3, c:8, h:7", 1), ("c:8, n:3, h:7", 1)]
)
def test_functions_are_not_computed_at_every_point_that_reads_them(order, statements):
    program = as_program(
        ea.parse(
            f"s[n:3, c:8] = exp(-z[n, c])\nO[{order}] = x[n, h, c]*s[n, c]", x=(3, 7, 8), z=(3, 8)
        )
    )
    after, _ = shaped(program)
    assert_same_values(program, after)
    assert len(after.statements) == statements


def test_what_is_computed_for_every_example_is_fused_where_it_is_read_often():
    program = as_program(
        ea.parse("s[c:8] = exp(v[c])\nO[n:3, c:8, h:7] = x[n, c, h]*s[c]", x=(3, 8, 7), v=(8,))
    )
    after, _ = shaped(program)
    assert_same_values(program, after)
    assert len(after.statements) == 1


@pytest.mark.parametrize(
    ("reader", "statements"),
    [
        ("O[p:4, h:7, c] = Sum[r:4](W[p, r]*T[h + r, c])", 2),  # rows of all terms
        ("O[h:8, c] = Max[r:3](T[h + r, c])", 2),
        ("O[h:5, c] = Max[r:2](T[2*h + r, c])", 1),  # each element once
        ("O[c, h:8] = Max[r:3](T[h + r, c])", 1),  # rows of what is copied
        ("O[h:7, c:4] = Max[r:4](T[h + r, c])", 1),  # short rows
        ("O[h, c] = T[h, c] + W[0, 0]", 1),
    ],
)
def test_small_sums_read_transposed_copies_in_rows(reader, statements):
    weights = ea.constant("W", np.eye(4).tolist())
    program = as_program(ea.parse(f"T[h, c] = A[c, h]\n{reader}", A=(9, 10), W=weights))
    after, _ = shaped(program)
    assert_same_values(program, after)
    assert len(after.statements) == statements


def test_copies_are_read_where_they_lie_where_products_stay_operators():
    """A transposed matrix is; one whose rows are rolled would be no operand of an operator."""
    for copy, operators in (("A[j, k]", ["matmul"]), ("A[(j + k)%8, k]", ["eop", "matmul"])):
        program = as_program(
            ea.parse(
                f"B[k:8, j:8] = {copy}\nO[i:3, j:8] = Sum[k:8](x[i, k]*B[k, j])", x=(3, 8), A=(8, 8)
            )
        )
        after, _ = shaped(program)
        assert_same_values(program, after)
        assert [kernel.op for kernel in kernels_of(after)] == operators


def test_factors_of_a_batch_norm_are_in_the_weights():
    program, _ = shaped(network())
    flat = folded(program)
    assert_same_values(program, flat)
    known = compile_time_statements(flat)
    running = [s for name, s in flat.statements if name not in known]
    assert (
        len(running) == 4 and len(known) == 4
    )  # for each of the two, scaled weights and what is added
    assert not any(
        x in t for s in running for t in s.tensors for x in ("gamma", "variance", "mean", "beta")
    )


@pytest.mark.parametrize(
    "after",
    [
        "O[i,j] = T[i,j]*s[i]",  # of a row, which the weights do not have
        "O[i,j] = T[i,j]*g[j]*T[i,j]",
        "O[i,j] = Max(T[i,j], 0)*x[j]",  # x is no weight
    ],
)
def test_what_is_no_factor_of_the_weights_stays(after):
    text = f"T[i,j] += A[i,k]*W[k,j]\n{after}"
    tensors = dict(A=(3, 4), W=weight("W", 4, 5), s=weight("s", 3), g=weight("g", 5), x=(5,))
    program = ea.parse(text, **{n: t for n, t in tensors.items() if f"{n}[" in text})
    flat = folded(program)
    assert_same_values(program, flat)
    assert flat["O"].body == program["O"].body


@pytest.mark.parametrize(("order", "count"), [("b,i,j", 1), ("b,j,i", 2)])
@pytest.mark.parametrize("sum_of_terms", ["Sum[s:5](A[b,i,j+s])", "Max[s:5](2*A[b,i,2*j+s])"])
def test_windows_stay_where_rows_would_become_columns(order, count, sum_of_terms):
    """Of each window one element is a column for a reader that exchanges axes, and not all."""
    text = f"T[b:2,i:6,j:8] = {sum_of_terms}\nO[{order}] = T[b,i,j]/5"
    program = with_epilogues(as_program(ea.parse(text, A=(2, 6, 19))))
    assert len(program.statements) == count
    assert_same_values(ea.parse(text, A=(2, 6, 19)), program)


@pytest.mark.parametrize("order", ["b,i,j", "b,j,i"])
def test_weights_get_no_axes_of_a_factor(order):
    """A scale of the rows of a product, as of channels that a layer mixes places of, would make a
    matrix for each row.
    """
    text = f"T[b,i,j] += A[b,k,i]*W[j,k]\nO[{order}] = s[i]*(T[b,i,j] + g[j]) + A[b,j,i]"
    weights = {"W": weight("W", 4, 4), "s": weight("s", 3), "g": weight("g", 4)}
    program = as_program(ea.parse(text, A=(2, 4, 3), **weights))
    flat = folded(program)
    assert_same_values(program, flat)
    assert flat["T"].tensors["W"].shape == (4, 4)


def test_a_factor_along_an_axis_of_one_element_is_folded():
    text = "T[b,i,j] += A[b,k,i]*W[j,k]\nO[b,i,j] = s[i]*T[b,i,j]*g[j]"
    weights = {"W": weight("W", 4, 4), "s": weight("s", 1), "g": weight("g", 4)}
    program = as_program(ea.parse(text, A=(2, 4, 1), **weights))
    flat = folded(program)
    assert_same_values(program, flat)
    assert not {"s", "g"} & set(flat["O"].tensors)


@pytest.mark.parametrize("order", ["i,j", "j,i"])
def test_what_depends_on_weights_alone_is_computed_once(order):
    """It is no part of what reads it, whichever axis comes first."""
    text = "s[j] = g[j]*exp(v[j])\nT[i,j] += A[i,k]*W[k,j]\nO[ORDER] = Max(T[i,j] + s[j], 0)"
    tensors = {name: weight(name, 4) for name in "gv"}
    read = ea.parse(text.replace("ORDER", order), A=(3, 4), W=weight("W", 4, 4), **tensors)
    program = with_epilogues(as_program(read))
    assert_same_values(read, program)
    (reader,) = [scope for name, scope in program.statements if name == "O"]
    assert "s" in reader.tensors and not {"g", "v"} & set(reader.tensors)


@pytest.mark.parametrize(
    "gate",
    [
        "N[i,j]/(1 + exp(-N[i,j]))",  # SiLU
        "N[i,j]*Min(Max(N[i,j] + 3, 0), 6)/6",  # hard swish
        "N[i,j]*(1 + erf(N[i,j]/sqrt(2)))/2",  # GELU
        "N[i,j]*tanh(log(1 + exp(N[i,j])))",  # Mish
        "Max(N[i,j], 0) - 2*Max(-N[i,j], 0)",  # of two slopes
        "Max(-3*N[i,j], 0)",
        "Max(N[i,j], A[i,j]*N[i,j])",
    ],
)
def test_a_factor_is_folded_where_an_activation_reads_it_several_times(gate):
    text = f"T[i,j] += A[i,k]*W[k,j]\nN[i,j] = g[j]*(T[i,j] - m[j]) + b[j]\nO[i,j] = {gate}"
    tensors = {name: weight(name, 4) for name in "gmb"}
    program, _ = shaped(as_program(ea.parse(text, A=(3, 4), W=weight("W", 4, 4), **tensors)))
    flat = folded(program)
    assert_same_values(program, flat)
    known = compile_time_statements(flat)
    running = [scope for name, scope in flat.statements if name not in known]
    assert len(running) == 2 and not any({"g", "m", "W"} & set(s.tensors) for s in running)
    assert kernels_of(flat)[flat.names.index("T")].op == "matmul"


def test_parts_whose_factors_differ_stay():
    text = "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(g[j]*T[i,j], 0) + Max(s[j]*T[i,j] + 1, 0)"
    tensors = {name: weight(name, 4) for name in "gs"}
    program = ea.parse(text, A=(3, 4), W=weight("W", 4, 4), **tensors)
    assert folded(program) is program


def test_a_factor_goes_through_sums_and_products():
    program = ea.parse(
        "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(g[j]*(T[i,j] - m[j])/2 + b[j] + A[i,j], 0)",
        A=(3, 4), W=weight("W", 4, 4), g=weight("g", 4), m=weight("m", 4), b=weight("b", 4),
    )  # fmt: skip
    flat = folded(program)
    assert_same_values(program, flat)
    assert ea.prove(program, flat).verdict == "proved"
    assert (
        not any(
            name == "g" and "W" not in dict(flat.statements)["T"].tensors
            for name in flat["T"].tensors
        )
        and "W" not in flat["T"].tensors
    )


def test_a_mask_that_is_computed_is_asked():
    """What a statement of truths says went lost where it was fused with the statement that asks for
    it: `where` was its first operand.
    """
    text = "m[i:2, j:9] = Ne(p[j], 0) & Ne(q[i, j], 0)\nO[i:2, j:9] = Piecewise((x[i, j], Ne(m[i, j], 0)), (-1, True))"
    program = as_program(ea.parse(text, p=weight("p", 9), q=(2, 9), x=(2, 9)))
    after, moves = shaped(program)
    assert moves and len(after.statements) == 1 and {"p", "q", "x"} == set(after.inputs)
    assert_same_values(program, after)


def test_what_is_no_longer_read_is_not_given():
    """A mask and its opposite leave nothing of what they choose: the network still takes, and
    checks, what a call gives.
    """
    text = "m[i:5] = Ne(q[i], 0)\nn[i:5] = Eq(q[i], 0)\nO[i:5] = Piecewise((x[i] + w[i], Ne(m[i], 0) & Ne(n[i], 0)), (y[i], True))"
    program = as_program(ea.parse(text, w=weight("w", 5), q=(5,), x=(5,), y=(5,)))
    arrays = {name: np.arange(5.0, dtype=np.float32) for name in program.inputs}
    optimized = ea.optimize(program, arrays, seconds=2)
    np.testing.assert_array_equal(
        optimized(*(arrays[name] for name in program.inputs if name != "w")), arrays["y"]
    )


@pytest.mark.parametrize(
    "layer",
    [
        lambda: ops.conv2d(ea.tensor("A", (1, 4, 6, 5)), weight("W", 4, 4, 3, 3), padding=1),
        lambda: ops.conv_transpose2d(
            ea.tensor("A", (1, 4, 6, 5)), weight("W", 4, 4, 4, 4), stride=2, padding=1
        ),
        lambda: ops.conv_transpose2d(
            ea.tensor("A", (1, 4, 6, 5)), weight("W", 4, 4, 3, 3), stride=(2, 1)
        ),
        lambda: ops.conv2d(ea.tensor("A", (1, 4, 6, 5)), weight("W", 4, 1, 3, 3), groups=4),
    ],
)
def test_every_sum_is_alone_though_time_is_over(layer):
    """What stands around it, a bias say, would hide the operator that it is."""
    alone = layer()
    bias = ea.tensor("b", (alone.shape[1],), role="weight")
    body = sympy.Max(alone.body + bias[alone.indices[1]], 0)
    program = as_program(Scope(alone.iterators, alone.where, body))
    flat, moves = shaped(program, lambda: True)
    assert [move.rule for move in moves] == ["summation splitting"]
    before, after = kernels_of(as_program(alone))[0], kernels_of(flat)[0]
    assert after.op == before.op and len(flat.statements) == 2
    assert_same_values(program, flat)


def test_a_factor_is_folded_that_is_computed_after_its_layer():
    text = "T[i,j] += A[i,k]*W[k,j]\nE[j] = exp(g[j])\nO[i,j] = T[i,j]*E[j]"
    program = as_program(ea.parse(text, A=(3, 4), W=weight("W", 4, 5), g=weight("g", 5)))
    flat = folded(program)
    assert flat is not program and flat.names.index("E") < flat.names.index("T")
    assert_same_values(program, flat)


def test_folding_looks_at_two_statements_however_many_there_are(monkeypatch):
    programs = []

    def counted(program, used=()):
        programs.append(len(program.statements))
        return lifted(program, used)

    monkeypatch.setattr(weight_folding, "lifted", counted)
    program = shaped(network(layers=5))[0]
    assert_same_values(program, folded(program))
    assert len(programs) > 3 and set(programs) == {2}


def test_two_layers_whose_sum_is_scaled_both_get_factors():
    text = """
    P[i,j] += A[i,k]*W[k,j]
    Q[i,j] += A[i,k]*V[k,j]
    O[i,j] = s[j]*P[i,j] + t[j]*Q[i,j] + u[j]
    """
    tensors = {"W": (5, 3), "V": (5, 3), "s": (3,), "t": (3,), "u": (3,)}
    weights = {name: weight(name, *shape) for name, shape in tensors.items()}
    program = ea.parse(text, A=(4, 5), **weights)
    after = folded(program)
    assert_same_values(program, after)
    assert len(after["O"].tensors) < len(program["O"].tensors)
    assert len(compile_time_statements(after)) >= 2


@pytest.mark.parametrize(
    ("text", "ops_of_sums"),
    [
        ("O[e,k] += W[k,i,j]*A[e,i]*B[e,j]", ["matmul", "matmul"]),  # bilinear
        ("O[e,k] = b[k] + Sum[i:6,j:7](W[k,i,j]*A[e,i]*B[e,j])", ["matmul", "matmul"]),
        ("O[e] += A[e,i]*V[i,j]*B[e,j]", ["matmul", "matmul"]),  # a form of two vectors
        ("O[e,j] += A[e,i]*V[i,j]", ["matmul"]),
        ("O[e,i,j] = A[e,i]*B[e,j]*c[e]", []),
    ],
)
def test_products_of_many_factors_are_operators_of_two(text, ops_of_sums):
    shapes = {"W": (5, 6, 7), "A": (9, 6), "B": (9, 7), "V": (6, 7), "b": (5,), "c": (9,)}
    used = {name: shape for name, shape in shapes.items() if f"{name}[" in text}
    program = as_program(ea.parse(text, **used))
    flat, _ = shaped(program)
    assert_same_values(program, flat)
    sums = [kernel.op for kernel in kernels_of(flat) if kernel.op != "eop"]
    assert sums == ops_of_sums


@pytest.mark.parametrize(
    ("role", "text", "statements"),
    [
        ("weight", "T[i,j] = W[j,i]\nO[n:9,i,j] = A[n,i,j] + T[i,j]", 2),  # columns as rows
        ("weight", "T[i,j] = W[3-j,i]\nO[n:9,i:6,j:4] = A[n,i,j] + T[i,j]", 2),
        ("weight", "T[i,j] = W[i,j]\nO[n:9,i,j] = A[n,j,i] + T[i,j]", 1),  # rows as they are
        ("weight", "T[i] = W[i,2]\nO[n:9,i:6,j:4] = A[n,i,j] + T[i%4]", 1),  # one for a row
        ("input", "T[i,j] = W[j,i]\nO[n:9,i,j] = A[n,i,j] + T[i,j]", 1),  # in each run
    ],
)
def test_a_copy_of_weights_stays_whose_rows_are_columns_of_these(role, text, statements):
    program = ea.parse(text, A=(9, 6, 4), W=ea.tensor("W", (4, 6), role=role))
    assert_same_values(program, shaped(program)[0])
    assert len(shaped(program)[0].statements) == statements


def test_a_copy_of_a_column_is_none_of_rows():
    text = "T[i] = W[i,0]\nO[n:9,i,j] = A[n,i,j] + T[j]"
    program = ea.parse(text, A=(9, 6, 4), W=ea.tensor("W", (4, 1), role="weight"))
    assert_same_values(program, shaped(program)[0])
    assert len(shaped(program)[0].statements) == 1


def test_statements_that_read_the_one_before_twice_do_not_multiply() -> None:
    """As one statement, the last of thirty would have the first in it 2^30 times."""
    lines = ["T0[i] = A[i]/2"]
    lines += [f"T{k + 1}[i] = 2*T{k}[i]*(1 - T{k}[i])" for k in range(30)]
    program, _ = shaped(as_program(ea.parse("\n".join(lines), A=(8,))))
    assert 4 < len(program.statements) < 16
    assert max(len(str(scope)) for _, scope in program.statements) < 4000
    few, _ = shaped(as_program(ea.parse("\n".join(lines[:4]), A=(8,))))
    assert len(few.statements) == 1
