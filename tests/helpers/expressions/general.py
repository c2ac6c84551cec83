"""Expressions of inputs alone."""

from __future__ import annotations

from typing import Any

import sympy

import einalg as ea
from einalg.language.ir.program import Program, statement_tensor
from tests.helpers.expressions.registry import EXPRESSIONS, expression

n, h, w, f, c, r, s = ea.indices("n h w f c r s")
i, j, k, m, q, t = ea.indices("i j k m q t")
inf = sympy.oo


def conv(
    stride: int,
    dilation: int,
    before: int,
    after: int,
    size: int = 9,
    kernel: int = 3,
    dtype: str = "i32",
) -> Any:
    a = ea.tensor("A", (2, size, size + 1, 3), dtype)
    weights = ea.tensor("K", (kernel, kernel, 5, 3), dtype)
    out = (size + before + after - dilation * (kernel - 1) - 1) // stride + 1
    wide = (size + 1 + before + after - dilation * (kernel - 1) - 1) // stride + 1
    read = a.pad(0, (before, after), (before, after), 0)[
        n, stride * h + dilation * r - before, stride * w + dilation * s - before, c
    ]
    return ea.L[n, h:out, w:wide, f](ea.Sum[r, s, c](read * weights[r, s, f, c]))


for _stride, _dilation, _before, _after in (
    (1, 1, 1, 1),
    (2, 1, 1, 0),
    (3, 1, 0, 2),
    (1, 2, 2, 2),
    (2, 3, 3, 1),
    (1, 1, 0, 0),
):
    EXPRESSIONS[f"conv_stride{_stride}_dilation{_dilation}_pad{_before}{_after}"] = (
        lambda a=_stride, b=_dilation, c=_before, d=_after: conv(a, b, c, d)
    )


@expression
def conv_float() -> Any:
    return conv(1, 1, 1, 1, dtype="f32")


@expression
def conv_channels_first() -> Any:
    a, weights = ea.tensor("A", (1, 3, 7, 11), "f64"), ea.tensor("K", (4, 3, 3, 3), "f64")
    return ea.L[n, f, h:7, w:11](
        ea.Sum[c, r, s](a.pad(0, 0, 1, 1)[n, c, h + r - 1, w + s - 1] * weights[f, c, r, s])
    )


@expression
def conv_rows_of_outputs() -> Any:
    a, weights = ea.tensor("A", (1, 4, 3, 9), "i64"), ea.tensor("K", (3, 3, 9, 140), "i64")
    return ea.L[n, h:4, w:3, f](
        ea.Sum[r, s, c](a.pad(0, 1, 1, 0)[n, h + r - 1, w + s - 1, c] * weights[r, s, c, f])
    )


@expression
def conv_long_rows() -> Any:
    a, weights = ea.tensor("A", (5, 200), "i64"), ea.tensor("K", (90,), "i64")
    return ea.L[i, j:200](ea.Sum[k](a.pad(0, 45)[i, j + k - 45] * weights[k]))


@expression
def negative_starts() -> Any:
    a, weights = ea.tensor("A", ((-3, 6), (2, 9)), "i32"), ea.tensor("K", ((-1, 2), (-1, 2)), "i32")
    return ea.L[h:-4:7, w:1:10](ea.Sum[r, s](a.pad(2, 2)[h + r, w + s] * weights[r, s]))


@expression
def max_pool() -> Any:
    return ea.L[n:2, h:5, w:6, c:3](
        ea.Max[r:3, s:3](
            ea.tensor("A", (2, 9, 11, 3)).pad(0, 1, 1, 0, fill=-inf)[
                n, 2 * h + r - 1, 2 * w + s - 1, c
            ]
        )
    )


@expression
def min_pool_of_integers() -> Any:
    return ea.L[c:3, h:9, w:9](
        ea.Min[r:2, s:3](
            ea.tensor("A", (3, 9, 9), "i32").pad(0, (0, 1), 1, fill=inf)[c, h + r, w + s - 1]
        )
    )


@expression
def max_pool_of_a_padded_copy_of_bytes() -> Any:
    copy = ea.L[h, w:5](ea.tensor("A", (30, 3), "i8").pad(0, 1, fill=-inf)[h, w - 1])
    return Program(
        [("T", copy), ("O", ea.L[h:30, w:3](ea.Max[r:3](statement_tensor("T", copy)[h, w + r])))]
    )


