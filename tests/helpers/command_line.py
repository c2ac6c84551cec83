"""How a test calls the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner, Result

from einalg.cli import app

ROOT = Path(__file__).resolve().parents[2]
SUM = "O[i] += A[i,j]"
MATMUL = ["derive", "O[i,j] += A[i,k]*B[k,j]", "--A", "4,5", "--B", "5,3"]
MAIN = "from einalg.cli import main; main()"


def einalg(*arguments: str, typed: str | None = None) -> Result:
    return CliRunner().invoke(app.cli, list(arguments), input=typed, prog_name="einalg")


def printed(*arguments: str) -> str:
    result = einalg(*arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: str) -> str:
    """The message of a bad use: no traceback, and nothing else is printed."""
    result = einalg(*arguments)
    assert (result.exit_code, result.stdout) == (2, "") and isinstance(
        result.exception, SystemExit
    ), result.output
    return result.stderr


def started(*words: str, code: str = MAIN) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "80"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
