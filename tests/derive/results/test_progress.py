"""Progress, operators, executors and records of `ea.derive`."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import einalg as ea
from derive.results.progress import shown_progress
from derive.search.candidates import Stats
from einalg.api.models import network as of_model
from einalg.api.optimization import compile_graph
from einalg.runtime.clock import Clock
from tests.helpers.searches import shorten_layer_searches

CONV = ea.parse("O[n,f,h] += A.pad(0,0,2)[n,c,h+r-2]*K[f,c,r]", A=(3, 16, 13), K=(24, 16, 5))


LIMIT = 60  # seconds that a test waits for a drawing, on a busy machine


def derived(**options):
    return ea.derive(CONV, states=3, measure=False, **options)


class Terminal(io.StringIO):
    """A terminal that keeps what is written."""

    encoding = "utf-8"

    def isatty(self):
        return True

    def lines(self):
        """What was drawn, in order."""
        return [line for line in self.getvalue().replace("\x1b[2K", "").split("\r") if line.strip()]


@pytest.fixture
def terminal(monkeypatch):
    """Progress goes to a terminal, and is drawn at every change."""
    screen = Terminal()
    monkeypatch.setattr("derive.results.progress._terminal", lambda: screen)
    monkeypatch.setattr("derive.results.progress.TerminalLine.interval", 0.005)
    return screen


def test_a_terminal_shows_what_is_done_and_the_best_so_far(terminal):
    derived()
    drawn = terminal.lines()
    assert all(line.startswith("derive ") for line in drawn)
    assert any("searching" in line and "candidates" in line for line in drawn)
    assert any("| best" in line and "(estimated, proved)" in line for line in drawn)
    assert terminal.getvalue().endswith("\r\x1b[2K"), "nothing is left of it"


def test_nothing_is_shown_where_there_is_no_terminal(capsys):
    derived()
    derived(progress=False)
    assert capsys.readouterr() == ("", "")


def test_log_lines_where_they_are_asked_for(monkeypatch, caplog):
    monkeypatch.setattr("derive.results.progress.LogLines.interval", 0.005)
    with caplog.at_level(logging.INFO, "einalg"):
        derived(progress=True)
    assert [r for r in caplog.records if "searching" in r.getMessage()]


def test_it_goes_on_while_something_takes_long(terminal):
    clock = Clock.of(10.0)
    with shown_progress(None, clock, "derive"), clock.phase("compiling", "3 of 12"):
        end, drawn = time.monotonic() + LIMIT, len(terminal.lines())
        while len(terminal.lines()) <= drawn + 2 and time.monotonic() < end:
            time.sleep(0.005)
    assert len([line for line in terminal.lines() if "compiling 3 of 12" in line]) > 2


def test_no_thread_is_left(terminal):
    with pytest.raises(KeyboardInterrupt), shown_progress(True, Clock.of(1.0), "derive"):
        raise KeyboardInterrupt
    assert "einalg-progress" not in [thread.name for thread in threading.enumerate()]


def test_a_terminal_that_is_gone_is_no_error(terminal):
    terminal.close()
    assert derived().candidates


def test_a_function_stays_a_function_and_false_is_nothing():
    clock, told = Clock.of(1.0), []
    with shown_progress(told.append, clock, "derive") as tell:
        tell(Stats())
    assert len(told) == 1
    with shown_progress(False, clock, "derive") as tell:
        assert tell is None


def test_a_function_is_called_after_every_state_and_at_every_phase():
    states, phases, best = [], [], []

    def tell(stats):
        states.append(stats.states)
        phases.append(stats.phase)
        best.append(stats.best)

    d = derived(progress=tell)
    assert states == sorted(states) and {1, 2, 3} <= set(states)
    order = list(dict.fromkeys(phases))
    assert order == ["searching", "proving"] and phases[-1] == "proving"
    assert best[-1] is d.best and d.stats.phases.keys() == {"searching", "proving"}


def layered():
    """A model with two layers that are searched."""
    program = ea.parse(
        "S[i,j] += A[i,k]*B[k,j]\nO[i,j] += S[i,k]*C[k,j]", A=(40, 64), B=(64, 16), C=(16, 32)
    )
    rng = np.random.default_rng(0)
    return program, {name: rng.standard_normal(t.shape) for name, t in program.inputs.items()}


@pytest.fixture
def unknown(tmp_path, monkeypatch):
    """Nothing is known from before, and layers are searched for a few states."""
    shorten_layer_searches(monkeypatch)
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))


def test_a_line_for_every_layer(terminal, unknown):
    ea.optimize(*layered(), seconds=300)
    lines = terminal.getvalue().splitlines()
    kept = [line for line in lines if re.search(r"layer \d of 2: .* O\[", line)]
    assert len(kept) == 2 and "layer 1 of 2" in kept[0] and "layer 2 of 2" in kept[1]


def test_log_lines_of_layers(caplog, unknown):
    program, arrays = layered()
    with caplog.at_level(logging.INFO, "einalg"):
        model = of_model(program, arrays)
        compile_graph(model.graph, model.arrays, seconds=300, progress=True)
    assert [r for r in caplog.records if "layer 2 of 2: " in r.getMessage()]


def test_an_executor_gives_the_same():
    with ThreadPoolExecutor(2) as threads:
        assert [str(c) for c in derived(executor=threads).candidates] == [
            str(c) for c in derived().candidates
        ]


def test_the_operators_that_are_looked_for():
    assert {
        k.op for c in derived(ops=["matmul"]).candidates for k in c.kernels if not k.is_eop
    } == {"matmul"}
    with pytest.raises(ea.MatchError, match="no operator 'conv9d'"):
        derived(ops=["conv9d"])


def test_records_keep_what_was_explored(tmp_path):
    d = derived()
    d.save(tmp_path / "d.json")
    loaded = ea.Derivation.load(tmp_path / "d.json")
    assert (
        loaded.explored == d.explored
        and loaded.plot().dot == d.plot().dot
        and loaded.stats.first_hit == d.stats.first_hit
    )


def test_older_records_hold_nothing_explored(tmp_path):
    d = derived()
    d.save(tmp_path / "d.json")
    record = json.loads((tmp_path / "d.json").read_text())
    del record["explored"], record["stats"]["first_hit"]
    (tmp_path / "d.json").write_text(json.dumps(record))
    loaded = ea.Derivation.load(tmp_path / "d.json")
    assert (
        loaded.explored == []
        and str(loaded.replay()) == str(d.best.program)
        and "nothing was explored" in str(loaded.plot())
    )


@pytest.mark.parametrize("broken", [3, [3], [{"number": 1}], {"a": 1}])
def test_broken_rows(tmp_path, broken):
    derived().save(tmp_path / "d.json")
    record = json.loads((tmp_path / "d.json").read_text()) | {"explored": broken}
    (tmp_path / "d.json").write_text(json.dumps(record))
    with pytest.raises(ea.RecordError):
        ea.Derivation.load(tmp_path / "d.json")
