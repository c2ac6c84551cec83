"""Text that both doors read, LaTeX as the paper writes it, trees, transcripts."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import given

import einalg as ea
from einalg.display.mathml import attach_to_expressions
from einalg.language.ir.printing.latex import latex
from einalg.language.ir.printing.text import text
from einalg.language.ir.printing.tree import tree
from einalg.language.ir.traversal import reductions
from einalg.language.notation.builders import as_body
from einalg.testing import strategies

i, j, k = ea.indices("i j k")
TENSORS = {name: ea.tensor(name, (8,)) for name in "ABCD"}
a, b, c, d = (tensor[i] for tensor in TENSORS.values())
half, third = sympy.Rational(1, 2), sympy.Rational(1, 3)
BODIES = [
    a, -a, a + b, a - b, b - a, -a - b, a * b, -a * b, 2 * a, a / 3, 2 * a / 3, -2 * a / 3, a / b, -a / b, 2 / a, 1 / (a * b), 1 / (a + b),
    -1 / (a + b), 2 / (a + b) / c, a / (b * c), a / b / c, -(a * b) / (c * d), a - (b + 1) * (c + d), a - 1 - b, a * (-b - c), (-a - b) / c,
    (a + b) ** 2 / 3, 2 * ((a + b) * (c + d)), -((a + b) * (c + d)), third * ((a + b) * (c + d)), -2 * ((a + b) * (c + d)) / 3, 2 / c * (a + b),
    -1 / c * (a + b), -2 * (a + b) * sympy.sqrt(c) ** 3 / (3 * c * d**2), (a + b) / c, (a + b) / (3 * c), (a + b) * (c + d), 2 * a * (b + c),
    a * (b + c) / 2, ((a + b) * (c + d)) ** 2, 1 / ((a + b) * (c + d)), a * (b + c) * (c + d) * 5, 0.5 * a * (b + c), -0.5 * ((a + b) * (c + d)),
    a**2, a**-2, -(a**2), (-a) ** 3, a**b, a**-b, 2**-a, (a + b) ** -c, (a * b) ** c, (a**b) ** c, a ** (b**c), a**half, a**-half,
    a ** (third * -2), sympy.sqrt(2) * a / 2, sympy.sqrt(2) * (a + b), sympy.sqrt(a + b), 1 / sympy.sqrt(a + 1), 3 * 2**a, -(2**a), (-2) ** a,
    sympy.Integer(0), sympy.Integer(-3), sympy.Rational(5, 7), sympy.Rational(-5, 7) * a * (b + 1), sympy.pi, sympy.E * a,
    sympy.exp(a) * sympy.E, 0.1 * a, 1e-30 * a, 1e300 * a, -1.5e-30 * a, sympy.Float(0.1), a + 0.30000000000000004, a + sympy.oo * b,
    -sympy.oo * a, ea.Max(a, -sympy.oo) + 0.0, sympy.exp(-(a**2) / 2), sympy.tanh(sympy.sqrt(2 / sympy.pi) * (a + 0.044715 * a**3)),
    half * a * (1 + sympy.erf(a / sympy.sqrt(2))), ea.Max(a, 0) * ea.Min(b, 1), ea.Max(a, 2 * b, -c), sympy.Abs(a - b), sympy.sign(-a),
    sympy.floor(a / 2), sympy.ceiling(2 * a), sympy.Mod(a, 3), sympy.Mod(a + 1, b), sympy.atan2(a, b), sympy.log(a) / sympy.log(2),
    sympy.gamma(a) / sympy.erfc(b), i, -i, i * j, i * a, 2 * i * a, (i + 1) * a, 2 * (i + 1) * a, (2 * i + 2) * (j - 1) * a, -(i + 1) * a,
    i // 2, -(i // 2), a * (i // 2), -(i // 2) * a, -2 * (i % 3) * a, ((-i) // 2) * a, (i // 2) ** 2, 2 ** (i // 2), a ** (i % 2),
    a + 2 * i + j // 2 - 3, i - a, -i - a, i / 2, i / (j + 1), 1 / (2 * i + 1), sympy.Abs(2 * i - 3), ea.Max(i - j, 0), (i + j) // 3 * 3, a > b,
    sympy.Eq(a, b), sympy.Ne(i, 3), sympy.And(a > 0, i < 3), sympy.Or(a > 0, i < 3, j >= 2), sympy.Not(sympy.And(a > 0, i < 3)),
    sympy.And(sympy.Or(a > 0, b > 0), c > 0), sympy.Piecewise((a, a > 0), (b, (i > j) | (b > 0)), (0, True)),
    sympy.Piecewise((a, sympy.Eq(i % 2, 0))), 2 * sympy.Piecewise((a, i > 2 * j + 1), (0, True)) + 1, sympy.true, sympy.false,
    ea.Sum[k:3](a * k), -ea.Sum[k:3](a), 2 * ea.Max[k:3](a + k), ea.Sum[k:3](a) ** 2, 1 / ea.Sum[k:3](a), ea.Sum[k:3](a, where=k <= i) - 1,
    ea.Sum[k:3](ea.Max[j:1:2](a)), ea.Prod[k:-2:3](a + ea.Sum[j:0](b)), ea.Sum[()](a), ea.Sum[k:3](a > k),
]  # fmt: skip


def scope_of(body: Any) -> Any:
    """The body over i and j, as far as it does not bind them itself."""
    bound = {index for r in reductions(as_body(body)) for index in r.indices}
    return ea.L[tuple(slice(index, 8) for index in (i, j) if index not in bound)](body)


PYTHON = {**TENSORS, "i": i, "j": j, "k": k, "inf": sympy.oo}
PYTHON |= {
    name: getattr(sympy, name)
    for name in (
        "exp",
        "sqrt",
        "tanh",
        "erf",
        "erfc",
        "gamma",
        "Abs",
        "sign",
        "floor",
        "ceiling",
        "Mod",
        "atan2",
        "log",
        "pi",
        "E",
    )
}
PYTHON |= {name: getattr(sympy, name) for name in ("Eq", "Ne", "Piecewise")} | {
    name: getattr(ea, name) for name in ("L", "Sum", "Prod", "Max", "Min")
}


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_text_is_read_back(body: Any) -> None:
    scope = scope_of(body)
    assert ea.parse(str(scope), **TENSORS) == scope


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_text_is_python(body: Any) -> None:
    """Both doors read the text as the same expression; Python rounds a fraction that stands alone."""
    scope = scope_of(body)
    found = eval(str(scope), dict(PYTHON))
    standing_alone = [
        n
        for n in sympy.preorder_traversal(scope.body)
        if isinstance(n, sympy.Rational) and not n.is_Integer
    ]
    assert found == scope or standing_alone


@given(strategies.programs(functions=True, truths=True))
def test_printing_never_raises_and_says_something(program: Any) -> None:
    for shown in (str(program), repr(program), program._repr_latex_(), program.tree()):
        assert shown.strip() and "object at 0x" not in shown
    for _, scope in program:
        assert all(
            shown.strip()
            for shown in (
                str(scope),
                latex(scope),
                scope._repr_latex_(),
                tree(scope),
                text(scope.body),
            )
        )


def test_expressions_and_programs_offer_latex_beside_html() -> None:
    """JupyterLab shows the HTML, other front ends the LaTeX."""
    attach_to_expressions()
    scope = ea.L[i](a)
    for shown in (scope, ea.parse("T[i] = A[i]\nO[i] = T[i]", A=(3,))):
        assert shown._repr_latex_().startswith(
            "$\\displaystyle "
        ) and shown._repr_latex_().endswith("$")
        assert shown._repr_html_().count("<math") >= 1


PAPER = [
    (
        "O[n,h,w,f] += A.pad(0,1,1,0)[n,h+r-1,w+s-1,c] * K[r,s,f,c]",
        {"A": (8, 9, 9, 4), "K": (3, 3, 5, 4)},
        r"\mathop{L}_{n, h, w, f}\ \sum_{r, s, c} A^{\mathrm{pad}}[n, h+r-1, s+w-1, c]\ "
        r"K[r, s, f, c]",
    ),
    (
        "O[i,j] += A[i,k]*B[k,j]",
        {"A": (4, 5), "B": (5, 6)},
        r"\mathop{L}_{i, j}\ \sum_{k} A[i, k]\ B[k, j]",
    ),
    (
        "O[h] += A[2*h+r]*K[r]",
        {"A": (9,), "K": (3,)},
        r"\mathop{L}_{h=0..3}\ \sum_{r} A[2h+r]\ K[r]",
    ),
    ("O[h:3] = A[h]", {"A": (9,)}, r"\mathop{L}_{h=0..2}\ A[h]"),
    ("O[t:-1:8] = A.pad(1)[t]", {"A": (9,)}, r"\mathop{L}_{t=-1..7}\ A^{\mathrm{pad}}[t]"),
    ("O[t] = A[t]", {"A": ((-1, 4),)}, r"\mathop{L}_{t=-1..3}\ A[t]"),
    (
        "O[h] += (L[t:-1:8,r](A.pad(1)[t]*K[r]))[h+r-1,r]",
        {"A": (7,), "K": (3,)},
        r"\mathop{L}_{h=0..6}\ \sum_{r} \left\{\mathop{L}_{t=-1..7, r}\ "
        r"A^{\mathrm{pad}}[t]\ K[r]\right\}[h+r-1, r]",
    ),
    (
        "O[h] = (L[t](A[t])).pad(1)[h-1]*2",
        {"A": (7,)},
        r"\mathop{L}_{h=0..8}\ 2\ \left\{\mathop{L}_{t}\ A[t]\right\}^{\mathrm{pad}}[h-1]",
    ),
    (
        "O[i] = Max[j](A.pad(0, 1, fill=-inf)[i,j])",
        {"A": (3, 4)},
        r"\mathop{L}_{i}\ \max_{j} A^{\mathrm{pad}\,-\infty}[i, j]",
    ),
    (
        "O[i] = A.pad(1, fill=2).pad(1, fill=3)[i]",
        {"A": (3,)},
        r"\mathop{L}_{i}\ {A^{\mathrm{pad}\,2}}^{\mathrm{pad}\,3}[i]",
    ),
    (
        "O = L[i,j](A[i,j], where=(j <= i, Eq(i%2, 0)))",
        {"A": (3, 4)},
        r"\mathop{L}_{i, j,\ i \ge j,\ i \bmod 2 = 0}\ A[i, j]",
    ),
    (
        "O[i] = Sum[j](A[i,j], where=j <= 2)",
        {"A": (3, 4)},
        r"\mathop{L}_{i}\ \sum_{j,\ j \le 2} A[i, j]",
    ),
    (
        "O[i] = Sum[j](A[i,j] + 1) + 3",
        {"A": (3, 4)},
        r"\mathop{L}_{i}\ \sum_{j} \left(A[i, j] + 1\right) + 3",
    ),
    (
        "O[i,j] = exp(weight_1[i,j])/2",
        {"weight_1": (3, 4)},
        r"\mathop{L}_{i, j}\ \frac{e^{\mathrm{weight\_1}[i, j]}}{2}",
    ),
    (
        "O[i:7] = A[i//2, i%4]",
        {"A": (4, 4)},
        r"\mathop{L}_{i=0..6}\ A[\lfloor i / 2 \rfloor, i \bmod 4]",
    ),
    (
        "O[i:7] = A[(i+1)//2, 2*(i//4)+1]",
        {"A": (4, 4)},
        r"\mathop{L}_{i=0..6}\ A[\lfloor (i+1) / 2 \rfloor, 2\lfloor i / 4 \rfloor+1]",
    ),
    ("O[alpha] = A[alpha]", {"A": (4,)}, r"\mathop{L}_{\alpha}\ A[\alpha]"),
    ("O[i] = Sum[k](A[k])*A[i]", {"A": (4,)}, r"\mathop{L}_{i}\ A[i]\ \sum_{k} A[k]"),
    (
        "O[i] = A[i]*Sum[k](A[k])*Max[k](A[k])",
        {"A": (4,)},
        r"\mathop{L}_{i}\ A[i]\ \left(\max_{k} A[k]\right)\ \sum_{k} A[k]",
    ),
    (
        "O[i] = A[i] - Sum[k](A[k])**2",
        {"A": (4,)},
        r"\mathop{L}_{i}\ A[i] - \left(\sum_{k} A[k]\right)^{2}",
    ),
    (
        "O[i] = A[i]*(i%2) + i%3",
        {"A": (4,)},
        r"\mathop{L}_{i}\ A[i]\ \left(i \bmod 2\right) + \left(i \bmod 3\right)",
    ),
    ("O[()] = A[0]", {"A": (4,)}, r"\mathop{L}_{}\ A[0]"),
]


@pytest.mark.parametrize("source, tensors, expected", PAPER, ids=[case[0] for case in PAPER])
def test_latex_is_the_papers(source: str, tensors: Any, expected: str) -> None:
    scope = ea.parse(source, **{name: ea.tensor(name, shape) for name, shape in tensors.items()})
    assert latex(scope) == expected
    assert scope._repr_latex_() == rf"$\displaystyle {expected}$"


def test_latex_of_a_program() -> None:
    program = ea.parse("T[i] += A[i,j]\nO[i] = T[i] + 1", A=(3, 4))
    expected = r"\begin{aligned}T &= \mathop{L}_{i}\ \sum_{j} A[i, j]\\O &= \mathop{L}_{i}\ T[i] + 1\end{aligned}"
    assert program._repr_latex_() == rf"$\displaystyle {expected}$"


def test_tree() -> None:
    scope = ea.parse(
        "O[h] += (L[t:-1:8,r](A.pad(1)[t]*K[r])).pad(1,0)[h+r-2,r] - 2", A=(7,), K=(3,)
    )
    assert scope.tree().split("\n") == [
        "L[h:9]",
        "  Sum[r:3]",
        "    Add",
        "      [h + r - 2, r] of .pad(1, 0)",
        "        L[t:-1:8, r:3]",
        "          Mul",
        "            A.pad(1)[t]",
        "            K[r]",
        "      -2",
    ]
    assert (
        ea.parse("T[i] = A[i]\nO[i] = T[i]", A=(7,)).tree()
        == "T =\nL[i:7]\n  A[i]\nO =\nL[i:7]\n  T[i]"
    )
    assert ea.parse("O = L[i](A[i], where=i >= 2)", A=(7,)).tree() == "L[i:7] where i >= 2\n  A[i]"


TRANSCRIPTS = {
    "convolution": (
        "O[n,f,h,w] += A.pad(0,0,1,(2,1))[n,c,h+r-1,w+s-2] * K[f,c,r,s]",
        {"A": (1, 3, 5, 7), "K": (2, 3, 3, 4)},
    ),
    "transposed_convolution": (
        "O = L[h:9](Sum[r:3, x:4](A[x]*K[r], where=Eq(2*x + r, h)))",
        {"A": (4,), "K": (3,)},
    ),
    "softmax": (
        "M[i] = Max[j](S[i,j])\nE[i,j] = exp(S[i,j] - M[i])\nO[i,j] = E[i,j] / Sum[k](E[i,k])",
        {"S": (3, 5)},
    ),
    "layer_norm": (
        "M[i] = Sum[j](X[i,j])/8\nV[i] = Sum[j]((X[i,j] - M[i])**2)/8\nO[i,j] = "
        "G[j]*(X[i,j] - M[i])/sqrt(V[i] + 1e-05) + B[j]",
        {"X": (2, 8), "G": (8,), "B": (8,)},
    ),
    "gelu": ("O[i] = 0.5*X[i]*(1 + tanh(sqrt(2/pi)*(X[i] + 0.044715*X[i]**3)))", {"X": (5,)}),
    "max_pool": ("O[h,w] = Max[r:3, s:3](A.pad(1, 1, fill=-inf)[2*h+r-1, 2*w+s-1])", {"A": (7, 9)}),
    "banded_attention": (
        "P[i,w:5] += Q[i,d]*K.pad(2,0)[i+w-2,d]\nO[i,d] += P[i,w]*V.pad(2,0)[i+w-2,d]",
        {"Q": (6, 3), "K": (6, 3), "V": (6, 3)},
    ),
    "blocked_transpose": ("O[x:12] = (L[p:3, q:4](A[4*p + q]))[x%3, x//3]", {"A": (12,)}),
    "triangle": (
        "O = L[i,j](A[i,j] + (L[t](B[t])).pad(1)[i-j], where=(j <= i, i - j <= 2))",
        {"A": (4, 4), "B": (3,)},
    ),
}


@pytest.mark.parametrize("name", sorted(TRANSCRIPTS))
def test_transcript(name: str, golden: Any) -> None:
    source, shapes = TRANSCRIPTS[name]
    expression = ea.parse(source, **shapes)
    parts = {
        "given": source,
        "text": str(expression),
        "LaTeX": expression._repr_latex_(),
        "tree": expression.tree(),
    }
    golden(
        f"printing/{name}.txt",
        "\n\n".join(f"--- {title}\n{shown}" for title, shown in parts.items()),
    )
