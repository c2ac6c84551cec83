"""The functions of Python, NumPy and torch that the notation has not, as the notation has them: a
new name is a row of a table (design §13).
"""

from __future__ import annotations

# The letters stand for the operands, in order.
ELEMENTWISE: dict[str, str] = {
    "relu": "Max(a, 0)",
    "relu6": "Min(Max(a, 0), 6)",
    "leaky_relu": "Piecewise((a, a > 0), (b*a, True))",
    "elu": "Piecewise((a, a > 0), (exp(a) - 1, True))",
    "sigmoid": "1/(1 + exp(-a))",
    "expit": "1/(1 + exp(-a))",
    "silu": "a/(1 + exp(-a))",
    "swish": "a/(1 + exp(-a))",
    "gelu": "a*(1 + erf(a/sqrt(2)))/2",
    "softplus": "log(1 + exp(a))",
    "softsign": "a/(1 + Abs(a))",
    "hardsigmoid": "Min(Max(a/6 + 1/2, 0), 1)",
    "hardswish": "a*Min(Max(a/6 + 1/2, 0), 1)",
    "abs": "Abs(a)",
    "absolute": "Abs(a)",
    "fabs": "Abs(a)",
    "maximum": "Max(a, b)",
    "fmax": "Max(a, b)",
    "minimum": "Min(a, b)",
    "fmin": "Min(a, b)",
    "clip": "Min(Max(a, b), c)",
    "clamp": "Min(Max(a, b), c)",
    "pow": "a**b",
    "power": "a**b",
    "square": "a**2",
    "sqr": "a**2",
    "rsqrt": "1/sqrt(a)",
    "cbrt": "a**(1/3)",
    "reciprocal": "1/a",
    "neg": "-a",
    "negative": "-a",
    "add": "a + b",
    "subtract": "a - b",
    "sub": "a - b",
    "multiply": "a*b",
    "mul": "a*b",
    "divide": "a/b",
    "div": "a/b",
    "true_divide": "a/b",
    "floor_divide": "floor(a/b)",
    "mod": "Mod(a, b)",
    "remainder": "Mod(a, b)",
    "exp2": "2**a",
    "expm1": "exp(a) - 1",
    "log1p": "log(1 + a)",
    "log2": "log(a)/log(2)",
    "log10": "log(a)/log(10)",
    "ln": "log(a)",
    "ceil": "ceiling(a)",
    "round": "floor(a + 1/2)",
    "rint": "floor(a + 1/2)",
    "trunc": "sign(a)*floor(Abs(a))",
    "hypot": "sqrt(a**2 + b**2)",
    "lgamma": "loggamma(a)",
    "gammaln": "loggamma(a)",
    "arcsin": "asin(a)",
    "arccos": "acos(a)",
    "arctan": "atan(a)",
    "arctan2": "atan2(a, b)",
    "arcsinh": "asinh(a)",
    "arccosh": "acosh(a)",
    "arctanh": "atanh(a)",
    "where": "Piecewise((b, a), (c, True))",
    "select": "Piecewise((b, a), (c, True))",
    "equal": "Eq(a, b)",
    "eq": "Eq(a, b)",
    "not_equal": "Ne(a, b)",
    "ne": "Ne(a, b)",
    "greater": "a > b",
    "gt": "a > b",
    "greater_equal": "a >= b",
    "ge": "a >= b",
    "less": "a < b",
    "lt": "a < b",
    "less_equal": "a <= b",
    "le": "a <= b",
    "logical_and": "a & b",
    "logical_or": "a | b",
    "logical_not": "~a",
    "float": "a",
    "int": "floor(a)",
    "half": "f16(a)",
}
DEFAULTS: dict[str, dict[str, str]] = {"leaky_relu": {"b": "0.01"}}
ONE_SIDED = {"clip": ("Max(a, b)", "Min(a, c)"), "clamp": ("Max(a, b)", "Min(a, c)")}
LETTER_OF_KEYWORD = {"min": "b", "max": "c", "a_min": "b", "a_max": "c", "negative_slope": "b"}
# `a` is the operand, `reduce` the reduction of what it is applied to over the indices in question,
# `size` how many points these have, `again` the same operand with indices of its own.
REDUCTIONS: dict[str, str] = {
    "sum": "Sum(a)",
    "nansum": "Sum(a)",
    "prod": "Prod(a)",
    "max": "Max(a)",
    "amax": "Max(a)",
    "min": "Min(a)",
    "amin": "Min(a)",
    "mean": "Sum(a)/size",
    "average": "Sum(a)/size",
    "norm": "sqrt(Sum(a**2))",
    "logsumexp": "log(Sum(exp(a)))",
    "all": "Min(a)",
    "any": "Max(a)",
}
SOFTMAX = {"softmax": "exp(a)/Sum(exp(again))", "log_softmax": "a - log(Sum(exp(again)))"}
PRODUCTS = ("matmul", "dot", "mm", "bmm", "inner", "mv")
AXIS_KEYWORDS = ("axis", "dim", "axes", "dims")
OPERATORS_OF_TENSORS = """
    adaptive_avg_pool adaptive_max_pool argmax argmin attention avg_pool1d avg_pool2d
    avg_pool3d banded_attention batch_norm broadcast_to cast concat conv1d conv2d conv3d
    conv_transpose1d conv_transpose2d conv_transpose3d cumprod cumsum depthwise_conv1d
    depthwise_conv2d depthwise_conv3d diagonal flatten flip g2bmm gbmm group_norm
    instance_norm layer_norm linear max_pool1d max_pool2d max_pool3d pad pixel_shuffle
    pixel_unshuffle repeat reshape rms_norm roll split squeeze stack take tile transpose
    tril triu unfold unsqueeze variance
"""
# Operators of `einalg.ops` that are no function of elements.
OF_WHOLE_TENSORS = frozenset(OPERATORS_OF_TENSORS.split())
FOREIGN = {*ELEMENTWISE, *REDUCTIONS, *SOFTMAX, *PRODUCTS}
