"""The benchmark of rewrite rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import bench
import einalg as ea
from bench.rule_operators import generated_of_families
from bench.substitutions import (
    BLOCKS,
    by_condition,
    by_set,
    control,
    fitting,
    gains,
    generated,
    of_blocks,
    of_equations,
)
from einalg.language.ir.program import as_program
from tests.helpers.rule_files import op, rule, write

COMMUTATIVE = rule("commutative", [op("matmul", 1, 2), op("ewadd", "0", 3)],
                   [op("matmul", 1, 2), op("ewadd", 3, "0")])  # fmt: skip
SQUARE = rule("wrong", [op("ewmul", 1, 2)], [op("ewmul", 1, 1)])


def test_counts(tmp_path: Path) -> None:
    sets = by_set([write(tmp_path, COMMUTATIVE, SQUARE)])
    rows = list(by_condition("set", sets["set"]))
    assert [(row["verdict"], row["rules"], row["which"]) for row in rows] == [
        ("proved", 1, "commutative"),
        ("different", 1, "wrong"),
    ]
    (row,) = control("set", sets["set"][:1])
    assert (row["wrong rules"], row["caught"], row["missed"]) == (1, 1, [])


def test_different_equations(tmp_path: Path) -> None:
    sets = by_set([write(tmp_path, COMMUTATIVE, SQUARE, COMMUTATIVE)])
    (row,) = of_equations("set", sets["set"])
    assert (row["equations"], row["different ones"]) == (3, 2)


def test_families_of_other_operators() -> None:
    (row,), rules = generated_of_families(1, 10.0, ["reductions"])
    assert row["proved"] == len(rules) == 1 and row["complete"]


def test_a_table_is_printed_before_the_next_begins(capsys: pytest.CaptureFixture[str]) -> None:
    def second() -> Iterator[bench.Row]:
        assert capsys.readouterr().out == "first\nx\n1\n"
        yield {"x": 2}

    bench.report({"first": [{"x": 1}], "second": second()})
    assert capsys.readouterr().out == "\nsecond\nx\n2\n"


def test_gains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = ea.tensor("W", (5,), role="weight")
    sum_of_rows = as_program(ea.parse("O[i] += A[i,k]*W[k]", A=(4, 5), W=weights))
    monkeypatch.setattr("bench.substitutions.BLOCKS", {"rows": lambda: sum_of_rows})
    rules = by_set([write(tmp_path, COMMUTATIVE)])["set"]
    (row,) = gains(of_blocks(), rules, 0.0, turns=1)
    assert row["network"] == "rows" and min(row["ms without"], row["ms with"]) > 0


def test_rules_that_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is not equal there fits nowhere."""
    text = "P[i,j] += A[i,k]*B[k,j]\nO[i,j] = Sum[k](P[i,k]*C[k,j])*D[i,j]"
    chain = as_program(ea.parse(text, A=(2, 3), B=(3, 4), C=(4, 5), D=(2, 5)))
    monkeypatch.setattr("bench.substitutions.BLOCKS", {"chain": lambda: chain})
    associative = rule(
        "associative",
        [op("matmul", 1, 2), op("matmul", "0", 3)],
        [op("matmul", 2, 3), op("matmul", 1, "0")],
    )
    rules = by_set([write(tmp_path, associative, SQUARE)])["set"]
    (row,) = fitting(of_blocks(["chain"]), rules)
    assert row["which (places)"] == "associative (1)"


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_are_programs_of_several_products(name: str) -> None:
    statements = str(BLOCKS[name]())
    assert statements.count("Sum[") >= 3


def test_rules_that_follow_from_generated_ones(tmp_path: Path) -> None:
    """Sums in another order follow, sums of another input are no rule, and products are not made."""
    one = rule("order", [op("ewadd", 1, 2), op("ewadd", "0", 3)],
               [op("ewadd", 3, 1), op("ewadd", "0", 2)])  # fmt: skip
    other = rule("wrong", [op("ewadd", 1, 2)], [op("ewadd", 1, 1)])
    product = rule("product", [op("ewmul", 1, 2)], [op("ewmul", 2, 1)])
    path = write(tmp_path, one, other, product)
    content = json.loads(path.read_text())
    content["sets"]["set"]["leaf_shapes"] = {str(number): [2, 3] for number in (1, 2, 3)}
    path.write_text(json.dumps(content))
    counts, (total,) = generated(by_set([path])["set"], 2, 60.0, ["ewadd"])
    assert [row["proved"] for row in counts] == [1, 1]
    assert (total["rules of the set"], total["of these programs"], total["derivable"]) == (3, 2, 1)


def test_rules_of_larger_programs_follow_from_smaller_ones(tmp_path: Path) -> None:
    """Products of three are associative, and so are products of four, which are not generated."""
    one = rule("four", [op("matmul", 1, 2), op("matmul", "0", 3), op("matmul", "1", 1)],
               [op("matmul", 3, 1), op("matmul", 2, "0"), op("matmul", 1, "1")])  # fmt: skip
    other = rule("wrong", [op("matmul", 1, 2), op("matmul", "0", 3), op("matmul", "1", 1)],
                 [op("matmul", 2, 1), op("matmul", 3, "0"), op("matmul", 1, "1")])  # fmt: skip
    path = write(tmp_path, one, other)
    content = json.loads(path.read_text())
    content["sets"]["set"]["leaf_shapes"] = {str(number): [3, 3] for number in (1, 2, 3)}
    path.write_text(json.dumps(content))
    _, (total,) = generated(by_set([path])["set"], 2, 60.0, ["matmul"])
    assert (total["rules of the set"], total["of these programs"], total["derivable"]) == (2, 2, 1)
