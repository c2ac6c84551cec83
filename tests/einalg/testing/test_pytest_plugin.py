"""The plugin of pytest: a table of verdicts where there are some, and nothing elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
TESTS = """
import einalg as ea

EXPRESSION = ea.parse("O[i] = 2*x[i]", x=(4,))

def test_function(einalg_verdicts):
    ea.testing.assert_equal(lambda x: 2*x, EXPRESSION, examples=20)
    assert [str(one) for one in einalg_verdicts] == ["the function: tested (20 examples)"]

def test_expressions(einalg_verdicts):
    ea.testing.assert_equal(EXPRESSION, EXPRESSION)
    assert [one.verdict for one in einalg_verdicts] == ["proved"]

def test_mistake():
    ea.testing.assert_equal(lambda x: 2*x + (x > 3), EXPRESSION)

def test_rule():
    assert ea.testing.check_rule(ea.rules["nesting"], examples=20).moves
"""


def run_pytest(folder: Path, text: str, *options: str) -> str:
    (folder / "test_it.py").write_text(text)
    settings = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "einalg.testing.pytest_plugin"]
    done = subprocess.run(
        [*command, *options],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


def test_a_table_of_verdicts(tmp_path):
    text = run_pytest(tmp_path, TESTS, "--junitxml=report.xml")
    lines = text.splitlines()
    start = next(place for place, line in enumerate(lines) if "einalg verdicts" in line)
    table = [line.split() for line in lines[start + 1 : start + 6]]
    assert [row[0] for row in table] == ["tested", "proved", "failed", "tested", "1"]
    assert table[0] == ["tested", "test_it.py::test_function", "the", "function,", "20", "examples"]
    assert lines[start + 5] == "1 failed, 1 proved, 2 tested"
    assert "1 failed, 3 passed" in text
    assert "einalg_verdict" in (tmp_path / "report.xml").read_text()
    inside = [line for line in lines if "einalg/testing" in line or "einalg/boundary" in line]
    assert not inside, "frames of einalg are hidden"


@pytest.mark.skipif("xdist" not in sys.modules, reason="pytest-xdist is not installed")
def test_verdicts_travel_between_processes(tmp_path):
    text = run_pytest(tmp_path, TESTS, "-p", "xdist", "-n", "1", "-k", "expressions")
    assert "proved  test_it.py::test_expressions" in text and "\n1 proved\n" in text


def test_nothing_is_printed_without_verdicts(tmp_path):
    text = run_pytest(tmp_path, "def test_it():\n    assert True\n")
    assert "einalg" not in text and "1 passed" in text


def test_the_plugin_is_declared_and_light():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    name = project["project"]["entry-points"]["pytest11"]["einalg"]
    assert callable(import_module(name).pytest_terminal_summary)
    code = (
        f"import sys, pytest; before = set(sys.modules); import {name}; "
        "print({m.partition('.')[0] for m in set(sys.modules) - before} - set(sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "{'einalg'}\n", done.stderr