@expression
def extremes_of_truths() -> Any:
    a = ea.tensor("A", (60,), "bool")
    return ea.L[i:20](
        ea.Max[k:60](a[k], where=sympy.Eq(k % 20, i))
        + 2 * ea.Min[k:60](a[k], where=sympy.Eq(k % 20, i))
    )


@expression
def large_max_pool() -> Any:
    return ea.L[c:2, h:12, w:13](
        ea.Max[r:9, s:9](
            ea.tensor("A", (2, 12, 13)).pad(0, 4, 4, fill=-inf)[c, h + r - 4, w + s - 4]
        )
    )


@expression
def transposed_conv() -> Any:
    table = ea.tensor("T", (1, 4, 5, 4, 4, 3), "i32")
    read = table.pad(0, 1, 1, 0, 0, 0)[n, (h + 1 - r) // 2, (w + 1 - s) // 2, r, s, f]
    return ea.L[n:1, h:8, w:10, f:3](
        ea.Sum[r:4, s:4](read, where=(sympy.Eq((h + 1 - r) % 2, 0), sympy.Eq((w + 1 - s) % 2, 0)))
    )


@expression
def transposed_conv_odd() -> Any:
    a, weights = ea.tensor("A", (2, 5, 4), "i64"), ea.tensor("K", (3, 2, 4, 20), "i64")
    read = a.pad(0, (1, 1), 0)[n, (h - r) // 3, c]
    return ea.L[n, h:15, f](
        ea.Sum[r:3, s:2, c](read * weights[r, s, c, f], where=sympy.Eq((h - r) % 3, 0))
    )


@expression
def transposed_conv_channels_first() -> Any:
    table = ea.tensor("T", (3, 3, 3, 7, 6), "i32")
    read = table.pad(0, 0, 0, 1, 1)[r, s, f, (h + 1 - r) // 2, (w + 1 - s) // 2]
    return ea.L[f:3, h:13, w:11](
        ea.Sum[r:3, s:3](read, where=(sympy.Eq((h + 1 - r) % 2, 0), sympy.Eq((w + 1 - s) % 2, 0)))
    )


@expression
def offset_add() -> Any:
    table = ea.tensor("T", (2, 7, 6, 3, 3, 19), "i32")
    return ea.L[n, h:7, w:6, f](
        ea.Sum[r, s](table.pad(0, 1, 1, 0, 0, 0)[n, h + r - 1, w + s - 1, r, s, f])
    )


@expression
def offset_add_channels_first() -> Any:
    table = ea.tensor("T", (2, 3, 4, 4, 9, 21))
    return ea.L[n, f, h:9, w:21](
        ea.Sum[r, s](table.pad(0, 0, 0, 0, (1, 2), (2, 1))[n, f, r, s, h + r - 1, w + s - 2])
    )


@expression
def offset_add_of_few() -> Any:
    table = ea.tensor("T", (5, 5, 5, 5, 1), "i32")
    return ea.L[h:5, w:5, f](ea.Sum[r, s](table.pad(2, 2, 0, 0, 0)[h + r - 2, w + s - 2, r, s, f]))


@expression
def triangle() -> Any:
    a, b = ea.tensor("A", (9, 7), "i32"), ea.tensor("B", (9, 7), "i32")
    return ea.L[i, j:9](ea.Sum[k](a[i, k] * b[j, k]), where=i >= j)


@expression
def triangular_sum() -> Any:
    a = ea.tensor("A", (90, 90), "i64")
    return ea.L[i, j:90](ea.Sum[k:90](a[i, k] * a[k, j], where=(k <= i, k >= j)))


@expression
def long_triangular_sum() -> Any:
    return ea.L[i:130](ea.Sum[k:130](ea.tensor("A", (130,), "i64")[k], where=2 * k <= i + 1))


@expression
def diagonal_only() -> Any:
    return ea.L[i:6, j:6](ea.tensor("A", (6, 6), "i32")[i, j], where=sympy.Eq(i, j))


@expression
def condition_guards_reads() -> Any:
    return ea.L[i:8, j:8](ea.Sum[k:3](ea.tensor("A", (10,), "i32")[i + j + k]), where=i + j <= 7)


@expression
def condition_guards_hoisted_reads() -> Any:
    return ea.L[i:9, j:4](
        ea.Sum[k:70](ea.tensor("A", (74,), "i32")[i + k]) * ea.tensor("B", (4,), "i32")[j],
        where=i <= 4 - j,
    )


@expression
def softmax() -> Any:
    a = ea.tensor("A", (3, 21))
    peak = ea.Max[k:21](a[i, k])
    return ea.L[i, j](sympy.exp(a[i, j] - peak) / ea.Sum[m:21](sympy.exp(a[i, m] - peak)))


@expression
def softmax_over_rows() -> Any:
    a = ea.tensor("A", (17, 9), "f64")
    peak = ea.Max[k:17](a[k, j])
    return ea.L[i, j](sympy.exp(a[i, j] - peak) / ea.Sum[m:17](sympy.exp(a[m, j] - peak)))


@expression
def centred() -> Any:
    a = ea.tensor("A", (4, 70), "f64")
    return ea.L[i, j](a[i, j] - ea.Sum[k:70](a[i, k]) / 70 + ea.Sum[q:4, t:70](a[q, t]) / 280)


@expression
def layer_norm() -> Any:
    a = ea.tensor("A", (3, 40))
    mean = ea.Sum[k:40](a[i, k]) / 40
    return ea.L[i, j](
        (a[i, j] - mean)
        / sympy.sqrt(ea.Sum[m:40]((a[i, m] - mean) ** 2) / 40 + sympy.Rational(1, 100))
    )


@expression
def reshape() -> Any:
    return ea.L[i:15, j:8](ea.tensor("A", (6, 20), "i32")[(8 * i + j) // 20, (8 * i + j) % 20])


@expression
def image_to_columns() -> Any:
    a = ea.tensor("A", (5, 4, 3), "i32")
    return ea.L[m:20, k:27](a.pad(1, 1, 0)[m // 4 + k // 9 - 1, m % 4 + (k // 3) % 3 - 1, k % 3])


@expression
def quotients_of_negatives() -> Any:
    a, b = ea.tensor("A", ((-3, 3),), "i32"), ea.tensor("B", (7, 4), "i32")
    return ea.L[i:-9:9](a[i // 3] + 10 * b[(-i) % 7, (2 * i - 1) % 4])


@expression
def quotients_of_negatives_in_vectors() -> Any:
    a = ea.tensor("A", (6, 5), "i32")
    return ea.L[i:4, j:-20:20](a[(j - i) // 8 + 3, (-3 * j + i) % 5] * ((j - 2) // 7) + j % 6)


@expression
def two_remainders() -> Any:
    return ea.L[i:2](ea.tensor("A", (2,), "i32")[(-i) % 2])


@expression
def depth_to_space() -> Any:
    return ea.L[c:3, h:8, w:10](
        ea.tensor("A", (12, 4, 5), "i32")[4 * c + 2 * (h % 2) + w % 2, h // 2, w // 2]
    )


@expression
def space_to_depth_with_a_tail() -> Any:
    return ea.L[h:7, c:3](
        ea.tensor("A", (3, 9), "i32").pad(0, (1, 0))[c, 3 * (h // 3) + h % 3 - 1]
        + (h % 3) * (h // 2)
    )


@expression
def grouped_sum() -> Any:
    a, b = ea.tensor("A", (9, 20), "i64"), ea.tensor("B", (180,), "i64")
    return ea.L[i:4](ea.Sum[k:180](a[k // 20, k % 20] * b[k] * i))


@expression
def grouped_sum_with_a_tail() -> Any:
    return ea.L[i:4](ea.Sum[k:170](ea.tensor("A", (9, 20), "i64")[k // 20, k % 20] * (i + k % 3)))


@expression
def strided_remainders() -> Any:
    return ea.L[i:3, j:30](
        ea.Sum[k:80](ea.tensor("A", (3, 80), "i64")[i, k], where=sympy.Eq((k - j) % 4, 1))
    )


@expression
def transposed() -> Any:
    return ea.L[i:67, j:45](ea.tensor("A", (45, 67), "i32")[j, i])


@expression
def channels_last() -> Any:
    return ea.L[n:2, c:33, h:3, w:40](ea.tensor("A", (2, 3, 40, 33), "i32")[n, h, w, c])


@expression
def transposed_with_padding() -> Any:
    return ea.L[i:66, j:64](
        ea.tensor("A", (60, 64), "i32").pad((1, 3), (2, 0), fill=7)[j - 1, i - 2]
    )


@expression
def reversed_order() -> Any:
    return ea.L[i:5, j:37](ea.tensor("A", (5, 37), "i32")[4 - i, 36 - j])


@expression
def rows_that_run_on() -> Any:
    return ea.L[n:2, h:3, w:5, c:3](
        ea.Max(ea.tensor("A", (2, 3, 5, 3))[n, h, w, c], 0)
        + ea.tensor("B", ((1, 3), (-1, 2), 5, 3))[n + 1, h - 1, w, c]
    )


@expression
def bias() -> Any:
    return ea.L[n, h, c](ea.tensor("A", (2, 5, 3), "i32")[n, h, c] + ea.tensor("B", (3,), "i32")[c])


@expression
def empty_output() -> Any:
    return ea.L[i:0, j:5](ea.tensor("A", (0, 5), "i32")[i, j])


@expression
def empty_sum() -> Any:
    return ea.L[i:3](ea.Sum[k:0](ea.tensor("A", (3, 0), "i32")[i, k]) + 4)


@expression
def empty_product() -> Any:
    return ea.L[i:3](ea.Prod[k:0](ea.tensor("A", (3, 0), "i32")[i, k]))


@expression
def empty_maximum() -> Any:
    return ea.L[i:3](ea.Max[k:0](ea.tensor("A", (3, 0))[i, k]))


@expression
def empty_tensor_read_through_padding() -> Any:
    return ea.L[i:5](ea.tensor("A", (0,), "i32").pad(5, fill=3)[i])


@expression
def unit_sizes() -> Any:
    a, weights = ea.tensor("A", (1, 1, 1, 1), "i32"), ea.tensor("K", (1, 1, 1, 1), "i32")
    return ea.L[n, h:2, w:-1:1, f](
        ea.Sum[r, s, c](a.pad(0, 1, 1, 0)[n, h + r, w + s, c] * weights[r, s, f, c])
    )


@expression
def single_number() -> Any:
    return ea.L[()](ea.Sum[i, j](ea.tensor("A", (7, 13), "i32")[i, j]))


@expression
def scalar_tensor() -> Any:
    return ea.L[i:3](ea.tensor("A", (), "i32")[()] * i)


@expression
def piecewise_of_indices() -> Any:
    a = ea.tensor("A", (6, 20), "i32")
    return ea.L[i, j](
        sympy.Piecewise((a[i, j], j >= i + 4), (-a[i, j], sympy.Eq(j, 2)), (i - 2 * j, True))
    )


@expression
def piecewise_of_values() -> Any:
    a = ea.tensor("A", (40,), "f64")
    return ea.L[i](
        sympy.Piecewise((a[i], a[i] > 1), (2 * a[i] - 1, (a[i] > -1) & sympy.Ne(i, 3)), (0, True))
    )


@expression
def band_mask() -> Any:
    a = ea.tensor("A", (12, 12))
    return ea.L[i, j](sympy.Piecewise((a[i, j], sympy.And(i - j <= 2, j - i <= 3)), (-inf, True)))


@expression
def product_of_padded() -> Any:
    return ea.L[i:8](ea.Prod[k:3](ea.tensor("A", (6,), "i32").pad((2, 2), fill=1)[i + k - 2]))


@expression
def product_fill_zero() -> Any:
    return ea.L[i:8](ea.Prod[k:3](ea.tensor("A", (6,), "i32").pad(2)[i + k - 2]) + 1)


@expression
def minimum_of_sums() -> Any:
    a, b = ea.tensor("A", (5, 80), "i32"), ea.tensor("B", (80, 30), "i32")
    return ea.L[i, j](ea.Min[k](a[i, k] + b[k, j]))


@expression
def squared_difference_with_padding() -> Any:
    a, weights = ea.tensor("A", (12,), "i32"), ea.tensor("K", (5,), "i32")
    return ea.L[i:12](ea.Sum[k]((a.pad(2, fill=3)[i + k - 2] - weights[k]) ** 2))


@expression
def long_squared_difference_with_padding() -> Any:
    a, weights = ea.tensor("A", (40,), "i64"), ea.tensor("K", (90,), "i64")
    return ea.L[i:40](ea.Sum[k]((a.pad(45, fill=-2)[i + k - 45] - weights[k]) ** 2))


@expression
def joined() -> Any:
    a, b, d = (
        ea.tensor("A", (4, 3), "i32"),
        ea.tensor("B", (4, 5), "i32"),
        ea.tensor("D", (4, 2), "i32"),
    )
    parts = a.pad(0, (0, 7))[i, j], b.pad(0, (3, 2))[i, j - 3], d.pad(0, (8, 0))[i, j - 8]
    return ea.L[i, j:10](sum(parts, sympy.S.Zero))


@expression
def joined_maximum() -> Any:
    a, b = ea.tensor("A", (6,)), ea.tensor("B", (9,))
    return ea.L[i:15](ea.Max(a.pad((0, 9), fill=-inf)[i], b.pad((6, 0), fill=-inf)[i - 6]))


@expression
def padded_twice() -> Any:
    return ea.L[i:-4:9](ea.tensor("A", (4,), "i32").pad((1, 2), fill=5).pad((3, 3), fill=-1)[i])


@expression
def nested_sums() -> Any:
    a, b = ea.tensor("A", (4, 9), "i64"), ea.tensor("B", (9, 80), "i64")
    return ea.L[i](ea.Sum[k](a[i, k] * ea.Max[m](b[k, m] * a[i, k])))


@expression
def nested_sum_that_stays_outside() -> Any:
    a, b = ea.tensor("A", (4, 80), "i64"), ea.tensor("B", (80, 6), "i64")
    return ea.L[i, j](ea.Sum[k:80]((a[i, k] - ea.Min[m:80](a[i, m])) * b[k, j]))


@expression
def same_index_in_two_sums() -> Any:
    a = ea.tensor("A", (5, 8), "i64")
    return ea.L[i](ea.Sum[k:8](a[i, k]) * ea.Sum[k:2:5](a[i, k]) + ea.Sum[k:1](3))


@expression
def mixed_types() -> Any:
    a, b, d = ea.tensor("A", (6,), "i8"), ea.tensor("B", (6,), "f32"), ea.tensor("D", (6,), "u16")
    return ea.L[i](a[i] * b[i] + d[i] / 2 + i)


@expression
def integers_of_several_widths() -> Any:
    a, b = ea.tensor("A", (6,), "i8"), ea.tensor("B", (6,), "i64")
    return ea.L[i](a[i] * a[i] * a[i] * b[i] - a[i])


@expression
def half_precision() -> Any:
    a, b = ea.tensor("A", (3, 30), "f16"), ea.tensor("B", (30,), "f16")
    return ea.L[i, j](a[i, j] * b[j] + ea.Sum[k:30](a[i, k] * b[k]) / 4)


@expression
def brain_float() -> Any:
    return ea.L[i](ea.tensor("A", (9,), "bf16")[i] * 3)


@expression
def truth_values() -> Any:
    a, b = ea.tensor("A", (20,), "bool"), ea.tensor("B", (20,), "i32")
    return ea.L[i](sympy.Piecewise((b[i], a[i] > 0), (-b[i], True)) + ea.Sum[k:20](a[k]))


@expression
def comparison() -> Any:
    return ea.L[i, j](ea.tensor("A", (4, 9), "i32")[i, j] > ea.tensor("B", (9,), "i32")[j])


@expression
def any_of() -> Any:
    return ea.L[i](ea.Max[k](ea.tensor("A", (4, 90), "bool")[i, k]))


@expression
def constant() -> Any:
    return ea.L[i:4, j:20](sympy.Integer(3) - 5 * j)


@expression
def large_products_of_indices() -> Any:
    return ea.L[i:99_990:100_003, j:99_990:100_003](i * j - ea.tensor("A", (4,), "i64")[j % 4])


@expression
def hole_behind_padding() -> Any:
    lower_left = ea.L[i:6, j:6](ea.tensor("A", (6, 6), "i32")[i, j], where=i >= j)
    table = statement_tensor("T", lower_left)
    return Program(
        [
            ("T", lower_left),
            ("O", ea.L[i:8, j:6](table.pad(1, 0, fill=9)[i - 1, j] + table.pad(1, 0)[i - 1, j])),
        ]
    )


@expression
def maximum_over_a_hole() -> Any:
    band = ea.L[i:9, j:9](ea.tensor("A", (9, 9), "f64")[i, j], where=(i - j <= 2, j - i <= 1))
    table = statement_tensor("T", band)
    return Program([("T", band), ("O", ea.L[i:9](ea.Max[k:9](table.pad(0, 0, fill=-inf)[i, k])))])
