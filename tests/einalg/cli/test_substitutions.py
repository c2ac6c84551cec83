"""`einalg substitutions`."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.command_line import printed, refused


def test_rules_are_printed_and_saved(tmp_path: Path) -> None:
    path = str(tmp_path / "rules.json")
    text = printed("substitutions", "relu", "transpose", "--input", "2,3", "--save", path)
    assert "relu(relu(x1)) => relu(x1)" in text and "complete" in text
    assert printed("verify", path).endswith("3 proved\n")


def test_bad_use() -> None:
    assert "there is no operator" in refused("substitutions", "no-such")
    assert "size" in refused("substitutions", "relu", "--size", "0")
    assert "is no size of an axis" in refused("substitutions", "relu", "--input", "2,-3")
