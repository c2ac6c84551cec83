"""Everyday laws that were written after the other tables: rounding, signs, activations, statistics,
sums over triangles; and pairs that only look like laws.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import einalg as ea
from tests.helpers.laws.law import law_of_row

SHAPES: Mapping[str, Any] = {
    "x": (7,),
    "y": (7,),
    "z": (7,),
    "w": (7,),
    "s": (),
    "t": (),
    "A": (5, 7),
    "B": (7, 6),
    "C": (5, 7),
    "S": (7, 7),
    "X": (12,),
    "Y": (12,),
    "M3": (3, 4, 5),
    "L": (30,),
    "q": (4, 3),
    "k": (6, 3),
    "v": (6, 2),
    "g": (16,),
    "n": ea.tensor("n", (7,), "i32"),
    "m": ea.tensor("m", (7,), "i32"),
}
ROUNDING_AND_INTEGERS = [
    ("floor doubles", "O[i] = floor(2*x[i])", "O[i] = floor(x[i]) + floor(x[i] + 1/2)"),
    (
        "Hermite 3",
        "O[i] = floor(3*x[i])",
        "O[i] = floor(x[i]) + floor(x[i] + 1/3) + floor(x[i] + 2/3)",
    ),
    ("Hermite sum 5", "O[i] = floor(5*x[i])", "O[i] = Sum[k:5](floor(x[i] + k/5))"),
    ("floor of integer shift", "O[i] = floor(x[i] + 3) - 3", "O[i] = floor(x[i])"),
    ("floor + ceil", "O[i] = ceiling(x[i]) + floor(-x[i])", "O[i:7] = 0"),
    ("floor idempotent", "T[i] = floor(x[i])\nO[i] = floor(T[i])", "O[i] = floor(x[i])"),
    (
        "a fraction is below 1",
        "O[i] = Piecewise((1, x[i] - floor(x[i]) < 1), (0, True))",
        "O[i:7] = 1",
    ),
    (
        "a fraction is not negative",
        "O[i] = Max(x[i] - floor(x[i]), 0)",
        "O[i] = x[i] - floor(x[i])",
    ),
    ("floor below x", "O[i] = Max(floor(x[i]), x[i])", "O[i] = x[i]"),
    (
        "ceil minus floor is 0 or 1",
        "O[i] = Min(ceiling(x[i]) - floor(x[i]), 1)",
        "O[i] = ceiling(x[i]) - floor(x[i])",
    ),
    ("round half up", "O[i] = floor(x[i] + 1/2)", "O[i] = ceiling(floor(2*x[i])/2)"),
    (
        "floor comparison",
        "O[i] = Piecewise((1, floor(x[i]) >= 2), (0, True))",
        "O[i] = Piecewise((1, x[i] >= 2), (0, True))",
    ),
    ("floor of halves of integer", "O[i] = n[i]", "O[i] = floor(n[i]/2) + ceiling(n[i]/2)"),
    ("integer parity", "O[i] = Mod(n[i], 2)", "O[i] = n[i] - 2*floor(n[i]/2)"),
    ("mod shifts", "O[i] = Mod(n[i] + 6, 3)", "O[i] = Mod(n[i], 3)"),
    ("mod of multiple", "O[i] = Mod(Mod(n[i], 6), 3)", "O[i] = Mod(n[i], 3)"),
    ("mod below", "O[i] = Min(Mod(n[i], 5), 4)", "O[i] = Mod(n[i], 5)"),
    ("mod scale", "O[i] = Mod(4*x[i], 4)", "O[i] = 4*Mod(x[i], 1)"),
    ("mod of sum", "O[i] = Mod(Mod(n[i], 4) + Mod(m[i], 4), 4)", "O[i] = Mod(n[i] + m[i], 4)"),
    (
        "floor of a sum bound",
        "O[i] = Max(floor(x[i]) + floor(y[i]), floor(x[i] + y[i]))",
        "O[i] = floor(x[i] + y[i])",
    ),
    (
        "floor triple with shifts",
        "O[i] = floor(x[i]/2) + floor((x[i] + 1)/2)",
        "O[i] = floor(x[i])",
    ),
    (
        "thirds",
        "O[i] = floor(x[i]/3) + floor((x[i] + 1)/3) + floor((x[i] + 2)/3)",
        "O[i] = floor(x[i])",
    ),
    ("ceil by floor of integers", "O[i] = ceiling(n[i]/4)", "O[i] = floor((n[i] + 3)/4)"),
    ("ceil doubles", "O[i] = ceiling(2*x[i])", "O[i] = ceiling(x[i]) + ceiling(x[i] - 1/2)"),
    (
        "rounding towards 0",
        "O[i] = sign(x[i])*floor(Abs(x[i]))",
        "O[i] = Piecewise((floor(x[i]), x[i] >= 0), (ceiling(x[i]), True))",
    ),
    (
        "rounding towards 0 by parts",
        "O[i] = Max(floor(x[i]), 0) + Min(ceiling(x[i]), 0)",
        "O[i] = sign(x[i])*floor(Abs(x[i]))",
    ),
    (
        "fraction of a fraction",
        "T[i] = x[i] - floor(x[i])\nO[i] = T[i] - floor(T[i])",
        "O[i] = x[i] - floor(x[i])",
    ),
    (
        "fractions of opposites",
        "O[i] = (x[i] - floor(x[i])) + (-x[i] - floor(-x[i]))",
        "O[i] = Piecewise((0, Eq(x[i], floor(x[i]))), (1, True))",
    ),
    (
        "distance to nearest",
        "T[i] = x[i] - floor(x[i])\nO[i] = Min(T[i], 1 - T[i])",
        "O[i] = Abs(x[i] - floor(x[i] + 1/2))",
    ),
    (
        "triangle wave",
        "T[i] = x[i] - floor(x[i])\nO[i] = 1 - Abs(1 - 2*T[i])",
        "T[i] = x[i] - floor(x[i])\nO[i] = 2*Min(T[i], 1 - T[i])",
    ),
    ("floor quantise symmetric", "O[i] = floor(-x[i] + 1/2)", "O[i] = -ceiling(x[i] - 1/2)"),
    (
        "quantised clamp",
        "O[i] = Min(Max(floor(x[i]), -128), 127)",
        "O[i] = floor(Min(Max(x[i], -128), 127))",
    ),
    ("parity sum", "O[i] = Mod(n[i], 2) + Mod(n[i] + 1, 2)", "O[i:7] = 1"),
    ("product of consecutive is even", "O[i] = Mod(n[i]*(n[i] + 1), 2)", "O[i:7] = 0*x[i]"),
    ("square mod 4", "O[i] = Mod(n[i]**2, 4)", "O[i] = Mod(n[i], 2)"),
    ("mod of sum 3", "O[i] = Mod(n[i] + m[i], 3)", "O[i] = Mod(Mod(n[i], 3) + m[i], 3)"),
    ("mod of product", "O[i] = Mod(n[i]*m[i], 3)", "O[i] = Mod(Mod(n[i], 3)*Mod(m[i], 3), 3)"),
    ("div chain", "O[i] = floor(floor(x[i]/2)/3)", "O[i] = floor(x[i]/6)"),
    ("mod of quotient", "O[i] = Mod(floor(n[i]/2), 3)", "O[i] = floor(Mod(n[i], 6)/2)"),
    ("last digit", "O[i] = n[i] - 10*floor(n[i]/10)", "O[i] = Mod(Mod(n[i], 20), 10)"),
    ("mod negative", "O[i] = Mod(-n[i], 5)", "O[i] = Mod(5 - Mod(n[i], 5), 5)"),
    (
        "integer strict",
        "O[i] = Piecewise((x[i], n[i] > 2), (0, True))",
        "O[i] = Piecewise((x[i], n[i] >= 3), (0, True))",
    ),
    (
        "integer half",
        "O[i] = Piecewise((x[i], 2*n[i] > 5), (0, True))",
        "O[i] = Piecewise((x[i], n[i] >= 3), (0, True))",
    ),
    (
        "integer equality",
        "O[i] = Piecewise((1, Eq(n[i], m[i])), (0, True))",
        "O[i] = Max(0, 1 - Abs(n[i] - m[i]))",
    ),
    ("sign of integer", "O[i] = sign(n[i])", "O[i] = Min(Max(n[i], -1), 1)"),
    (
        "clip integer range",
        "O[i] = Piecewise((1, (n[i] > 0) & (n[i] < 2)), (0, True))",
        "O[i] = Piecewise((1, Eq(n[i], 1)), (0, True))",
    ),
    (
        "min of integers",
        "O[i] = Min(n[i], m[i])",
        "O[i] = Piecewise((n[i], n[i] < m[i] + 1), (m[i], True))",
    ),
    ("square mod 4 alone", "O[i] = Mod(n[i]**2, 4)*Mod(n[i]**2, 4)", "O[i] = Mod(n[i]**2, 4)"),
    ("cube mod 6", "O[i] = Mod(n[i]**3 - n[i], 6)", "O[i:7] = 0*x[i]"),
    (
        "square of a rounded number modulo 4",
        "O[i] = Mod(floor(x[i])**2, 4)",
        "O[i] = Mod(floor(x[i]), 2)",
    ),
    ("parity of a product", "O[i] = Mod(n[i]*m[i], 2)", "O[i] = Mod(n[i], 2)*Mod(m[i], 2)"),
    (
        "parity of a rounded number",
        "O[i] = Mod(floor(x[i]), 2)",
        "O[i] = floor(x[i]) - 2*floor(x[i]/2)",
    ),
    (
        "rounded numbers of two tensors",
        "O[i] = floor(x[i] + 1/2) + floor(y[i])",
        "O[i] = floor(2*x[i]) - floor(x[i]) - ceiling(-y[i])",
    ),
    (
        "a half that is rounded twice",
        "O[i] = floor((floor(2*x[i]) + 1)/2)",
        "O[i] = floor(x[i] + 1/2)",
    ),
]
SIGNS_AND_CONDITIONS = [
    ("sign product", "O[i] = sign(x[i]*y[i])", "O[i] = sign(x[i])*sign(y[i])"),
    (
        "sign product three",
        "O[i] = sign(x[i]*y[i]*z[i])",
        "O[i] = sign(x[i])*sign(y[i])*sign(z[i])",
    ),
    ("sign of cube", "O[i] = sign(x[i]**3)", "O[i] = sign(x[i])"),
    ("sign of square", "O[i] = sign(x[i]**2)", "O[i] = sign(Abs(x[i]))"),
    ("sign of sign", "T[i] = sign(x[i])\nO[i] = sign(T[i])", "O[i] = sign(x[i])"),
    ("sign odd", "O[i] = sign(-x[i])", "O[i] = -sign(x[i])"),
    ("sign squared", "O[i] = sign(x[i])**2", "O[i] = Piecewise((0, Eq(x[i], 0)), (1, True))"),
    ("sign cubed", "O[i] = sign(x[i])**3", "O[i] = sign(x[i])"),
    ("sign times abs", "O[i] = sign(x[i])*Abs(x[i])", "O[i] = x[i]"),
    ("sign of quotient", "O[i] = sign(x[i])*sign(1 + y[i]**2)", "O[i] = sign(x[i]/(1 + y[i]**2))"),
    (
        "product positive by cases",
        "O[i] = Piecewise((1, x[i]*y[i] > 0), (0, True))",
        "O[i] = Piecewise((1, ((x[i] > 0) & (y[i] > 0)) | ((x[i] < 0) & (y[i] < 0))), (0, True))",
    ),
    (
        "product negative by cases",
        "O[i] = Piecewise((z[i], x[i]*y[i] < 0), (0, True))",
        "O[i] = Piecewise((z[i], (x[i] > 0) & (y[i] < 0)), (z[i], (x[i] < 0) & (y[i] > 0)), "
        "(0, True))",
    ),
    (
        "product zero",
        "O[i] = Piecewise((1, Eq(x[i]*y[i], 0)), (0, True))",
        "O[i] = Piecewise((1, Eq(x[i], 0) | Eq(y[i], 0)), (0, True))",
    ),
    (
        "square compare",
        "O[i] = Piecewise((1, x[i]**2 > y[i]**2), (0, True))",
        "O[i] = Piecewise((1, Abs(x[i]) > Abs(y[i])), (0, True))",
    ),
    (
        "square below 4",
        "O[i] = Piecewise((1, x[i]**2 < 4), (0, True))",
        "O[i] = Piecewise((1, (x[i] > -2) & (x[i] < 2)), (0, True))",
    ),
    (
        "cube order",
        "O[i] = Piecewise((x[i], x[i]**3 > y[i]**3), (y[i], True))",
        "O[i] = Max(x[i], y[i])",
    ),
    (
        "ELU with alpha",
        "O[i] = Max(x[i], 0) + Min(s[()]**2*(exp(x[i]) - 1), 0)",
        "O[i] = Piecewise((x[i], x[i] > 0), (s[()]**2*(exp(x[i]) - 1), True))",
    ),
    (
        "smooth l1",
        "O[i] = Piecewise((x[i]**2/2, Abs(x[i]) < 1), (Abs(x[i]) - 1/2, True))",
        "O[i] = Max(Abs(x[i]) - 1/2, 0) + Piecewise((x[i]**2/2 - Max(Abs(x[i]) - 1/2, 0), "
        "Abs(x[i]) < 1), (0, True))",
    ),
    (
        "where nested",
        "O[i] = Piecewise((x[i], y[i] > z[i]), (Piecewise((x[i], y[i] <= z[i]), (w[i], True)), "
        "True))",
        "O[i] = x[i]",
    ),
    (
        "bool and",
        "O[i] = Piecewise((1, (x[i] > 0) & (x[i] > 0)), (0, True))",
        "O[i] = Piecewise((1, x[i] > 0), (0, True))",
    ),
    (
        "between",
        "O[i] = Piecewise((1, (x[i] - 1)*(x[i] - 2) < 0), (0, True))",
        "O[i] = Piecewise((1, (x[i] > 1) & (x[i] < 2)), (0, True))",
    ),
    ("heaviside", "O[i] = (1 + sign(x[i]))/2*x[i]", "O[i] = Max(x[i], 0)"),
    (
        "sign of difference of squares",
        "O[i] = sign(x[i]**2 - y[i]**2)",
        "O[i] = sign(Abs(x[i]) - Abs(y[i]))",
    ),
    (
        "sign of a square and a number",
        "O[i] = sign(x[i]**2 - 2*x[i]*y[i] + y[i]**2 + 1)*x[i]",
        "O[i] = x[i]",
    ),
    ("sign of power", "O[i] = sign(x[i]**5)", "O[i] = sign(x[i])"),
    ("sign of inverse", "O[i] = sign(1/x[i])*Abs(x[i])", "O[i] = x[i]"),
    ("sign of product with exp", "O[i] = sign(x[i]*exp(y[i]))", "O[i] = sign(x[i])"),
    ("sign of sinh", "O[i] = sign(sinh(x[i]))", "O[i] = sign(x[i])"),
    ("sign of tanh", "O[i] = sign(tanh(x[i]))", "O[i] = sign(x[i])"),
    ("sign of exp minus one", "O[i] = sign(exp(x[i]) - 1)", "O[i] = sign(x[i])"),
    (
        "product compare same sign",
        "O[i] = Piecewise((1, x[i]*y[i] >= 0), (0, True))",
        "O[i] = Piecewise((0, sign(x[i])*sign(y[i]) < 0), (1, True))",
    ),
    (
        "abs sum equality case",
        "O[i] = Piecewise((Abs(x[i] + y[i]), x[i]*y[i] >= 0), (Abs(x[i] - y[i]), True))",
        "O[i] = Abs(x[i]) + Abs(y[i])",
    ),
    (
        "quadratic roots by cases",
        "O[i] = Piecewise((1, x[i]**2 - 5*x[i] + 6 <= 0), (0, True))",
        "O[i] = Piecewise((1, (x[i] >= 2) & (x[i] <= 3)), (0, True))",
    ),
    (
        "cubic sign",
        "O[i] = Piecewise((1, x[i]**3 - x[i] > 0), (0, True))",
        "O[i] = Piecewise((1, x[i] > 1), (1, (x[i] > -1) & (x[i] < 0)), (0, True))",
    ),
    (
        "ratio compare",
        "O[i] = Piecewise((1, x[i]/y[i] > 0), (0, True))",
        "O[i] = Piecewise((1, x[i]*y[i] > 0), (0, True))",
    ),
    (
        "inverse order",
        "O[i] = Piecewise((1, 1/(1 + x[i]**2) > 1/(1 + y[i]**2)), (0, True))",
        "O[i] = Piecewise((1, Abs(x[i]) < Abs(y[i])), (0, True))",
    ),
    (
        "threshold",
        "O[i] = Piecewise((x[i], x[i] > 2), (5, True))",
        "O[i] = 5 + (x[i] - 5)*Piecewise((1, x[i] > 2), (0, True))",
    ),
    (
        "smoothstep",
        "T[i] = Min(Max(x[i], 0), 1)\nO[i] = T[i]**2*(3 - 2*T[i])",
        "O[i] = Piecewise((0, x[i] <= 0), (1, x[i] >= 1), (3*x[i]**2 - 2*x[i]**3, True))",
    ),
    (
        "popcount of three",
        "O[i] = Piecewise((1, x[i] > 0), (0, True)) + Piecewise((1, x[i] > 1), (0, True))",
        "O[i] = Piecewise((2, x[i] > 1), (1, x[i] > 0), (0, True))",
    ),
]
MAXIMA_AND_ABSOLUTE_VALUES = [
    (
        "abs below 2",
        "O[i] = Piecewise((1, Abs(x[i]) < 2), (0, True))",
        "O[i] = Piecewise((1, (x[i] > -2) & (x[i] < 2)), (0, True))",
    ),
    ("relu6", "O[i] = Min(Max(x[i], 0), 6)", "O[i] = Max(x[i], 0) - Max(x[i] - 6, 0)"),
    (
        "hardswish",
        "O[i] = x[i]*Min(Max(x[i] + 3, 0), 6)/6",
        "O[i] = x[i]*Min(Max(x[i]/6 + 1/2, 0), 1)",
    ),
    (
        "hardsigmoid",
        "O[i] = Min(Max(x[i] + 3, 0), 6)/6",
        "O[i] = Piecewise((0, x[i] <= -3), (1, x[i] >= 3), (x[i]/6 + 1/2, True))",
    ),
    ("hardtanh", "O[i] = Min(Max(x[i], -1), 1)", "O[i] = (Abs(x[i] + 1) - Abs(x[i] - 1))/2"),
    (
        "leaky by abs",
        "O[i] = Piecewise((x[i], x[i] >= 0), (x[i]/100, True))",
        "O[i] = 101/200*x[i] + 99/200*Abs(x[i])",
    ),
    (
        "prelu",
        "O[i] = Piecewise((x[i], x[i] > 0), (y[i]*x[i], True))",
        "O[i] = Max(x[i], 0) + y[i]*Min(x[i], 0)",
    ),
    (
        "softsign derivative",
        "O[i] = 1/(1 + Abs(x[i])) - Abs(x[i])/(1 + Abs(x[i]))**2",
        "O[i] = 1/(1 + Abs(x[i]))**2",
    ),
    ("softsign difference", "O[i] = 1 - Abs(x[i])/(1 + Abs(x[i]))", "O[i] = 1/(1 + Abs(x[i]))"),
    (
        "max of sums bound",
        "O[()] = Max[i](x[i] + y[i] - Max[j](y[j]))",
        "O[()] = Max[i](x[i] + y[i]) - Max[j](y[j])",
    ),
    (
        "max of three by pairs",
        "O[i] = Max(x[i], y[i], z[i])",
        "O[i] = x[i] + Max(0, y[i] - x[i] + Max(0, z[i] - y[i]))",
    ),
    ("min plus max", "O[i] = Max(x[i], y[i]) + Min(x[i], y[i])", "O[i] = x[i] + y[i]"),
    (
        "max inclusion exclusion",
        "O[i] = Max(x[i], y[i], z[i])",
        "O[i] = x[i] + y[i] + z[i] - Min(x[i], y[i]) - Min(y[i], z[i]) - Min(x[i], z[i]) + "
        "Min(x[i], y[i], z[i])",
    ),
    ("abs diff", "O[i] = Abs(x[i] - y[i])", "O[i] = Max(x[i], y[i]) - Min(x[i], y[i])"),
    (
        "abs sum max",
        "O[i] = Max(Abs(x[i] + y[i]), Abs(x[i] - y[i]))",
        "O[i] = Abs(x[i]) + Abs(y[i])",
    ),
    (
        "abs of square diff",
        "O[i] = Abs(x[i]**2 - y[i]**2)",
        "O[i] = Abs(x[i] - y[i])*Abs(x[i] + y[i])",
    ),
    ("max abs by squares", "O[i] = Max(x[i]**2, y[i]**2)", "O[i] = Max(Abs(x[i]), Abs(y[i]))**2"),
    (
        "max times abs",
        "O[i] = Abs(x[i])*Max(y[i], z[i])",
        "O[i] = Max(Abs(x[i])*y[i], Abs(x[i])*z[i])",
    ),
    (
        "scale of either sign",
        "O[i] = Max(x[i]*y[i], x[i]*z[i])",
        "O[i] = Max(x[i], 0)*Max(y[i], z[i]) + Min(x[i], 0)*Min(y[i], z[i])",
    ),
    (
        "max norm homogeneous",
        "O[()] = Max[i](Abs(s[()]*x[i]))",
        "O[()] = Abs(s[()])*Max[i](Abs(x[i]))",
    ),
    ("hinge", "O[i] = Max(0, 1 - x[i])", "O[i] = Piecewise((1 - x[i], x[i] < 1), (0, True))"),
    ("quantile loss", "O[i] = Max(3/4*x[i], -x[i]/4)", "O[i] = x[i]/4 + Abs(x[i])/2"),
    (
        "clip shifts",
        "O[i] = Min(Max(x[i] + s[()], 2 + s[()]), 5 + s[()])",
        "O[i] = Min(Max(x[i], 2), 5) + s[()]",
    ),
    (
        "median clip",
        "O[i] = Min(Max(x[i], -Abs(y[i])), Abs(y[i]))",
        "O[i] = (Abs(x[i] + Abs(y[i])) - Abs(x[i] - Abs(y[i])))/2",
    ),
    ("sort two", "O[i] = Max(x[i], y[i])**2 + Min(x[i], y[i])**2", "O[i] = x[i]**2 + y[i]**2"),
    ("max of scaled relu", "O[()] = Max[i](Max(3*x[i], 0))", "O[()] = 3*Max(Max[i](x[i]), 0)"),
    (
        "sqrt of square sum",
        "O[i] = sqrt(x[i]**2 + 2*x[i]*y[i] + y[i]**2)",
        "O[i] = Abs(x[i] + y[i])",
    ),
    ("relu square", "O[i] = Max(x[i], 0)**2", "O[i] = x[i]*Max(x[i], 0)"),
    ("relu product", "O[i] = Max(x[i], 0)*Max(-x[i], 0)", "O[i:7] = 0"),
    (
        "relu of product",
        "O[i] = Max(x[i]*y[i], 0)",
        "O[i] = Max(x[i], 0)*Max(y[i], 0) + Max(-x[i], 0)*Max(-y[i], 0)",
    ),
    ("AM-GM of squares", "O[i] = Max(x[i]**2 + y[i]**2, 2*x[i]*y[i])", "O[i] = x[i]**2 + y[i]**2"),
    (
        "abs triangle",
        "O[i] = Max(Abs(x[i]) + Abs(y[i]), Abs(x[i] + y[i]))",
        "O[i] = Abs(x[i]) + Abs(y[i])",
    ),
    (
        "reverse triangle",
        "O[i] = Max(Abs(Abs(x[i]) - Abs(y[i])), Abs(x[i] - y[i]))",
        "O[i] = Abs(x[i] - y[i])",
    ),
    (
        "max minus min abs",
        "O[i] = Max(x[i], y[i], z[i]) - Min(x[i], y[i], z[i])",
        "O[i] = (Abs(x[i] - y[i]) + Abs(y[i] - z[i]) + Abs(x[i] - z[i]))/2",
    ),
    (
        "second largest",
        "O[i] = x[i] + y[i] + z[i] - Max(x[i], y[i], z[i]) - Min(x[i], y[i], z[i])",
        "O[i] = Max(Min(x[i], y[i]), Min(Max(x[i], y[i]), z[i]))",
    ),
    (
        "relu6 by hardswish",
        "O[i] = x[i]*Min(Max(x[i] + 3, 0), 6)/6 + x[i]*Min(Max(-x[i] + 3, 0), 6)/6",
        "O[i] = x[i]",
    ),
    (
        "hardshrink",
        "O[i] = Piecewise((x[i], x[i] > 1), (x[i], x[i] < -1), (0, True))",
        "O[i] = Piecewise((x[i], Abs(x[i]) > 1), (0, True))",
    ),
    (
        "rrelu mean",
        "O[i] = Max(x[i], 0) + (1/8 + 1/3)/2*Min(x[i], 0)",
        "O[i] = Piecewise((x[i], x[i] >= 0), (11*x[i]/48, True))",
    ),
    (
        "hypot stable",
        "M[i] = Max(Abs(x[i]), Abs(y[i])) + 1\nO[i] = M[i]*sqrt((x[i]/M[i])**2 + (y[i]/M[i])**2)",
        "O[i] = sqrt(x[i]**2 + y[i]**2)",
    ),
    (
        "blocks of row maximum",
        "O[()] = Max[i](g[i])",
        "T[a:4] = Max[b:4](g[4*a+b])\nO[()] = Max(T[0], T[1], T[2], T[3])",
    ),
    (
        "max pool relu order",
        "O[i:4] = Max(Max[r:3](X[3*i+r]), 0)",
        "O[i:4] = Max[r:3](Max(X[3*i+r], 0))",
    ),
    (
        "convex combination bound",
        "O[i] = Max(Min(x[i], y[i]), (x[i] + y[i])/2)",
        "O[i] = (x[i] + y[i])/2",
    ),
    (
        "clamp swap",
        "O[i] = Max(Min(x[i], Max(y[i], z[i])), Min(y[i], z[i]))",
        "O[i] = Min(Max(x[i], Min(y[i], z[i])), Max(y[i], z[i]))",
    ),
    (
        "xor truth",
        "O[i] = Piecewise((1, (x[i] > 0) & (y[i] <= 0)), (1, (x[i] <= 0) & (y[i] > 0)), (0, True))",
        "T[i] = Piecewise((1, x[i] > 0), (0, True))\n"
        "U[i] = Piecewise((1, y[i] > 0), (0, True))\n"
        "O[i] = Abs(T[i] - U[i])",
    ),
    (
        "truth product",
        "O[i] = Piecewise((1, (x[i] > 0) & (y[i] > 0)), (0, True))",
        "T[i] = Piecewise((1, x[i] > 0), (0, True))\n"
        "U[i] = Piecewise((1, y[i] > 0), (0, True))\n"
        "O[i] = Min(T[i], U[i])",
    ),
]
FUNCTIONS = [
    (
        "ELU three ways",
        "O[i] = Max(x[i], 0) + Min(exp(x[i]) - 1, 0)",
        "O[i] = Piecewise((x[i], x[i] > 0), (exp(x[i]) - 1, True))",
    ),
    (
        "scaled exponential unit",
        "O[i] = 21/20*(Max(x[i], 0) + Min(5/3*(exp(x[i]) - 1), 0))",
        "O[i] = Piecewise((21/20*x[i], x[i] > 0), (7/4*(exp(x[i]) - 1), True))",
    ),
    (
        "continuous exponential unit",
        "O[i] = Max(x[i], 0) + Min(2*(exp(x[i]/2) - 1), 0)",
        "O[i] = Piecewise((x[i], x[i] >= 0), (2*exp(x[i]/2) - 2, True))",
    ),
    (
        "gelu erf odd part",
        "O[i] = x[i]/2*(1 + erf(x[i]/sqrt(2))) + x[i]/2*(1 + erf(-x[i]/sqrt(2)))",
        "O[i] = x[i]",
    ),
    (
        "gelu tanh by sigmoid",
        "U[i] = x[i] + 447/10000*x[i]**3\nO[i] = x[i]/2*(1 + tanh(4/5*U[i]))",
        "U[i] = x[i] + 447/10000*x[i]**3\nO[i] = x[i]/(1 + exp(-8/5*U[i]))",
    ),
    (
        "Mish",
        "O[i] = x[i]*tanh(log(1 + exp(x[i])))",
        "O[i] = x[i]*(1 - 2/(1 + (1 + exp(x[i]))**2))",
    ),
    (
        "logsigmoid",
        "O[i] = log(1/(1 + exp(-x[i])))",
        "O[i] = Min(x[i], 0) - log(1 + exp(-Abs(x[i])))",
    ),
    ("logsigmoid by softplus", "O[i] = log(1/(1 + exp(-x[i])))", "O[i] = -log(1 + exp(-x[i]))"),
    ("tanhshrink", "O[i] = x[i] - tanh(x[i])", "O[i] = x[i] - 1 + 2/(exp(2*x[i]) + 1)"),
    (
        "softplus beta",
        "O[i] = log(1 + exp(3*x[i]))/3",
        "O[i] = Max(x[i], 0) + log(1 + exp(-3*Abs(x[i])))/3",
    ),
    (
        "logaddexp stable",
        "O[i] = log(exp(x[i]) + exp(y[i]))",
        "O[i] = Max(x[i], y[i]) + log(1 + exp(-Abs(x[i] - y[i])))",
    ),
    (
        "softmax two",
        "O[i] = exp(x[i])/(exp(x[i]) + exp(y[i]))",
        "O[i] = (1 + tanh((x[i] - y[i])/2))/2",
    ),
    (
        "max of products",
        "O[i] = Max(exp(x[i])*y[i], exp(x[i])*z[i])",
        "O[i] = exp(x[i])*Max(y[i], z[i])",
    ),
    ("argument of tanh", "O[i] = tanh(x[i])*(1 + exp(-2*x[i]))", "O[i] = 1 - exp(-2*x[i])"),
    ("sech squared", "O[i] = 1 - tanh(x[i])**2", "O[i] = 1/cosh(x[i])**2"),
    ("asinh by log", "O[i] = asinh(x[i])", "O[i] = log(x[i] + sqrt(x[i]**2 + 1))"),
    (
        "log1p",
        "O[i] = log(1 + exp(x[i])) + log(1 + exp(-x[i]))",
        "O[i] = 2*log(1 + exp(-Abs(x[i]))) + Abs(x[i])",
    ),
    ("rotate twice", "O[i] = cos(x[i])**2 - sin(x[i])**2", "O[i] = cos(2*x[i])"),
    ("sin triple", "O[i] = sin(3*x[i])", "O[i] = 3*sin(x[i]) - 4*sin(x[i])**3"),
    ("log of square", "O[i] = log((x[i] + y[i])**2)", "O[i] = 2*log(Abs(x[i] + y[i]))"),
    ("min by recip", "O[i] = 1/Max(exp(x[i]), exp(y[i]))", "O[i] = Min(exp(-x[i]), exp(-y[i]))"),
    ("max of exps by reduce", "O[()] = log(Max[i](exp(x[i])))", "O[()] = Max[i](x[i])"),
    ("abs of sinh", "O[i] = Abs(sinh(x[i]))", "O[i] = sinh(Abs(x[i]))"),
    ("abs of tanh", "O[i] = Abs(tanh(x[i]))", "O[i] = tanh(Abs(x[i]))"),
    ("abs of erf", "O[i] = Abs(erf(x[i]))", "O[i] = erf(Abs(x[i]))"),
    ("tanh of relu", "O[i] = tanh(Max(x[i], 0))", "O[i] = Max(tanh(x[i]), 0)"),
    (
        "sigmoid compare",
        "O[i] = Piecewise((x[i], 1/(1 + exp(-x[i])) > 1/2), (0, True))",
        "O[i] = Max(x[i], 0)",
    ),
    (
        "sigmoid argmax",
        "O[i] = Piecewise((1, 1/(1 + exp(-x[i])) > 1/(1 + exp(-y[i]))), (0, True))",
        "O[i] = Piecewise((1, x[i] > y[i]), (0, True))",
    ),
    ("softplus positive", "O[i] = Max(log(1 + exp(x[i])), 0)", "O[i] = log(1 + exp(x[i]))"),
    ("softplus above relu", "O[i] = Max(log(1 + exp(x[i])), x[i])", "O[i] = log(1 + exp(x[i]))"),
    ("sigmoid bounded", "O[i] = Min(1/(1 + exp(-x[i])), 1)", "O[i] = 1/(1 + exp(-x[i]))"),
    ("tanh clip", "O[i] = Min(Max(tanh(x[i]), -1), 1)", "O[i] = tanh(x[i])"),
    (
        "exp convex",
        "O[i] = Max(exp(x[i]), exp(y[i]))*Min(exp(x[i]), exp(y[i]))",
        "O[i] = exp(x[i] + y[i])",
    ),
    (
        "gelu tanh reflected",
        "U[i] = x[i] + x[i]**3/20\nO[i] = x[i]/2*(1 + tanh(U[i]))",
        "U[i] = -x[i] - x[i]**3/20\nO[i] = x[i] - x[i]/2*(1 + tanh(U[i]))",
    ),
    (
        "silu derivative",
        "T[i] = 1/(1 + exp(-x[i]))\nO[i] = T[i]*(1 + x[i]*(1 - T[i]))",
        "O[i] = (1 + exp(-x[i]) + x[i]*exp(-x[i]))/(1 + exp(-x[i]))**2",
    ),
    ("swiglu", "O[i] = x[i]*y[i]/(1 + exp(-x[i]))", "O[i] = y[i]*(x[i] - x[i]/(1 + exp(x[i])))"),
    (
        "log cosh",
        "O[i] = log(cosh(x[i]))",
        "O[i] = Abs(x[i]) + log(1 + exp(-2*Abs(x[i]))) - log(2)",
    ),
    (
        "log cosh by softplus",
        "O[i] = log(cosh(x[i]))",
        "O[i] = log(1 + exp(2*x[i])) - x[i] - log(2)",
    ),
    ("atanh by log", "O[i] = log((1 + tanh(x[i]))/(1 - tanh(x[i])))/2", "O[i] = x[i]"),
    ("logit of sigmoid", "P[i] = 1/(1 + exp(-x[i]))\nO[i] = log(P[i]/(1 - P[i]))", "O[i] = x[i]"),
    ("asinh odd", "O[i] = asinh(-x[i])", "O[i] = -asinh(x[i])"),
    ("log of root", "O[i] = log(sqrt(x[i]**2 + 1))", "O[i] = log(x[i]**2 + 1)/2"),
    ("sin cos half", "O[i] = sin(x[i])/(1 + cos(x[i]))", "O[i] = (1 - cos(x[i]))/sin(x[i])"),
]
EXPONENTIALS_OF_ROWS = [
    (
        "softmax sum is 1",
        "T[i,j] = exp(A[i,j])/Sum[k](exp(A[i,k]))\nO[i] = Sum[j](T[i,j])",
        "O[i:5] = 1",
    ),
    (
        "softmin",
        "O[i,j] = exp(-A[i,j])/Sum[k](exp(-A[i,k]))",
        "M[i] = Min[j](A[i,j])\nO[i,j] = exp(M[i] - A[i,j])/Sum[k](exp(M[i] - A[i,k]))",
    ),
    (
        "cosine scale",
        "X[i] = exp(s[()])*x[i]\n"
        "O[()] = Sum[i](X[i]*y[i])/(sqrt(Sum[i](X[i]**2))*sqrt(Sum[i](y[i]**2)))",
        "O[()] = Sum[i](x[i]*y[i])/(sqrt(Sum[i](x[i]**2))*sqrt(Sum[i](y[i]**2)))",
    ),
    (
        "log-sum-exp by blocks",
        "O[()] = log(Sum[i](exp(L[i])))",
        "a[b:3] = Max[j:10](L[10*b+j])\n"
        "l[b:3] = a[b] + log(Sum[j:10](exp(L[10*b+j] - a[b])))\n"
        "m[()] = Max[b](l[b])\n"
        "O[()] = m[()] + log(Sum[b](exp(l[b] - m[()])))",
    ),
    (
        "online softmax three blocks",
        "O[()] = Sum[i](exp(X[i] - Max[j](X[j]))*Y[i])/Sum[i](exp(X[i] - Max[j](X[j])))",
        "m[()] = Max[i:4](X[i])\n"
        "l[()] = Sum[i:4](exp(X[i] - m[()]))\n"
        "o[()] = Sum[i:4](exp(X[i] - m[()])*Y[i])\n"
        "p[()] = Max(m[()], Max[i:4](X[i+4]))\n"
        "k[()] = l[()]*exp(m[()] - p[()]) + Sum[i:4](exp(X[i+4] - p[()]))\n"
        "r[()] = o[()]*exp(m[()] - p[()]) + Sum[i:4](exp(X[i+4] - p[()])*Y[i+4])\n"
        "q[()] = Max(p[()], Max[i:4](X[i+8]))\n"
        "f[()] = k[()]*exp(p[()] - q[()]) + Sum[i:4](exp(X[i+8] - q[()]))\n"
        "g[()] = r[()]*exp(p[()] - q[()]) + Sum[i:4](exp(X[i+8] - q[()])*Y[i+8])\n"
        "O[()] = g[()]/f[()]",
    ),
    ("log prod", "O[()] = log(Prod[i](exp(x[i])))", "O[()] = Sum[i](x[i])"),
    (
        "divergence of two softmaxes",
        "P[i] = exp(x[i])/Sum[j](exp(x[j]))\n"
        "Q[i] = exp(y[i])/Sum[j](exp(y[j]))\n"
        "O[()] = Sum[i](P[i]*log(P[i]/Q[i]))",
        "P[i] = exp(x[i])/Sum[j](exp(x[j]))\n"
        "O[()] = Sum[i](P[i]*(x[i] - y[i])) - log(Sum[j](exp(x[j]))) + log(Sum[j](exp(y[j])))",
    ),
    (
        "entropy of softmax",
        "P[i] = exp(x[i])/Sum[j](exp(x[j]))\nO[()] = -Sum[i](P[i]*log(P[i]))",
        "Z[()] = Sum[j](exp(x[j]))\nO[()] = log(Z[()]) - Sum[i](exp(x[i])*x[i])/Z[()]",
    ),
    (
        "cross entropy",
        "P[i] = exp(x[i])/Sum[j](exp(x[j]))\nO[()] = -Sum[i](y[i]*log(P[i]))",
        "O[()] = log(Sum[j](exp(x[j])))*Sum[i](y[i]) - Sum[i](x[i]*y[i])",
    ),
    (
        "mean of centred is 0",
        "m[()] = Sum[i](exp(x[i]))/7\nO[()] = Sum[i](exp(x[i]) - m[()])",
        "O[()] = 0*x[0]",
    ),
    (
        "Gaussian kernel in factors",
        "O[i:4,j:6] = exp(-Sum[c]((q[i,c] - k[j,c])**2)/2)",
        "a[i:4] = exp(-Sum[c](q[i,c]**2)/2)\n"
        "b[j:6] = exp(-Sum[c](k[j,c]**2)/2)\n"
        "O[i,j] = a[i]*b[j]*exp(Sum[c](q[i,c]*k[j,c]))",
    ),
    (
        "softmax temperature blocks",
        "O[()] = log(Sum[i](exp(X[i]/2)))",
        "O[()] = log(Sum[i:5](exp(X[i]/2)) + Sum[i:7](exp(X[i+5]/2)))",
    ),
    (
        "log mean exp",
        "O[()] = log(Sum[i](exp(x[i]))/7)",
        "m[()] = Max[i](x[i])\nO[()] = m[()] + log(Sum[i](exp(x[i] - m[()]))) - log(7)",
    ),
    ("strided sum of exp", "O[()] = Sum[i](exp(g[i]))", "O[()] = Sum[a:4,b:4](exp(g[a+4*b]))"),
    (
        "even odd sum",
        "O[()] = Sum[i](exp(g[i]))",
        "O[()] = Sum[a:8](exp(g[2*a])) + Sum[a:8](exp(g[2*a+1]))",
    ),
    (
        "Lagrange's identity of three",
        "O[i] = Sum[j:3](q[0,j]*q[1,j])**2*exp(x[i])",
        "O[i] = exp(x[i])*(Sum[j:3](q[0,j]**2)*Sum[j:3](q[1,j]**2) - (q[0,0]*q[1,1] - "
        "q[0,1]*q[1,0])**2 - (q[0,0]*q[1,2] - q[0,2]*q[1,0])**2 - (q[0,1]*q[1,2] - "
        "q[0,2]*q[1,1])**2)",
    ),
]
STATISTICS_AND_SUMS = [
    (
        "variance",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])**2)/7",
        "O[()] = Sum[i](x[i]**2)/7 - (Sum[i](x[i])/7)**2",
    ),
    (
        "variance sample",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])**2)/6",
        "O[()] = (Sum[i](x[i]**2) - Sum[i](x[i])**2/7)/6",
    ),
    (
        "variance pairwise",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])**2)/7",
        "O[()] = Sum[i:7,j:7]((x[i] - x[j])**2)/98",
    ),
    (
        "variance long",
        "m[()] = Sum[i](L[i])/30\nO[()] = Sum[i]((L[i] - m[()])**2)/30",
        "O[()] = Sum[i](L[i]**2)/30 - (Sum[i](L[i])/30)**2",
    ),
    (
        "covariance",
        "m[()] = Sum[i](x[i])/7\n"
        "n[()] = Sum[i](y[i])/7\n"
        "O[()] = Sum[i]((x[i] - m[()])*(y[i] - n[()]))/7",
        "O[()] = Sum[i](x[i]*y[i])/7 - Sum[i](x[i])*Sum[i](y[i])/49",
    ),
    (
        "variance merge (Chan)",
        "a[()] = Sum[i:4](x[i])/4\n"
        "b[()] = Sum[i:4:7](x[i])/3\n"
        "O[()] = Sum[i:4]((x[i] - a[()])**2) + Sum[i:4:7]((x[i] - b[()])**2) + (a[()] - "
        "b[()])**2*12/7",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])**2)",
    ),
    (
        "weighted variance",
        "W[()] = Sum[i](w[i])\n"
        "m[()] = Sum[i](w[i]*x[i])/W[()]\n"
        "O[()] = Sum[i](w[i]*(x[i] - m[()])**2)/W[()]",
        "W[()] = Sum[i](w[i])\nO[()] = Sum[i](w[i]*x[i]**2)/W[()] - (Sum[i](w[i]*x[i])/W[()])**2",
    ),
    (
        "lagrange identity",
        "O[()] = Sum[i](x[i]**2)*Sum[i](y[i]**2) - Sum[i](x[i]*y[i])**2",
        "O[()] = Sum[i:7,j:7]((x[i]*y[j] - x[j]*y[i])**2)/2",
    ),
    (
        "polarization",
        "O[()] = Sum[i](x[i]*y[i])",
        "O[()] = (Sum[i]((x[i] + y[i])**2) - Sum[i]((x[i] - y[i])**2))/4",
    ),
    (
        "parallelogram",
        "O[()] = Sum[i]((x[i] + y[i])**2) + Sum[i]((x[i] - y[i])**2)",
        "O[()] = 2*Sum[i](x[i]**2) + 2*Sum[i](y[i]**2)",
    ),
    (
        "cosine normalise first",
        "X[i] = x[i]/sqrt(Sum[j](x[j]**2))\n"
        "Y[i] = y[i]/sqrt(Sum[j](y[j]**2))\n"
        "O[()] = Sum[i](X[i]*Y[i])",
        "O[()] = Sum[i](x[i]*y[i])/(sqrt(Sum[i](x[i]**2))*sqrt(Sum[i](y[i]**2)))",
    ),
    (
        "norm homogeneous",
        "O[()] = sqrt(Sum[i]((s[()]*x[i])**2))",
        "O[()] = Abs(s[()])*sqrt(Sum[i](x[i]**2))",
    ),
    (
        "one norm homogeneous",
        "O[()] = Sum[i](Abs(s[()]*x[i]))",
        "O[()] = Abs(s[()])*Sum[i](Abs(x[i]))",
    ),
    (
        "RMS norm of a scaled row with epsilon",
        "X[i] = 2*x[i]\nO[i] = X[i]/sqrt(Sum[j](X[j]**2)/7 + 4/100)",
        "O[i] = x[i]/sqrt(Sum[j](x[j]**2)/7 + 1/100)",
    ),
    (
        "symmetrise",
        "O[()] = Sum[i:7,j:7](S[i,j]*x[i]*x[j])",
        "T[i,j] = (S[i,j] + S[j,i])/2\nO[()] = Sum[i:7,j:7](T[i,j]*x[i]*x[j])",
    ),
    (
        "antisymmetric form is 0",
        "O[()] = Sum[i:7,j:7]((S[i,j] - S[j,i])*x[i]*x[j])",
        "O[()] = 0*x[0]",
    ),
    ("product of diffs", "O[()] = Prod[i](x[i]*y[i])", "O[()] = Prod[i](x[i])*Prod[i](y[i])"),
    ("prod of abs", "O[()] = Prod[i](Abs(x[i]))", "O[()] = Abs(Prod[i](x[i]))"),
    ("prod of squares", "O[()] = Prod[i](x[i]**2)", "O[()] = Prod[i](x[i])**2"),
    (
        "prod split",
        "O[()] = Prod[i](1 + x[i])",
        "O[()] = Prod[i:3](1 + x[i])*Prod[i:3:7](1 + x[i])",
    ),
    (
        "variance of scaled",
        "m[()] = Sum[i](3*x[i] + 1)/7\nO[()] = Sum[i]((3*x[i] + 1 - m[()])**2)/7",
        "O[()] = 9*(Sum[i](x[i]**2)/7 - (Sum[i](x[i])/7)**2)",
    ),
    (
        "welford step",
        "m[()] = Sum[i:6](x[i])/6\n"
        "q[()] = Sum[i:6]((x[i] - m[()])**2)\n"
        "d[()] = x[6] - m[()]\n"
        "r[()] = m[()] + d[()]/7\n"
        "O[()] = q[()] + d[()]*(x[6] - r[()])",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])**2)",
    ),
    (
        "variance of rows long",
        "m[i] = Sum[j](A[i,j])/7\nO[i:5] = Sum[j]((A[i,j] - m[i])**2)/7",
        "O[i:5] = Sum[j](A[i,j]*(A[i,j] - Sum[k](A[i,k])/7))/7",
    ),
    (
        "third moment",
        "m[()] = Sum[i](x[i])/7\nO[()] = Sum[i]((x[i] - m[()])**3)/7",
        "O[()] = Sum[i](x[i]**3)/7 - 3*Sum[i](x[i])/7*Sum[i](x[i]**2)/7 + 2*(Sum[i](x[i])/7)**3",
    ),
    (
        "layernorm scale invariance",
        "X[i,j] = 3*A[i,j]\n"
        "m[i:5] = Sum[j](X[i,j])/7\n"
        "V[i:5] = Sum[j]((X[i,j] - m[i])**2)/7\n"
        "O[i,j] = (X[i,j] - m[i])/sqrt(V[i])",
        "m[i:5] = Sum[j](A[i,j])/7\n"
        "V[i:5] = Sum[j]((A[i,j] - m[i])**2)/7\n"
        "O[i,j] = (A[i,j] - m[i])/sqrt(V[i])",
    ),
    (
        "mean square of a difference",
        "O[()] = Sum[i]((x[i] - y[i])**2)/7",
        "O[()] = (Sum[i](x[i]**2) - 2*Sum[i](x[i]*y[i]) + Sum[i](y[i]**2))/7",
    ),
    (
        "pairwise distances",
        "O[i:4,j:6] = Sum[c]((q[i,c] - k[j,c])**2)",
        "a[i:4] = Sum[c](q[i,c]**2)\n"
        "b[j:6] = Sum[c](k[j,c]**2)\n"
        "O[i,j] = a[i] + b[j] - 2*Sum[c](q[i,c]*k[j,c])",
    ),
    ("transpose sum", "O[()] = Sum[i,j](tanh(S[i,j]))", "O[()] = Sum[i:7,j:7](tanh(S[j,i]))"),
    ("reverse product", "O[()] = Prod[i](1 + exp(x[i]))", "O[()] = Prod[i:7](1 + exp(x[6-i]))"),
    (
        "sum of min and max",
        "O[()] = Sum[i](Max(x[i], y[i])) + Sum[i](Min(x[i], y[i]))",
        "O[()] = Sum[i](x[i]) + Sum[i](y[i])",
    ),
    (
        "l1 distance",
        "O[()] = Sum[i](Abs(x[i] - y[i]))",
        "O[()] = Sum[i](Max(x[i], y[i])) - Sum[i](Min(x[i], y[i]))",
    ),
    (
        "long l1 distance",
        "O[()] = Sum[i:30](Abs(L[i] - 1))",
        "O[()] = Sum[i:30](Max(L[i], 1)) - Sum[i:30](Min(L[i], 1))",
    ),
    (
        "relu long sum",
        "O[()] = Sum[i:30](Max(L[i], 0))",
        "O[()] = (Sum[i:30](L[i]) + Sum[i:30](Abs(L[i])))/2",
    ),
    (
        "avg pool linear",
        "O[i:4] = Sum[r:3](2*X[3*i+r] + 1)/3",
        "O[i:4] = 2*Sum[r:3](X[3*i+r])/3 + 1",
    ),
    ("sum i(n-i)", "O[i:12] = Sum[j:12](j*(12 - j))*X[i]", "O[i:12] = 286*X[i]"),
]
RANGES_AND_INDICES = [
    (
        "cumsum of cumsum",
        "T[i:7] = Sum[j:7](x[j], where=j <= i)\nO[i:7] = Sum[j:7](T[j], where=j <= i)",
        "O[i:7] = Sum[j:7]((i - j + 1)*x[j], where=j <= i)",
    ),
    (
        "cumsum difference",
        "T[i:7] = Sum[j:7](x[j], where=j <= i)\nO[i:6] = T[i+1] - T[i]",
        "O[i:6] = x[i+1]",
    ),
    (
        "cumsum reversed",
        "O[i:7] = Sum[j:7](x[j], where=j >= i)",
        "O[i:7] = Sum[j](x[j]) - Sum[j:7](x[j], where=j < i)",
    ),
    (
        "cumsum blocks",
        "O[i:12] = Sum[j:12](X[j], where=j <= i)",
        "b[c:3] = Sum[j:4](X[4*c+j])\n"
        "p[c:3] = Sum[d:3](b[d], where=d < c)\n"
        "O[i:12] = p[i//4] + Sum[j:4](X[4*(i//4)+j], where=j <= i%4)",
    ),
    (
        "cumulative mean of exp",
        "O[i:7] = Sum[j:7](exp(x[j]), where=j <= i)",
        "O[i:7] = Sum[j:7](exp(x[j])*Piecewise((1, j <= i), (0, True)))",
    ),
    (
        "one hot gather",
        "O[i:5] = Sum[j:7](A[i,j]*Piecewise((1, Eq(j, i+1)), (0, True)))",
        "O[i:5] = A[i,i+1]",
    ),
    (
        "one hot exp",
        "O[i:7] = Sum[j:7](exp(x[j])*Piecewise((1, Eq(j, 6-i)), (0, True)))",
        "O[i:7] = exp(x[6-i])",
    ),
    ("one hot sum is one", "O[i:7] = Sum[j:7](Piecewise((1, Eq(i, j)), (0, True)))", "O[i:7] = 1"),
    (
        "triangular mask sum",
        "O[()] = Sum[i:7,j:7](S[i,j], where=j <= i)",
        "O[()] = Sum[i:7,j:7](S[i,j]) - Sum[i:7,j:7](S[i,j], where=j > i)",
    ),
    (
        "triangle exchange",
        "O[()] = Sum[i:7](Sum[j:7](exp(x[i])*y[j], where=j <= i))",
        "O[()] = Sum[j:7](y[j]*Sum[i:7](exp(x[i]), where=i >= j))",
    ),
    (
        "triangle exchange abs",
        "O[()] = Sum[i:7](Sum[j:7](Abs(S[i,j]), where=j <= i))",
        "O[()] = Sum[j:7](Sum[i:7](Abs(S[i,j]), where=i >= j))",
    ),
    (
        "dependent range shift",
        "O[()] = Sum[i:7](Sum[j:7](exp(S[i,j]), where=j <= i))",
        "O[()] = Sum[d:7](Sum[j:7](exp(S[(j+d)%7,j]), where=j + d <= 6))",
    ),
    ("triangle count", "O[i:7] = Sum[j:7](x[i], where=j < i)", "O[i:7] = i*x[i]"),
    ("triangular numbers", "O[i:30] = Sum[j:30](j, where=j <= i)", "O[i:30] = i*(i+1)/2"),
    ("gauss squares", "O[i:30] = Sum[j:30](j**2, where=j <= i)", "O[i:30] = i*(i+1)*(2*i+1)/6"),
    ("gauss cubes", "O[i:30] = Sum[j:30](j**3, where=j <= i)", "O[i:30] = (i*(i+1)/2)**2"),
    ("odd numbers", "O[i:30] = Sum[j:30](2*j + 1, where=j < i)", "O[i:30] = i**2"),
    (
        "gauss with exp",
        "O[i:30] = Sum[j:30](j*exp(L[i]), where=j <= i)",
        "O[i:30] = i*(i+1)/2*exp(L[i])",
    ),
    ("div mod", "O[i:30] = exp(L[5*(i//5) + i%5])", "O[i:30] = exp(L[i])"),
    ("nested div", "O[i:30] = exp(L[(i//2)//3])", "O[i:30] = exp(L[i//6])"),
    ("mod of mod", "O[i:30] = exp(L[(i%6)%3])", "O[i:30] = exp(L[i%3])"),
    ("div of product", "O[i:5,j:6] = exp(L[(6*i+j)//6])", "O[i:5,j:6] = exp(L[i])"),
    ("mod as a number", "O[i:30] = (i%7)*exp(L[i])", "O[i:30] = (i - 7*(i//7))*exp(L[i])"),
    (
        "ceil div",
        "O[i:30] = ((i+3)//4)*L[i]",
        "O[i:30] = (i//4 + Piecewise((0, Eq(i%4, 0)), (1, True)))*L[i]",
    ),
    (
        "cumsum weighted exchange",
        "T[i:7] = Sum[j:7](x[j], where=j <= i)\nO[()] = Sum[i](y[i]*T[i])",
        "T[j:7] = Sum[i:7](y[i], where=i >= j)\nO[()] = Sum[j](x[j]*T[j])",
    ),
    (
        "running max",
        "T[i:7] = Max[j:7](x[j], where=j <= i)\nO[i:6] = Max(T[i], x[i+1])",
        "O[i:6] = Max[j:7](x[j], where=j <= i + 1)",
    ),
    (
        "running max monotone",
        "T[i:7] = Max[j:7](x[j], where=j <= i)\nO[i:6] = Max(T[i], T[i+1])",
        "O[i:6] = Max[j:7](x[j], where=j <= i + 1)",
    ),
    (
        "cummax of exp",
        "O[i:7] = Max[j:7](exp(x[j]), where=j <= i)",
        "O[i:7] = exp(Max[j:7](x[j], where=j <= i))",
    ),
    (
        "triangle with diagonal",
        "O[()] = Sum[i:7,j:7](exp(S[i,j]), where=j <= i)",
        "O[()] = Sum[i:7,j:7](exp(S[i,j]), where=j < i) + Sum[i:7](exp(S[i,i]))",
    ),
    (
        "upper and lower",
        "O[()] = Sum[i:7,j:7](exp(S[i,j]), where=j <= i) + Sum[i:7,j:7](exp(S[i,j]), where=j > i)",
        "O[()] = Sum[i,j](exp(S[i,j]))",
    ),
    (
        "band",
        "O[i:7] = Sum[j:7](Abs(x[j]), where=(j <= i + 1, j >= i - 1))",
        "O[i:7] = Sum[j:7](Abs(x[j]), where=j <= i + 1) - Sum[j:7](Abs(x[j]), where=j < i - 1)",
    ),
    (
        "one hot matmul",
        "T[i:5,j:7] = Piecewise((1, Eq(j, i)), (0, True))\nO[i:5] = Sum[j](T[i,j]*tanh(x[j]))",
        "O[i:5] = tanh(x[i])",
    ),
    ("one hot with data", "O[i] = Sum[j:7](Piecewise((x[i], Eq(j, 3)), (0, True)))", "O[i] = x[i]"),
    (
        "embedding of parity",
        "O[i:12] = Sum[c:2](Piecewise((exp(X[i]*c), Eq(i%2, c)), (0, True)))",
        "O[i:12] = exp(X[i]*(i%2))",
    ),
    (
        "gauss of products",
        "O[i:12] = Sum[j:12](j*i*exp(X[i]), where=j < i)",
        "O[i:12] = i**2*(i - 1)/2*exp(X[i])",
    ),
    (
        "power sum of four",
        "O[i:12] = Sum[j:12](j**4, where=j <= i)",
        "O[i:12] = i*(i + 1)*(2*i + 1)*(3*i**2 + 3*i - 1)/30",
    ),
    (
        "index parity by mod",
        "O[i:12] = X[i]*(i%2)",
        "O[i:12] = Piecewise((X[i], Eq(i%2, 1)), (0, True))",
    ),
    (
        "index max",
        "O[i:12] = Max(i, 3)*X[i]",
        "O[i:12] = Piecewise((3*X[i], i < 3), (i*X[i], True))",
    ),
    (
        "index abs",
        "O[i:12] = Abs(i - 4)*exp(X[i])",
        "O[i:12] = Piecewise(((4 - i)*exp(X[i]), i < 4), ((i - 4)*exp(X[i]), True))",
    ),
    ("floor of index", "O[i:12] = floor(i/3)*exp(X[i])", "O[i:12] = (i//3)*exp(X[i])"),
    (
        "sign of index",
        "O[i:12] = sign(i - 5)*X[i]",
        "O[i:12] = Piecewise((-X[i], i < 5), (0, Eq(i, 5)), (X[i], True))",
    ),
    (
        "alternating sign",
        "O[i:12] = (1 - 2*(i%2))*exp(X[i])",
        "O[i:12] = Piecewise((exp(X[i]), Eq(i%2, 0)), (-exp(X[i]), True))",
    ),
    (
        "exp of -inf mask",
        "O[i:7] = Sum[j:7](exp(Piecewise((S[i,j], j <= i), (-inf, True)))*x[j])",
        "O[i:7] = Sum[j:7](exp(S[i,j])*x[j], where=j <= i)",
    ),
]
ROOTS_AND_POLYNOMIALS = [
    (
        "abs of complex product",
        "O[i] = sqrt((x[i]*z[i] - y[i]*w[i])**2 + (x[i]*w[i] + y[i]*z[i])**2)",
        "O[i] = sqrt(x[i]**2 + y[i]**2)*sqrt(z[i]**2 + w[i]**2)",
    ),
    ("geometric sum", "O[i] = (x[i] - 1)*(1 + x[i] + x[i]**2 + x[i]**3)", "O[i] = x[i]**4 - 1"),
    (
        "horner",
        "O[i] = ((x[i]*2 + 3)*x[i] + 4)*x[i] + 5",
        "O[i] = 2*x[i]**3 + 3*x[i]**2 + 4*x[i] + 5",
    ),
    ("rsqrt", "O[i] = 1/sqrt(x[i]**2 + 1)", "O[i] = sqrt(x[i]**2 + 1)/(x[i]**2 + 1)"),
    (
        "rationalise",
        "O[i] = 1/(sqrt(x[i]**2 + 2) + sqrt(x[i]**2 + 1))",
        "O[i] = sqrt(x[i]**2 + 2) - sqrt(x[i]**2 + 1)",
    ),
    ("hypot scale", "O[i] = sqrt((2*x[i])**2 + (2*y[i])**2)", "O[i] = 2*sqrt(x[i]**2 + y[i]**2)"),
    ("lerp", "O[i] = x[i] + z[i]*(y[i] - x[i])", "O[i] = (1 - z[i])*x[i] + z[i]*y[i]"),
]
FAMILIES = {
    "rounding and integers": ROUNDING_AND_INTEGERS,
    "signs and conditions": SIGNS_AND_CONDITIONS,
    "maxima and absolute values": MAXIMA_AND_ABSOLUTE_VALUES,
    "functions": FUNCTIONS,
    "exponentials of rows": EXPONENTIALS_OF_ROWS,
    "statistics and sums": STATISTICS_AND_SUMS,
    "ranges and indices": RANGES_AND_INDICES,
    "roots and polynomials": ROOTS_AND_POLYNOMIALS,
}
NO_LAWS = [
    ("twice a rounded number", "O[i] = floor(2*x[i])", "O[i] = 2*floor(x[i])"),
    (
        "a rounded multiple, shifted by thirds",
        "O[i] = floor(2*x[i])",
        "O[i] = floor(x[i]) + floor(x[i] + 1/3)",
    ),
    (
        "a rounded multiple, one summand short",
        "O[i] = floor(3*x[i])",
        "O[i] = floor(x[i]) + floor(x[i] + 1/3)",
    ),
    ("rounding up is rounding down and one", "O[i] = ceiling(x[i])", "O[i] = floor(x[i]) + 1"),
    ("rounded opposite", "O[i] = floor(-x[i])", "O[i] = -floor(x[i])"),
    ("rounded sum", "O[i] = floor(x[i] + y[i])", "O[i] = floor(x[i]) + floor(y[i])"),
    (
        "rounded number strictly above",
        "O[i] = Piecewise((1, floor(x[i]) > 2), (0, True))",
        "O[i] = Piecewise((1, x[i] > 2), (0, True))",
    ),
    (
        "rounded number at most",
        "O[i] = Piecewise((1, floor(x[i]) <= 2), (0, True))",
        "O[i] = Piecewise((1, x[i] <= 2), (0, True))",
    ),
    (
        "rounded up at least",
        "O[i] = Piecewise((1, ceiling(x[i]) >= 2), (0, True))",
        "O[i] = Piecewise((1, x[i] >= 2), (0, True))",
    ),
    ("nearest by either half", "O[i] = floor(x[i] + 1/2)", "O[i] = ceiling(x[i] - 1/2)"),
    ("rounded towards 0", "O[i] = sign(x[i])*floor(Abs(x[i]))", "O[i] = floor(x[i])"),
    ("halves of an integer", "O[i] = floor(n[i]/2) + floor(n[i]/2)", "O[i] = n[i]"),
    ("a fraction of an integer rounded up", "O[i] = ceiling(n[i]/4)", "O[i] = floor((n[i] + 4)/4)"),
    ("squares modulo 3", "O[i] = Mod(n[i]**2, 3)", "O[i] = Mod(n[i], 3)"),
    ("squares modulo 8", "O[i] = Mod(n[i]**2, 8)", "O[i] = Mod(n[i], 2)"),
    ("remainder of a product", "O[i] = Mod(n[i]*m[i], 3)", "O[i] = Mod(n[i], 3)*Mod(m[i], 3)"),
    ("remainder of a remainder", "O[i] = Mod(Mod(n[i], 6), 4)", "O[i] = Mod(n[i], 4)"),
    ("remainder of a quotient", "O[i] = Mod(floor(n[i]/2), 3)", "O[i] = Mod(floor(n[i]/3), 2)"),
    ("remainder below its divisor", "O[i] = Min(Mod(n[i], 5), 3)", "O[i] = Mod(n[i], 5)"),
    (
        "remainder of a real number below its divisor",
        "O[i] = Min(Mod(x[i], 5), 4)",
        "O[i] = Mod(x[i], 5)",
    ),
    (
        "a gap of real numbers",
        "O[i] = Piecewise((y[i], x[i] > 2), (0, True))",
        "O[i] = Piecewise((y[i], x[i] >= 3), (0, True))",
    ),
    (
        "a gap of halves",
        "O[i] = Piecewise((x[i], 2*n[i] > 4), (0, True))",
        "O[i] = Piecewise((x[i], n[i] >= 2), (0, True))",
    ),
    ("sign of a sum", "O[i] = sign(x[i] + y[i])", "O[i] = sign(x[i]) + sign(y[i])"),
    ("sign of a square", "O[i] = sign(x[i]**2)", "O[i:7] = 1"),
    ("square of a sign", "O[i] = sign(x[i])**2", "O[i] = sign(x[i])"),
    (
        "a product above 0",
        "O[i] = Piecewise((1, x[i]*y[i] > 0), (0, True))",
        "O[i] = Piecewise((1, (x[i] > 0) & (y[i] > 0)), (0, True))",
    ),
    (
        "a product at least 0",
        "O[i] = Piecewise((1, x[i]*y[i] >= 0), (0, True))",
        "O[i] = Piecewise((1, ((x[i] > 0) & (y[i] > 0)) | ((x[i] < 0) & (y[i] < 0))), (0, True))",
    ),
    (
        "a product of three above 0",
        "O[i] = Piecewise((1, x[i]*y[i]*z[i] > 0), (0, True))",
        "O[i] = Piecewise((1, x[i]*y[i] > 0), (0, True))",
    ),
    (
        "a square above a square",
        "O[i] = Piecewise((1, x[i]**2 > y[i]**2), (0, True))",
        "O[i] = Piecewise((1, x[i] > y[i]), (0, True))",
    ),
    (
        "between roots, with the ends",
        "O[i] = Piecewise((1, x[i]**2 - 5*x[i] + 6 < 0), (0, True))",
        "O[i] = Piecewise((1, (x[i] >= 2) & (x[i] <= 3)), (0, True))",
    ),
    (
        "outside of roots",
        "O[i] = Piecewise((1, (x[i] - 1)*(x[i] - 2) > 0), (0, True))",
        "O[i] = Piecewise((1, x[i] > 2), (0, True))",
    ),
    (
        "an even power in a condition",
        "O[i] = Piecewise((1, (x[i] + 1)**2*x[i] >= 0), (0, True))",
        "O[i] = Piecewise((1, x[i] >= 0), (0, True))",
    ),
    (
        "absolute value of a difference of squares",
        "O[i] = Abs(x[i]**2 - y[i]**2)",
        "O[i] = (x[i] - y[i])*(x[i] + y[i])",
    ),
    (
        "absolute value of a quadratic that has roots",
        "O[i] = Abs(x[i]**2 + 3*x[i]*y[i] + y[i]**2)",
        "O[i] = x[i]**2 + 3*x[i]*y[i] + y[i]**2",
    ),
    (
        "absolute value of a quadratic below 0",
        "O[i] = Abs(x[i]**2 + x[i] + 1/5)",
        "O[i] = x[i]**2 + x[i] + 1/5",
    ),
    (
        "root of a square of a sum",
        "O[i] = sqrt(x[i]**2 + 2*x[i]*y[i] + y[i]**2)",
        "O[i] = x[i] + y[i]",
    ),
    (
        "root of a sum of squares",
        "O[i] = sqrt(x[i]**2 + x[i]*y[i] + y[i]**2)",
        "O[i] = Abs(x[i] + y[i])",
    ),
    (
        "a root that does not outweigh",
        "O[i] = Abs(2*x[i] + sqrt(x[i]**2 + 1))",
        "O[i] = 2*x[i] + sqrt(x[i]**2 + 1)",
    ),
    (
        "inverse hyperbolic sine of twice",
        "O[i] = asinh(2*x[i])",
        "O[i] = log(x[i] + sqrt(x[i]**2 + 1))",
    ),
    (
        "inverse hyperbolic sine of another constant",
        "O[i] = asinh(x[i])",
        "O[i] = log(x[i] + sqrt(x[i]**2 + 2))",
    ),
    (
        "a unit with its exponential on both sides",
        "O[i] = Max(x[i], 0) + Min(exp(x[i]) - 1, 0)",
        "O[i] = Piecewise((x[i], x[i] > 1), (exp(x[i]) - 1, True))",
    ),
    (
        "an exponential unit with a scale that may be negative",
        "O[i] = Max(x[i], 0) + Min(s[()]*(exp(x[i]) - 1), 0)",
        "O[i] = Piecewise((x[i], x[i] > 0), (s[()]*(exp(x[i]) - 1), True))",
    ),
    (
        "absolute value of an increasing function with another zero",
        "O[i] = Abs(exp(x[i]) - 2)",
        "O[i] = exp(Abs(x[i])) - 2",
    ),
    (
        "absolute value of a logarithm",
        "O[i] = Abs(log(x[i]**2 + 1/2))",
        "O[i] = log(x[i]**2 + 1/2)",
    ),
    (
        "logarithm above its argument",
        "O[i] = Max(log(1 + exp(x[i])), 2*x[i])",
        "O[i] = log(1 + exp(x[i]))",
    ),
    ("sign of an even function", "O[i] = sign(cosh(x[i]) - 1)", "O[i] = sign(x[i])"),
    (
        "a maximum and a mean",
        "O[i] = Abs(Max(x[i], y[i], -x[i] - 1))",
        "O[i] = Max(x[i], y[i], -x[i] - 1)",
    ),
    (
        "a maximum of opposite places",
        "O[()] = Abs(Max[i](Max(x[i], -y[i])))",
        "O[()] = Max[i](Max(x[i], -y[i]))",
    ),
    (
        "order of two integers that are equal",
        "O[i] = Piecewise((1, n[i] > m[i]), (0, True))",
        "O[i] = Piecewise((1, n[i] + 1 > m[i]), (0, True))",
    ),
    (
        "a distance of integers",
        "O[i] = Piecewise((1, Eq(n[i], m[i])), (0, True))",
        "O[i] = Max(0, 2 - Abs(n[i] - m[i]))",
    ),
]


EVERYDAY = [law_of_row(family, row, SHAPES) for family, rows in FAMILIES.items() for row in rows]
EVERYDAY_WRONG = [law_of_row("no law", row, SHAPES) for row in NO_LAWS]
