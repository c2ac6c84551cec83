"""The laws that the normal forms apply, as rows: each is tested alone, by values and by proof.

A row holds for all values of its variables that meet `requires`; without it, for all at which both
sides have a value. A law of the code that is no row here is missing: add it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Law:
    """Two texts in the variables a, b, c that are equal where `requires` holds."""

    name: str
    before: str
    after: str
    requires: str = ""


LAWS = (
    Law("exp of a sum", "exp(a + b)", "exp(a)*exp(b)"),
    Law("exp of a multiple", "exp(3*a)", "exp(a)**3"),
    Law("exp of an opposite", "exp(-a)", "1/exp(a)"),
    Law("exp of a logarithm", "exp(2*log(a))", "a**2", "a > 0"),
    Law("log of exp", "log(exp(a)*exp(b))", "a + b"),
    Law("log of a product", "log(a*b)", "log(a) + log(b)", "a > 0 and b > 0"),
    Law("log of a power", "log(a**4)", "4*log(Abs(a))", "a != 0"),
    Law("log of a rational number", "log(6)", "log(2) + log(3)"),
    Law("log of a positive factor", "log(exp(a) + exp(b))", "a + log(1 + exp(b - a))"),
    Law("log of a fraction", "log(1 - 1/(1 + exp(a)))", "a - log(1 + exp(a))"),
    Law("tanh by exp", "tanh(a)", "(exp(2*a) - 1)/(exp(2*a) + 1)"),
    Law("sinh by exp", "sinh(a)", "(exp(a) - exp(-a))/2"),
    Law("cosh by exp", "cosh(a)", "(exp(a) + exp(-a))/2"),
    Law("erfc by erf", "erfc(a)", "1 - erf(a)"),
    Law("sine of a sum", "sin(a + b)", "sin(a)*cos(b) + cos(a)*sin(b)"),
    Law("cosine of a multiple", "cos(2*a)", "2*cos(a)**2 - 1"),
    Law("square of a sine", "sin(a)**2", "1 - cos(a)**2"),
    Law("sine of a multiple of pi", "sin(a + pi/2)", "cos(a)"),
    Law("tangent by a quotient", "tan(a)*cos(a)", "sin(a)"),
    Law("bounded function", "Abs(2 + sin(a))", "2 + sin(a)"),
    Law("inverse hyperbolic sine", "asinh(a)", "log(a + sqrt(a**2 + 1))"),
    Law("absolute value of an increasing function", "Abs(erf(a))", "erf(Abs(a))"),
    Law("a logarithm against others", "Max(log(1 + exp(a)), a)", "log(1 + exp(a))"),
    Law("odd function", "erf(-a)", "-erf(a)"),
    Law("even function", "cos(-a)", "cos(a)"),
    Law("root of a product", "sqrt(a*b)", "sqrt(a)*sqrt(b)", "a >= 0 and b >= 0"),
    Law("root of a square", "sqrt(a**2*(1 + b**2))", "Abs(a)*sqrt(1 + b**2)"),
    Law("power of a root", "sqrt(1 + a**2)**2", "1 + a**2"),
    Law("root of a rational number", "sqrt(12)", "2*sqrt(3)"),
    Law("root of a square of a sum", "sqrt(a**2 + 2*a*b + b**2)", "Abs(a + b)"),
    Law("a root that outweighs", "Abs(a + sqrt(a**2 + 1))", "a + sqrt(a**2 + 1)"),
    Law("absolute value of a product", "Abs(a*b)", "Abs(a)*Abs(b)"),
    Law("square of an absolute value", "Abs(a)**2", "a**2"),
    Law("absolute value of an opposite", "Abs(a - b)", "Abs(b - a)"),
    Law("absolute value of what is not negative", "Abs(1 + a**2)", "1 + a**2"),
    Law("absolute value of factors", "Abs(a**2 - b**2)", "Abs(a - b)*Abs(a + b)"),
    Law("absolute value of a sum of squares", "Abs(a**2 + a*b + b**2)", "a**2 + a*b + b**2"),
    Law("sign by conditions", "sign(a)", "Piecewise((1, a > 0), (0, a >= 0), (-1, True))"),
    Law("fraction of a common denominator", "a/(1 + c**2) + b/(1 + c**2)", "(a + b)/(1 + c**2)"),
    Law("remainder of a numerator", "c**2/(1 + c**2)", "1 - 1/(1 + c**2)"),
    Law("maximum of two", "Max(a, b)", "(a + b + Abs(a - b))/2"),
    Law("minimum", "Min(a, b, c)", "-Max(-a, -b, -c)"),
    Law("nested maxima", "Max(Max(a, b), c)", "Max(a, b, c)"),
    Law("maximum of an absolute value", "Max(Abs(a), b)", "Max(a, -a, b)"),
    Law("shift of a maximum", "Max(a + c, b + c, c)", "Max(a, b, 0) + c"),
    Law("scale of a maximum", "Max(a*c, b*c, c)", "c*Max(a, b, 1)", "c >= 0"),
    Law(
        "slope of a maximum in a maximum",
        "Max(2*Max(a, b, c) + 1, a)",
        "Max(2*a + 1, 2*b + 1, 2*c + 1, a)",
    ),
    Law("a smaller entry", "Max(exp(a), 0, -b**2)", "exp(a)"),
    Law("a maximum and a mean of its entries", "Abs(Max(a, -a, b))", "Max(a, -a, b)"),
    Law("increasing function of a maximum", "Max(a**3, b**3, c**3)", "Max(a, b, c)**3"),
    Law("root of a maximum", "Max(sqrt(1 + exp(a)), sqrt(1 + exp(b)))", "sqrt(1 + exp(Max(a, b)))"),
    Law("decreasing function of a maximum", "Max(exp(-a), exp(-b), exp(-c))", "exp(-Min(a, b, c))"),
    Law("function of an absolute value", "Max(a*Abs(a), b*Abs(b))", "Max(a, b)*Abs(Max(a, b))"),
    Law(
        "sum with exp of a maximum",
        "Max(a + exp(a), b + exp(b), c + exp(c))",
        "Max(a, b, c) + exp(Max(a, b, c))",
    ),
    Law("rounded maximum", "Max(floor(a), floor(b), floor(c))", "floor(Max(a, b, c))"),
    Law("integer beside a rounded number", "floor(a + 2*floor(b))", "floor(a) + 2*floor(b)"),
    Law("rounding up", "ceiling(a)", "-floor(-a)"),
    Law("rounding twice", "floor((floor(a) + 1)/3)", "floor((a + 1)/3)"),
    Law("multiple that is rounded", "floor(2*a)", "floor(a) + floor(a + 1/2)"),
    Law("bounds of a rounded number", "Max(a - 1, Min(floor(a), a))", "floor(a)"),
    Law("remainder of an integer", "Mod(floor(a)**2, 4)", "Mod(floor(a), 2)"),
    Law(
        "condition on a rounded number",
        "Piecewise((b, floor(a) > 3/2), (0, True))",
        "Piecewise((b, a >= 2), (0, True))",
    ),
    Law(
        "condition on integers",
        "Piecewise((c, 2*floor(a) > 2*floor(b) + 1), (0, True))",
        "Piecewise((c, floor(a) - floor(b) >= 1), (0, True))",
    ),
    Law(
        "fraction of an integer rounded up",
        "ceiling(floor(a)/3)",
        "floor(a) - floor(2*floor(a)/3)",
    ),
    Law("remainder", "Mod(a, b)", "a - b*floor(a/b)", "b > 0"),
    Law("quotient", "Quotient(a, b)", "floor(a/b)", "b > 0"),
    Law(
        "choice",
        "Piecewise((a, c > 0), (b, True))",
        "b + (a - b)*Piecewise((1, c > 0), (0, True))",
    ),
    Law(
        "function of a choice",
        "exp(Piecewise((a, c > 0), (b, True)))",
        "Piecewise((exp(a), c > 0), (exp(b), True))",
    ),
    Law(
        "opposite condition",
        "Piecewise((a, ~(c > 0)), (b, True))",
        "Piecewise((b, c > 0), (a, True))",
    ),
    Law(
        "conjunction",
        "Piecewise((a, (b > 0) & (c > 0)), (0, True))",
        "a*Piecewise((1, b > 0), (0, True))*Piecewise((1, c > 0), (0, True))",
    ),
    Law(
        "disjunction",
        "Piecewise((a, (b > 0) | (c > 0)), (0, True))",
        "Piecewise((0, (b <= 0) & (c <= 0)), (a, True))",
    ),
    Law(
        "exclusive disjunction",
        "Piecewise((a, Xor(b > 0, c > 0)), (0, True))",
        "Piecewise((0, (b > 0) & (c > 0)), (a, (b > 0) | (c > 0)), (0, True))",
    ),
    Law("numbers are not NaN", "Piecewise((0, isnan(a*exp(c))), (b, True))", "b"),
    Law(
        "numbers are finite",
        "Piecewise((0, isinf(a)), (b, isfinite(a) & (c > 0)), (1, True))",
        "Piecewise((b, c > 0), (1, True))",
    ),
    Law(
        "exclusive disjunction with a test",
        "Piecewise((a, Xor(isfinite(b), c > 0)), (0, True))",
        "Piecewise((0, c > 0), (a, True))",
    ),
    Law("condition that always holds", "exp(a) > 0", "Eq(1, 1)"),
    Law(
        "equal values in a case",
        "Piecewise((Abs(a - b) + c, (a >= b) & (a <= b)), (c, True))",
        "c",
    ),
    Law(
        "equality",
        "Piecewise((a, Eq(b, c)), (0, True))",
        "Piecewise((a, (b <= c) & (b >= c)), (0, True))",
    ),
    Law(
        "positive factor of a condition",
        "Piecewise((a, b*c > c), (0, True))",
        "Piecewise((a, b > 1), (0, True))",
        "c > 0",
    ),
    Law(
        "condition on a product",
        "Piecewise((c, a*b > 0), (0, True))",
        "Piecewise((c, ((a > 0) & (b > 0)) | ((a < 0) & (b < 0))), (0, True))",
    ),
    Law(
        "condition on factors",
        "Piecewise((c, a**2 <= b**2), (0, True))",
        "Piecewise((c, Abs(a) <= Abs(b)), (0, True))",
    ),
    Law(
        "condition on a power",
        "Piecewise((b, a**3 >= 0), (0, True))",
        "Piecewise((b, a >= 0), (0, True))",
    ),
    Law(
        "condition on increasing functions",
        "Piecewise((a, exp(b) > exp(c)), (0, True))",
        "Piecewise((a, b > c), (0, True))",
    ),
    Law("sum of a factor", "Sum[j:3](b*A[j])", "b*Sum[j:3](A[j])"),
    Law("sum in parts", "Sum[j:3](A[j])", "Sum[j:1](A[j]) + Sum[j:1:3](A[j])"),
    Law("sum of powers of an index", "Sum[j:9](a*j**3)", "1296*a"),
    Law("sum of two indices", "Sum[j:3,k:3](A[j]*A[k]*a)", "a*Sum[j:3](A[j])**2"),
    Law("product in parts", "Prod[j:3](A[j])", "Prod[j:1](A[j])*Prod[j:1:3](A[j])"),
    Law("product of exp", "Prod[j:3](exp(a*A[j]))", "exp(a*Sum[j:3](A[j]))"),
    Law("product of a power", "Prod[j:3](a*A[j]**2)", "a**3*Prod[j:3](A[j])**2"),
    Law("maximum in parts", "Max[j:3](A[j])", "Max(Max[j:2](A[j]), Max[j:1:3](A[j]))"),
    Law(
        "maximum over two indices",
        "Max[j:3,k:3](A[j] + a*A[k])",
        "Max[j:3](A[j]) + Max[k:3](a*A[k])",
    ),
    Law(
        "maximum of products over two indices",
        "Max[j:3,k:3](exp(A[j])*A[k]**2)",
        "Max[j:3](exp(A[j]))*Max[k:3](A[k]**2)",
    ),
    Law(
        "never falling function of a maximum",
        "Max[j:3](Min(A[j], a))",
        "Min(Max[j:3](A[j]), a)",
    ),
    Law(
        "exp of minus infinity",
        "exp(Piecewise((a, c > 0), (-inf, True)))",
        "Piecewise((exp(a), c > 0), (0, True))",
    ),
)
