"""The benchmark of rewrite rules."""

from __future__ import annotations

from pathlib import Path

from bench.substitutions import by_condition, by_set, control
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
