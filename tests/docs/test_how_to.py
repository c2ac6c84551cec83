"""The how-to pages: the messages that they show are those that a user gets."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from einalg.errors import EinalgError

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "docs" / "how-to"
PAGE = HOW_TO / "test-your-own-code.md"
VARIABLE = re.compile(r'"((?:EINALG|OMP|OPENBLAS|MKL|XDG|CUDA)_[A-Z_]+|CC|CXX)"')
BLOCKS = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def shown_messages(text: str) -> list[tuple[str, str, dict[str, Any]]]:
    """Return each call of a page that is shown with its message, and the names that it uses."""
    names: dict[str, Any] = {}
    shown = []
    for language, body in BLOCKS.findall(text):
        if language == "python" and ">>>" not in body:
            exec(compile(body, "page", "exec"), names)
        if language == "text" and body.startswith(">>> "):
            call, _, message = body.removeprefix(">>> ").partition("\n")
            shown.append((call, message.rstrip("\n"), dict(names)))
    return shown


MESSAGES = shown_messages(PAGE.read_text())


@pytest.mark.parametrize("call, message, names", MESSAGES, ids=[call for call, _, _ in MESSAGES])
def test_a_message_is_what_a_user_gets(call, message, names, request):
    with pytest.raises(EinalgError) as caught:
        eval(call, names)
    assert f"{caught.value}" == message


def test_all_three_mistakes_are_on_the_page():
    assert [call.partition("(")[0] for call, _, _ in MESSAGES] == [
        "ea.testing.assert_equal",
        "ea.testing.assert_equal",
        "ea.testing.check_rule",
    ]


def test_every_variable_that_is_read_is_on_the_page():
    read = set()
    for package in ("einalg", "derive", "codegen"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            if "os.environ" in text:
                read.update(VARIABLE.findall(text))
    page = (HOW_TO / "environment-variables.md").read_text(encoding="utf-8")
    assert read >= {"EINALG_CACHE", "EINALG_FULL_TRACEBACK", "EINALG_LIBRARIES", "CC", "CXX"}
    assert not [name for name in read if f"`{name}`" not in page]


def test_the_template_runs_by_itself(tmp_path):
    (tmp_path / "test_template.py").write_text((HOW_TO / "test_template.py").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "einalg.testing.pytest_plugin"],
        cwd=tmp_path,
        env={
            **__import__("os").environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": str(ROOT),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "einalg verdicts" in done.stdout and "1 proved, 3 tested" in done.stdout
