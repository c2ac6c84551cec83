"""Verdicts on rules: proved for all sizes, under a condition, or different with a counterexample."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import product
from typing import Any

import islpy as isl
import pytest

import einalg as ea
from bench.substitutions import with_wrong_leaves
from derive.substitutions.graphs.graph import RuleGraph
from derive.substitutions.graphs.kinds import WrongOperation
from derive.substitutions.graphs.typed_rule import typed
from derive.substitutions.sizes.sizing import OpenSizes
from derive.substitutions.verification.counterexamples import differs_with
from derive.substitutions.verification.refuting import quick_refutation
from derive.substitutions.verification.rule import Substitution
from derive.substitutions.verification.verdict import RuleVerdict
from einalg.errors import EinalgError
from tests.helpers.rule_files import SLOW, conv, op, rule, write

CONCAT = {"axis": 1, "ndim": 4}
FEATURES = {"axis": 0, "ndim": 4}
ALWAYS = [
    rule("distributive", [op("ewadd", 1, 2), op("ewmul", "0", 3)],
         [op("ewmul", 1, 3), op("ewmul", 2, 3), op("ewadd", "0", "1")]),
    rule("associative", [op("matmul", 1, 2), op("matmul", "0", 3)],
         [op("matmul", 2, 3), op("matmul", 1, "0")]),
    rule("repeated leaves", [op("matmul", 4, 5), op("matmul", "0", 4), op("matmul", "0", "1")],
         [op("matmul", 5, 4), op("matmul", 4, "0"), op("matmul", "1", "0")]),
    rule("blocks", [op("matmul", 1, 2), op("matmul", 3, 4), op("ewadd", "0", "1")],
         [op("concat", 1, 3, axis=1), op("concat", 2, 4, axis=0), op("matmul", "0", "1")]),
    rule("transposed", [op("matmul", 1, 2), op("transpose", "0", perm=[1, 0])],
         [op("transpose", 2, perm=[1, 0]), op("transpose", 1, perm=[1, 0]),
          op("matmul", "0", "1")]),
    rule("split", [op("concat", 1, 2, axis=1), op("split", "0", axis=1, n=2)], [],
         {"src": [1, 1], "dst": ["in", 2]}),
    rule("identity matrix", [op("const_imm"), op("matmul", 1, "0")], [],
         {"src": [1, 0], "dst": ["in", 1]}),
    rule("ones", [op("const_one"), op("ewmul", 1, "0")], [],
         {"src": [1, 0], "dst": ["in", 1]}),
    rule("identity kernel", [op("const_iconv", kernel=[3, 3]), conv(1, "0")], [],
         {"src": [1, 0], "dst": ["in", 1]}),
    rule("pooling kernel", [op("const_pool", kernel=[3, 3]), conv(1, "0")],
         [op("poolavg", 1, kernel=[3, 3], stride=[1, 1], pad="same")]),
    rule("scaled", [op("smul", 1, 5), conv("0", 2)], [op("smul", 2, 5), conv(1, "0")]),
    rule("linear", [op("ewadd", 2, 3), conv(1, "0", stride=[2, 2], pad="valid")],
         [conv(1, 2, stride=[2, 2], pad="valid"), conv(1, 3, stride=[2, 2], pad="valid"),
          op("ewadd", "0", "1")]),
    rule("valid", [op("ewadd", 1, 2), conv("0", 3, pad="valid")],
         [conv(1, 3, pad="valid"), conv(2, 3, pad="valid"), op("ewadd", "0", "1")]),
    rule("relu", [conv(1, 2), op("relu", "0")], [conv(1, 2, "relu")]),
    rule("batches", [conv(1, 3, "relu"), conv(2, 3, "relu"), op("concat", "0", "1", **FEATURES)],
         [op("concat", 1, 2, **FEATURES), conv("0", 3, "relu")]),
    rule("pools", [op("poolmax", x, kernel=[3, 3], stride=[1, 1], pad="same") for x in (1, 2)]
         + [op("concat", "0", "1", **CONCAT)],
         [op("concat", 1, 2, **CONCAT), op("poolmax", "0", kernel=[3, 3], stride=[1, 1], pad="same")]),
]  # fmt: skip
SUM_OF_CONVS = rule(
    "sum of convolutions", [conv(1, 2), conv(3, 4), op("ewadd", "0", "1")],
    [op("concat", 1, 3, **CONCAT), op("concat", 2, 4, **CONCAT), conv("0", "1")],
)  # fmt: skip
ENLARGED = rule(
    "merged", [conv(1, 2), conv(1, 3), op("concat", "0", "1", **CONCAT)],
    [op("concat", 2, 3, **FEATURES), conv(1, "0")],
)  # fmt: skip
MERGED_GROUPS = rule(
    "merged groups", [conv(1, 2, "relu"), conv(3, 4, "relu"), op("concat", "0", "1", **CONCAT)],
    [op("concat", 1, 3, **CONCAT), op("concat", 2, 4, **FEATURES), conv("0", "1", "relu")],
)  # fmt: skip


def verdict(folder: Any, content: dict[str, Any]) -> RuleVerdict:
    (one,) = ea.substitutions.load(write(folder, content))
    return ea.substitutions.verify(one)


@pytest.mark.parametrize("content", ALWAYS, ids=lambda content: content["name"])
def test_rules_that_always_hold(content: Any, tmp_path: Any) -> None:
    result = verdict(tmp_path, content)
    assert result and result.condition is None and result.counterexample is None, result
    assert not result.coverage


@pytest.mark.parametrize(
    "content, condition",
    [
        (SUM_OF_CONVS, "one group"),
        (ENLARGED, "one group"),
        (MERGED_GROUPS, "outputs per group equal"),
    ],
)
def test_conditions_on_groups_are_inferred(content: Any, condition: str, tmp_path: Any) -> None:
    result = verdict(tmp_path, content)
    assert (result.verdict, result.condition_text) == ("proved", condition)
    assert result.coverage == "for all sizes" and not result.condition.is_empty()
    (one,) = ea.substitutions.load(write(tmp_path, content))
    assert one.graph is not None and result.counterexample is not None
    assert differs_with(one.graph, result.counterexample)


def without_taps(content: dict[str, Any]) -> dict[str, Any]:
    """Return a rule whose kernels may have any taps."""
    sides = {}
    for side in ("src", "dst"):
        sides[side] = [
            {**one, "params": {k: v for k, v in one["params"].items() if k != "kernel"}}
            for one in content[side]
        ]
    return {**content, **sides}


def test_kernels_of_any_taps_are_proved_at_once(tmp_path: Any) -> None:
    linear = next(content for content in ALWAYS if content["name"] == "linear")
    for content in (linear, next(one for one in ALWAYS if one["name"] == "batches")):
        result = verdict(tmp_path, without_taps(content))
        assert result and result.condition is None and not result.coverage, result


def test_kernels_of_any_taps_have_conditions_on_groups(tmp_path: Any) -> None:
    result = verdict(tmp_path, without_taps(SUM_OF_CONVS))
    assert (result.verdict, result.condition_text) == ("proved", "one group")


def test_rules_that_differ_by_the_names_of_leaves(tmp_path: Any) -> None:
    """Of one that was decided before, the counterexample has the leaves that this one has."""
    for numbers in ((1, 2), (9, 4)):
        result = verdict(
            tmp_path, rule("products", [op("matmul", *numbers)], [op("matmul", *numbers[::-1])])
        )
        assert result.counterexample is not None
        assert {name.partition("_")[0] for name in result.counterexample} == {
            f"x{number}" for number in numbers
        }
        assert result.leaves == {f"x{number}": 2 for number in numbers}


TRANSPOSED = {"perm": [1, 0]}


def wrong_transposes(one: int, two: int) -> list[dict[str, Any]]:
    """Return rules that hold at some sizes only, the last one as a case of one with a new leaf."""
    return [
        rule("product", [op("transpose", two, **TRANSPOSED), op("matmul", one, "0")],
             [op("matmul", one, two)]),
        rule("sum", [op("transpose", one, **TRANSPOSED), op("ewadd", "0", two)],
             [op("ewadd", one, two)]),
        rule("common sigmoid",
             [op("sigmoid", one), op("transpose", "0", **TRANSPOSED), op("ewadd", "1", one),
              op("ewmul", two, "2")],
             [op("sigmoid", one), op("ewadd", "0", one), op("ewmul", two, "1")]),
    ]  # fmt: skip


@pytest.mark.parametrize("numbers", [(1, 2), (2, 1), (7, 3)])
@pytest.mark.parametrize("place", range(3))
def test_conditions_speak_of_the_leaves_of_a_rule(
    tmp_path: Any, numbers: tuple[int, int], place: int
) -> None:
    """The condition allows small sizes at which both sides are equal, and no others."""
    (one,) = ea.substitutions.load(write(tmp_path, wrong_transposes(*numbers)[place]))
    result = ea.substitutions.verify(one)
    assert one.graph is not None and result.counterexample is not None
    names = [f"x{number}_{axis}" for number in numbers for axis in (0, 1)]
    assert set(result.counterexample) == set(names) and set(result.leaves) == {
        f"x{number}" for number in numbers
    }
    shown = set(re.findall(r"x[0-9]+_[0-9]+", f"{result.condition_text} {result.region}"))
    assert shown and shown <= set(names)
    equal = 0
    for values in product(range(1, 3), repeat=len(names)):
        point = dict(zip(names, values))
        if not has_meaning(one.graph, point):
            continue
        texts = [f"{name} = {value}" for name, value in point.items()]
        at = isl.Set(f"[{', '.join(names)}] -> {{ : {' and '.join(texts)} }}")
        differs = differs_with(one.graph, point)
        assert result.condition.intersect(at).is_empty() == differs, point
        equal += not differs
    assert equal


def has_meaning(graph: RuleGraph, sizes: dict[str, int]) -> bool:
    typed_rule = typed(graph)
    axes = {
        axis: sizes[f"{leaf.name}_{place}"]
        for leaf in graph.leaves
        for place, axis in enumerate(typed_rule.tensors[leaf])
    }
    return OpenSizes(typed_rule, {}).at(axes) is not None


DEAD = rule(
    "dead", [op("sigmoid", 1), op("relu", 5), op("ewmul", "0", 2)],
    [op("sigmoid", 1), op("ewmul", "0", "0")], {"src": [2, 0], "dst": [1, 0]},
)  # fmt: skip


def test_leaves_that_no_output_needs(tmp_path: Any) -> None:
    (one,) = ea.substitutions.load(write(tmp_path, DEAD))
    assert one.graph is not None
    for result in (ea.substitutions.verify(one), quick_refutation("dead", one.graph)):
        assert result is not None and result.verdict == "different"
        assert set(result.leaves) == {"x1", "x2", "x5"}
        assert result.counterexample and differs_with(one.graph, result.counterexample)


def test_what_no_relation_decides_has_the_smallest_counterexample(tmp_path: Any) -> None:
    pool: dict[str, Any] = {"kernel": [3, 3], "stride": [1, 1], "pad": "same"}
    before = [op("relu", 1), op("poolmax", "0", **pool)]
    result = verdict(tmp_path, rule("no relu", before, [op("poolmax", 1, **pool)]))
    assert result.verdict == "different" and result.region is not None and not result.coverage
    assert result.counterexample == dict.fromkeys([f"x1_{axis}" for axis in range(4)], 1)


def test_taps_that_a_file_states_count(tmp_path: Any) -> None:
    """A rule of kernels of one tap has no sizes where its file has kernels of nine."""
    content = without_taps(rule("padding", [conv(1, 2)], [conv(1, 2, pad="valid")]))
    (one,) = ea.substitutions.load(write(tmp_path, content))
    assert one.graph is not None
    for taps, expected in ((1, "proved"), (3, "different")):
        shapes = (1, (1, 4, 5, 5)), (2, (4, 4, taps, taps))
        stated = Substitution.of_graph("padding", replace(one.graph, shapes=shapes))
        result = ea.substitutions.verify(stated)
        assert result.verdict == expected and result.counterexample is None
        assert ("at no sizes" in result.coverage) == (expected == "different")


def test_outputs_whose_sizes_exclude_each_other(tmp_path: Any) -> None:
    pairs = [{"src": [place, 0], "dst": [place, 0]} for place in (0, 1)]
    (first,) = without_taps(rule("any taps", [conv(1, 2)], []))["src"]
    (second,) = without_taps(rule("any taps", [conv(1, 2, pad="valid")], []))["src"]
    result = verdict(tmp_path, rule("both", [first, conv(1, 2)], [second, conv(1, 2)], *pairs))
    assert result.verdict == "different" and "at no sizes" in result.coverage


@pytest.mark.parametrize(
    ("content", "condition", "shape"),
    [
        (
            without_taps(rule("padding", [conv(1, 2)], [conv(1, 2, pad="valid")])),
            {"x2_2": 1, "x2_3": 1},
            {"x2_2": 2},
        ),
        (
            rule("exchanged", [op("matmul", 1, 2)], [op("matmul", 2, 1)]),
            {"x1_0": 1, "x1_1": 1},
            {"x1_0": 2},
        ),
        (
            rule("turned", [op("transpose", 1, perm=[1, 0])], [], {"src": [0, 0], "dst": ["in", 1]}),
            {"x1_0": 1, "x1_1": 1},
            {"x1_0": 2},
        ),
        (
            rule("pooled", [op("poolmax", 1, kernel=[1, 1], stride=[2, 2], pad="same")],
                 [op("relu", 1), op("poolmax", "0", kernel=[1, 1], stride=[1, 1], pad="same")]),
            None,
            None,
        ),
    ],
)  # fmt: skip
def test_outputs_of_one_shape_are_a_condition(
    content: Any, condition: Any, shape: Any, tmp_path: Any
) -> None:
    result = verdict(tmp_path, content)
    if condition is None:
        assert result.verdict == "different"
        return
    assert result.verdict == "proved"
    for name, number in condition.items():
        others = result.condition.intersect(isl.Set(f"[{name}] -> {{ : {name} > {number} }}"))
        assert others.is_empty() and name in result.condition_text
    assert not result.condition.is_empty()
    assert shape.items() <= result.counterexample.items()


@pytest.mark.parametrize("kernel", [[1, 1], [3, 3], [1, 3]])
def test_strides_beyond_a_kernel(kernel: list[int], tmp_path: Any) -> None:
    window: dict[str, Any] = {"kernel": kernel, "stride": [2, 3]}
    merged = rule("merged", [conv(1, 2, **window), conv(1, 3, **window),
                             op("concat", "0", "1", **CONCAT)],
                  [op("concat", 2, 3, **FEATURES), conv(1, "0", **window)])  # fmt: skip
    result = verdict(tmp_path, merged)
    assert result.verdict == "proved" and result.condition_text == "one group"


def test_a_condition_on_the_sizes_of_images_is_inferred_for_all_groups(tmp_path: Any) -> None:
    # the padding of a window of 3 begins before the image only where its size is odd
    second: dict[str, Any] = {"stride": [2, 2], "pad": "same"}
    content = rule("enlarged", [conv(1, 2, kernel=[1, 1], **second)],
                   [op("enlarge", 2, kernel=[3, 3]), conv(1, "0", kernel=[3, 3], **second)])  # fmt: skip
    result = verdict(tmp_path, content)
    assert result.verdict == "proved" and not result.coverage, result
    odd = "[x1_0, x1_2, x1_3] -> { : x1_0 > 0 and x1_2 > 0 and x1_3 > 0 and x1_2 mod 2 = 1 and x1_3 mod 2 = 1 }"
    assert result.condition.is_equal(isl.Set(odd).params())
    assert result.counterexample is not None
    assert (result.counterexample["x1_2"] * result.counterexample["x1_3"]) % 2 == 0


def test_positions_of_strides_that_are_joined(tmp_path: Any) -> None:
    # of two images, one below the other, the second begins at a window where the first is even
    second: dict[str, Any] = {"kernel": [1, 1], "stride": [2, 2]}
    content = rule("rows", [op("concat", 1, 2, axis=2), conv("0", 3, **second)],
                   [conv(1, 3, **second), conv(2, 3, **second), op("concat", "0", "1", axis=2)])  # fmt: skip
    result = verdict(tmp_path, content)
    assert (result.verdict, result.condition_text) == ("proved", "(x1_2) mod 2 = 0"), result
    assert result.counterexample is not None and result.counterexample["x1_2"] % 2 == 1
    (one,) = ea.substitutions.load(write(tmp_path, content))
    assert one.graph is not None and differs_with(one.graph, result.counterexample)


def test_strides_that_leave_the_shape_of_one_element(tmp_path: Any) -> None:
    point = {"kernel": [1, 1], "pad": "same"}
    content = rule("pooled", [op("poolmax", 1, stride=[2, 2], **point)],
                   [op("poolmax", 1, stride=[1, 1], **point)])  # fmt: skip
    result = verdict(tmp_path, content)
    assert (result.verdict, result.condition_text) == ("proved", "x1_2 = 1 and x1_3 = 1"), result


def test_relu_of_every_second_element(tmp_path: Any) -> None:
    second = {"kernel": [1, 1], "stride": [2, 2], "pad": "same"}
    content = rule("relu", [op("poolmax", 1, **second), op("relu", "0")],
                   [op("relu", 1), op("poolmax", "0", **second)])  # fmt: skip
    assert verdict(tmp_path, content).is_unconditional


def test_sides_without_an_expression_are_no_difference(tmp_path: Any) -> None:
    window = {"kernel": [2, 2], "stride": [3, 3], "pad": "same"}
    content = rule("relu", [op("poolmax", 1, **window), op("relu", "0")],
                   [op("relu", 1), op("poolmax", "0", **window)])  # fmt: skip
    assert verdict(tmp_path, content).verdict == "unknown"


def test_outputs_that_are_proved_one_by_one(tmp_path: Any) -> None:
    """A rule of two outputs is proved where each is, and not where one is wrong: one of a leaf that
    is read twice is proved with a leaf for each occurrence, which no other output may read.
    """
    for second, expected in ((3, "proved"), (2, "different")):
        src = [op("matmul", 4, 5), op("matmul", "0", 4), op("matmul", "0", "1"), op("ewmul", 1, 3)]
        dst = [op("matmul", 5, 4), op("matmul", 4, "0"), op("matmul", "1", "0"),
               op("ewmul", second, 1)]  # fmt: skip
        pairs = [{"src": [place, 0], "dst": [place, 0]} for place in (2, 3)]
        result = verdict(tmp_path, rule("two", src, dst, *pairs))
        assert result.verdict == expected and not result.coverage, result


@pytest.mark.parametrize("second", [10, 13])
def test_nested_convolutions_are_proved_part_by_part(tmp_path: Any, second: int) -> None:
    """Of any groups in both, as each is proved for any."""
    pool: dict[str, Any] = {"kernel": [3, 3], "stride": [1, 1], "pad": "same"}
    src = [op("poolavg", 1, **pool), conv("0", 10), conv("1", second, "relu")]
    dst = [op("const_pool", kernel=[3, 3]), conv(1, "0"), conv("1", 10), conv("2", second),
           op("relu", "3")]  # fmt: skip
    result = verdict(tmp_path, rule("nested", src, dst))
    assert result and result.condition is None and not result.coverage, result


@pytest.mark.parametrize("content", [ALWAYS[0], ALWAYS[1], ALWAYS[3], ALWAYS[10]])
def test_a_wrong_leaf_is_caught(content: Any, tmp_path: Any) -> None:
    (one,) = ea.substitutions.load(write(tmp_path, content))
    assert one.graph is not None
    wrong = list(with_wrong_leaves(one.graph))
    for graph in wrong:
        try:
            result = ea.substitutions.verify(Substitution.of_graph("wrong", graph))
        except (WrongOperation, ValueError):
            continue  # its ranks don't fit
        assert result.verdict == "different" or result.condition is not None, graph
    assert wrong


GROUPS_AND_OUTPUTS = [
    ((1, 1), (1, 1)),
    ((1, 2), (2, 2)),
    ((2, 3), (1, 1)),
    ((1, 1), (1, 3)),
    ((1, 2), (1, 4)),
    ((2, 2), (1, 3)),
]


@pytest.mark.parametrize("groups, outputs", GROUPS_AND_OUTPUTS)
def test_a_condition_agrees_with_numbers(
    groups: tuple[int, int], outputs: tuple[int, int], tmp_path: Any
) -> None:
    (one,) = ea.substitutions.load(write(tmp_path, MERGED_GROUPS))
    features = [g * p for g, p in zip(groups, outputs)]
    shapes = {1: (1, 2 * groups[0], 2, 2), 3: (1, 2 * groups[1], 2, 2)}
    shapes |= {2: (features[0], 2, 3, 3), 4: (features[1], 2, 3, 3)}
    sizes = {}
    for leaf, shape in shapes.items():
        for axis, number in enumerate(shape):
            sizes[f"x{leaf}_{axis}"] = number
    assert one.graph is not None
    assert differs_with(one.graph, sizes) == (outputs[0] != outputs[1])


def test_groups_that_may_differ_are_not_said_to_be_proved_for_all(tmp_path: Any) -> None:
    chain = rule(
        "chain", [op("smul", 1, 9), conv("0", 2), conv("1", 3)], [conv(1, 2), conv("0", 3), op("smul", "1", 9)]
    )  # fmt: skip
    result = verdict(tmp_path, chain)
    assert result and result.condition is None and "groups" in result.coverage


def test_a_condition_on_some_convolutions_is_not_said_to_be_proved_for_all(tmp_path: Any) -> None:
    both = rule(
        "one group, and any",
        [*ENLARGED["src"], op("smul", 5, 9), conv("3", 6)],
        [*ENLARGED["dst"], conv(5, 6), op("smul", "2", 9)],
        {"src": [2, 0], "dst": [1, 0]},
        {"src": [4, 0], "dst": [3, 0]},
    )
    result = verdict(tmp_path, both)
    assert result.verdict == "proved" and result.condition is not None
    assert "groups" in result.coverage


def test_a_difference_at_some_groups_counts_beside_tests_at_others(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("derive.proof", "derive.proof.all_sizes"):  # what no law proves is tested
        monkeypatch.setattr(f"{module}.shown_equal", lambda *sides, **values: None)
    monkeypatch.setattr("derive.proof.all_sizes.MAX_STEPS", 2_000)  # at few sizes
    one_tap: dict[str, Any] = {"kernel": [1, 1]}
    law = rule(
        "relu(y)**2 is y*relu(y), beside a concatenation of convolutions",
        [conv(1, 2, **one_tap), conv(1, 3, **one_tap), op("concat", "0", "1", **CONCAT), op("relu", 4),
         op("ewmul", "3", "3")],
        [op("concat", 2, 3, **FEATURES), conv(1, "0", **one_tap), op("relu", 4), op("ewmul", 4, "2")],
        {"src": [2, 0], "dst": [1, 0]},
        {"src": [4, 0], "dst": [3, 0]},
    )  # fmt: skip
    result = verdict(tmp_path, law)
    assert result.verdict == "different" and result.counterexample is not None
    (one,) = ea.substitutions.load(write(tmp_path, law))
    assert one.graph is not None and differs_with(one.graph, result.counterexample)


def test_conditions_on_sizes() -> None:
    first = ea.substitutions.Rule("first", "O[i] += A[i,k]", "O[i] = A[i,0]", A=("N", "K"))
    result = ea.substitutions.verify(first)
    assert result.condition_text == "K = 1" and result.counterexample == {"K": 2, "N": 1}
    assert not result.condition.is_empty() and result.region is not None
    assert ea.substitutions.verify(first, sizes={"K": 1}).condition is None
    assert ea.substitutions.verify(first, sizes={"K": 2}).verdict == "different"


def test_equal_shapes_are_no_condition_under_which_values_are_only_tested() -> None:
    # N = M = 100 has too many points to be tried, and the product is no form of sizes
    before, after = (
        "O[i:N] = exp(A[0])",
        "O[i:M] = exp(A[0])*Piecewise((1, N**3 < 10**6), (2, True))",
    )
    sizes = {"N": ea.size("N"), "M": ea.size("M")}
    one = ea.substitutions.Rule("rule", before, after, A=(1,), **sizes)
    assert ea.substitutions.verify(one, sizes={"N": 100, "M": 100}).verdict == "different"
    result = ea.substitutions.verify(one)
    assert (result.verdict, result.condition) == ("different", None), result
    assert result.counterexample == {"M": 1, "N": 2}


def test_a_condition_speaks_of_all_outputs() -> None:
    inputs = {"A": ("N", "K"), "B": ("N", "M")}
    before = ea.parse("P[i] += A[i,k]\nQ[i] += B[i,k]\nP, Q", **inputs)
    after = ea.parse("P[i] = A[i,0]\nQ[i] = B[i,0]\nP, Q", **inputs)
    result = ea.substitutions.verify(ea.substitutions.Rule("both", before, after))
    assert set(result.condition_text.split(" and ")) == {"K = 1", "M = 1"}


def test_outputs_without_sizes_differ_at_all() -> None:
    inputs = {"A": ("N",), "B": (3,)}
    before = ea.parse("P[i] = 2*A[i]\nQ[i] = B[i]\nP, Q", **inputs)
    after = ea.parse("P[i] = A[i] + A[0]\nQ[i] = 2*B[i]\nP, Q", **inputs)
    for sides in ((before, after), (after, before)):
        result = ea.substitutions.verify(ea.substitutions.Rule("both", *sides))
        assert (result.verdict, result.counterexample) == ("different", {"N": 1})


def test_rules_of_a_simplifier() -> None:
    """Slices of concatenations, pads of pads, reductions of broadcasts, products with a batch."""
    ops = ea.ops
    x, y = ea.tensor("x", ("N", "K")), ea.tensor("y", ("M", "K"))
    a, b = ea.tensor("a", ("B", "N", "K")), ea.tensor("b", ("B", "K", "M"))
    row = ea.tensor("row", ("K",))
    N = ea.size("N")
    pairs = [
        (ops.slice(ops.concat([x, y], axis=0), 0, N, axes=0), ops.slice(x, 0, N, axes=0)),
        (ops.pad(ops.pad(x, [(1, 0), (0, 2)]), [(2, 1), (0, 1)]), ops.pad(x, [(3, 1), (0, 3)])),
        (ops.sum(ops.broadcast_to(row, (5, "K")), axes=0), ops.mul(row, 5)),
        (
            ops.transpose(ops.matmul(a, b), (0, 2, 1)),
            ops.matmul(ops.transpose(b, (0, 2, 1)), ops.transpose(a, (0, 2, 1))),
        ),
    ]
    for before, after in pairs:
        result = ea.substitutions.verify(ea.substitutions.Rule("simplified", before, after))
        assert result and result.condition is None, result


def test_wrong_arguments() -> None:
    with pytest.raises(EinalgError, match="must be a rule"):
        ea.substitutions.verify("O[i] = A[i]")
    scope = ea.parse("O[i] = A[i]", A=("N",))
    with pytest.raises(EinalgError, match="sizes must be"):
        ea.substitutions.verify(ea.substitutions.Rule("same", scope, scope), sizes=3)
    with pytest.raises(EinalgError, match=r"no size M\n  its sizes: N"):
        ea.substitutions.verify(ea.substitutions.Rule("same", scope, scope), sizes={"M": 3})


def test_errors_name_a_rule_as_users_do() -> None:
    with pytest.raises(ea.NotationError, match=r"give its shape: Rule\(\.\.\., A=\(8,\)\)"):
        ea.substitutions.Rule("rule", "O[i] = A[i]", "O[i] = A[i]")
    with pytest.raises(ea.EinalgError, match="Rule has no option befor"):
        ea.substitutions.Rule("rule", befor="O[i] = A[i]")  # pyright: ignore[reportCallIssue]


SIMPLIFICATIONS: list[tuple[str, str, dict[str, Any], str]] = [  # with the verdict and condition
    ("T[i]=A[N-1-i]\nO[i]=T[N-1-i]", "O[i]=A[i]", {"A": ("N",)}, "proved"),
    ("T[i]=A[N-1-i]\nO[i]=T[i]", "O[i]=A[i]", {"A": ("N",)}, "proved where N = 1"),
    ("T[i:N-1]=A[i+1]\nO[i:N-3]=T[i+2]", "O[i:N-3]=A[i+3]", {"A": ("N",)}, "proved"),
    ("T[i:N-1]=A[i+1]\nO[i:N-3]=T[i+2]", "O[i:N-3]=A[i+2]", {"A": ("N",)},
     "different"),  # equal at N = 3 alone, where there are no points
    ("T[i:N,j:M]=x[i]\nO[j]+=T[i,j]", "O[j:M]+=x[i]", {"x": ("N",)}, "proved"),
    ("O[b,i,j]+=A[b,i,k]*B[b,k,j]", "T[b,j,i]+=B[b,k,j]*A[b,i,k]\nO[b,i,j]=T[b,j,i]",
     {"A": ("P", "N", "K"), "B": ("P", "K", "M")}, "proved"),
    ("O[b,i,j]+=A[b,i,k]*B[b,k,j]", "T[b,j,i]+=B[b,k,j]*A[b,i,k]\nO[b,i,j]=T[b,i,j]",
     {"A": ("P", "N", "K"), "B": ("P", "K", "N")}, "proved where N = 1"),
    ("O[i]=Min(Max(A[i],5),2)", "O[i]=Max(Min(A[i],2),5)", {"A": ("N",)}, "different"),
    ("O[i]=Piecewise((A[i],B[i]>0),(C[i],True))", "O[i]=Piecewise((C[i],B[i]<0),(A[i],True))",
     {"A": ("N",), "B": ("N",), "C": ("N",)}, "different"),
    ("T[i,j]=Sum[k](A[i,j,k])/4\nO[i]=Sum[j](T[i,j])/6", "O[i]=Sum[j,k](A[i,j,k])/24",
     {"A": ("N", 6, 4)}, "proved"),
    ("T[i,j]=Sum[k](A[i,j,k])/4\nO[i]=Sum[j](T[i,j])/6", "O[i]=Sum[j,k](A[i,j,k])/10",
     {"A": ("N", 6, 4)}, "different"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "shapes", "expected"), SIMPLIFICATIONS)
def test_simplifications_of_formulas(
    before: str, after: str, shapes: dict[str, Any], expected: str
) -> None:
    result = ea.substitutions.verify(ea.substitutions.Rule("rule", before, after, **shapes))
    assert str(result).splitlines()[0] == f"rule: {expected}"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("O[i:N-2] = Sum[k:3](x[i+k])", "O[i:N-2] = -Sum[k:3](x[i+k])", "different"),
        ("O[i:N//4] = Sum[k:4](x[4*i+k])", "O[i:N//4] = -Sum[k:4](x[4*i+k])", "different"),
        (
            "T[i:N-2] = Sum[k:3](x[i+k])\nO[()] = Sum[i](T[i])",
            "T[i:N-2] = Sum[k:3](x[i+k])\nO[()] = -Sum[i](T[i])",
            "different",
        ),
        ("O[i:N-2] = x[i]", "O[i:N-2] = x[N-3-i]", "proved where N = 3"),
        ("O[i:N//4] = x[i]", "O[i:N//4] = x[N//4-1-i]", "proved where 4 <= N <= 7"),
    ],
)
def test_sizes_at_which_no_window_fits_are_no_condition(
    before: str, after: str, expected: str
) -> None:
    rule = ea.substitutions.Rule("rule", before, after, x=("N",))
    assert str(ea.substitutions.verify(rule)).splitlines()[0] == f"rule: {expected}"


n, m, h = (ea.size(name) for name in "NMH")
a, b = ea.tensor("A", (n, h)), ea.tensor("B", (m, h))
PADDED = ea.ops.pad(ea.ops.pad(a, [(1, 2), (0, 1)]), [(3, 1), (2, 0)])
JOINED = ea.ops.concat([a, b], axis=0)
MOVEMENTS = {
    "pads of a pad": (PADDED, ea.ops.pad(a, [(4, 3), (2, 1)]), True),
    "pads of a pad on the other side": (PADDED, ea.ops.pad(a, [(3, 4), (2, 1)]), False),
    "a part of a concatenation": (ea.ops.slice(JOINED, [n], [n + m], axes=[0]), b, True),
    "another part": (ea.ops.slice(JOINED, [n - 1], [n + m - 1], axes=[0]), b, False),
    "what is padded": (ea.ops.slice(ea.ops.pad(a, [2, 0]), [2], [n + 2], axes=[0]), a, True),
    "what is padded, shifted": (
        ea.ops.slice(ea.ops.pad(a, [2, 0]), [3], [n + 3], axes=[0]), a, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVEMENTS)
def test_simplifications_of_movements(name: str) -> None:
    before, after, holds = MOVEMENTS[name]
    result = ea.substitutions.verify(ea.substitutions.Rule(name, before, ea.ops.mul(after, 1)))
    assert bool(result) == holds and (result.condition is None or not holds)
    assert bool(result.counterexample) != holds


def test_identity_kernels_that_are_joined_need_not_be_square(tmp_path: Any) -> None:
    """One has more features than channels here, at any sizes: with one feature and two channels,
    two that are joined are none.
    """
    kernels = [op("const_iconv", kernel=[3, 3])] * 2
    joined = rule("joined", [*kernels, op("concat", "0", "1", axis=0)], kernels[:1])
    (one,) = ea.substitutions.load(write(tmp_path, joined))
    assert ea.substitutions.verify(one).verdict == "different"


def test_a_rule_that_is_not_decided_in_time_is_unknown(tmp_path: Any) -> None:
    (one,) = ea.substitutions.load(write(tmp_path, SLOW))
    late = ea.substitutions.verify(one, seconds=0.2)
    assert late.verdict == "unknown" and not late and "not decided in 0.2 s" in str(late)


def test_a_side_is_a_tensor() -> None:
    a = ea.tensor("a", ("N", "M"))
    twice = ea.ops.transpose(ea.ops.transpose(a))
    assert ea.substitutions.verify(Substitution("twice", twice, a)).verdict == "proved"


def test_sides_have_the_same_inputs() -> None:
    whole, byte = ea.tensor("x", ("N",), "i32"), ea.tensor("x", ("N",), "u8")
    with pytest.raises(EinalgError, match="x is i32 on one side, and u8 on the other"):
        Substitution("types", ea.ops.mul(whole, 1), ea.ops.relu(byte))
    some, even = ea.tensor("x", ("N",)), ea.tensor("x", (ea.size("N", multiple_of=2),))
    with pytest.raises(EinalgError, match="two sizes are called N"):
        Substitution("sizes", some, even)
