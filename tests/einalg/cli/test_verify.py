"""`einalg verify`."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.command_line import einalg, printed, refused
from tests.helpers.rule_files import SLOW, op, rule, write

RIGHT = rule("right", [op("ewadd", 1, 2)], [op("ewadd", 2, 1)])
WRONG = rule("wrong", [op("ewmul", 1, 2)], [op("ewmul", 1, 1)])


def test_verdicts_and_exit_codes(tmp_path: Path) -> None:
    path = str(write(tmp_path, RIGHT, WRONG))
    assert printed("verify", path, "set/right") == "set/right: proved\n1 proved\n"
    result = einalg("verify", path)
    assert result.exit_code == 1
    assert result.stdout.startswith("set/right: proved\nset/wrong: different\n")
    assert result.stdout.endswith("1 proved, 1 different\n")


def test_a_rule_that_is_not_decided_in_time(tmp_path: Path) -> None:
    result = einalg("verify", str(write(tmp_path, SLOW, RIGHT)), "--seconds", "0.2")
    assert result.exit_code == 1 and result.stdout.endswith("1 unknown, 1 proved\n")


def test_rules_of_one_name_are_all_verified(tmp_path: Path) -> None:
    path = str(write(tmp_path, {**WRONG, "name": "same"}, {**RIGHT, "name": "same"}))
    for words in ((), ("set/same",)):
        result = einalg("verify", path, *words)
        assert result.exit_code == 1
        assert result.stdout.endswith("1 different, 1 proved\n")


def test_bad_use(tmp_path: Path) -> None:
    path = str(write(tmp_path, RIGHT))
    assert "for example, set/right" in refused("verify", path, "set/left")
    assert "cannot be read" in refused("verify", "no such file")
