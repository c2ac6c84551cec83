"""Interrupts, exit codes and the start of the command line."""

from __future__ import annotations

from typing import Any

import pytest

import einalg as ea
from tests.helpers.command_line import MAIN, MATMUL, SUM, einalg, started

INTERRUPTED_SOON = """
import os, signal
from einalg.cli import main, sources
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process that was started in the background does not have
sources.text_of = lambda source: os.kill(os.getpid(), signal.SIGINT)
main()
"""


def test_an_interrupted_process_prints_no_traceback() -> None:
    process = started("show", "-", code=INTERRUPTED_SOON)
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out, errors) == (130, "", "interrupted\n")


BUSY = "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,2*h+r-1,2*w+s-1]*K[f,c,r,s]"
INTERRUPTED_IN_THE_SEARCH = f"""
import os, signal, threading
from derive.search.expansion import StateExpander
signal.signal(signal.SIGINT, signal.default_int_handler)
soon = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
expand = StateExpander.__call__
def expand_and_begin(*arguments):
    if soon.ident is None:
        soon.start()
    return expand(*arguments)
StateExpander.__call__ = expand_and_begin
{MAIN}
"""


def test_an_interrupted_search_prints_no_traceback() -> None:
    """A real one, at whatever the search is doing, once it has begun."""
    process = started(
        "derive",
        BUSY,
        "--A",
        "1,64,57,57",
        "--K",
        "64,64,3,3",
        "--seconds",
        "60",
        "--states",
        "100000",
        code=INTERRUPTED_IN_THE_SEARCH,
    )
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors and "interrupted" in errors
    assert out.startswith("cost: "), "the best so far is printed"


def test_a_process_takes_words_and_gives_its_exit_code() -> None:
    process = started("prove", SUM, "O[i] += 2*A[i,j]", "--A", "4,5")
    out, errors = process.communicate(timeout=30)
    assert process.returncode == 1 and out.startswith("different: ") and errors == ""


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*words: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(ea, "derive", interrupted)
    result = einalg(*MATMUL)
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


def test_help_is_quick_and_light() -> None:
    code = "import sys, time; t = time.process_time(); from einalg.cli.app import cli\ntry: cli(['--help'])\n"
    code += "finally: print(time.process_time() - t, *sys.modules)"
    runs = [started(code=code).communicate(timeout=30)[0] for _ in range(3)]
    assert "130  interrupted" in runs[0]
    lines = [run.splitlines()[-1].split() for run in runs]  # seconds and modules
    assert not {"numpy", "sympy", "islpy", "derive", "codegen", "rich"} & set(lines[0])
    assert min(float(line[0]) for line in lines) < 0.5


def test_without_its_libraries_it_says_what_to_install() -> None:
    process = started(
        "--help", code="import sys; sys.modules['rich'] = None\nfrom einalg.cli import main; main()"
    )
    out, errors = process.communicate(timeout=30)
    assert (process.returncode, out) == (
        1,
        "",
    ) and errors == "einalg: the command line needs click and rich: pip install 'einalg[cli]'\n"
