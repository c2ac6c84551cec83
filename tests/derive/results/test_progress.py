"""Progress, operators, executors and records of `ea.derive`."""

from __future__ import annotations

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import einalg as ea
from derive.results.progress import search_progress
from derive.search.best_first import Budget
from derive.search.candidates import Stats
from einalg.api.models import network as of_model
from einalg.api.optimization import compile_graph

CONV = ea.parse("O[n,f,h] += A.pad(0,0,2)[n,c,h+r-2]*K[f,c,r]", A=(3, 16, 13), K=(24, 16, 5))


def derived(**options):
    return ea.derive(CONV, states=3, measure=False, **options)


def test_a_bar_where_tqdm_is_installed(capsys):
    pytest.importorskip("tqdm")
    derived(progress=True)
    err = capsys.readouterr().err
    assert "derive" in err and "/3 " in err


def test_log_lines_elsewhere(monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with caplog.at_level(logging.INFO, "einalg"):
        derived(progress=True)
    assert [r for r in caplog.records if "1 of 3 states, " in r.getMessage()]


def test_a_function_stays_a_function_and_false_is_nothing():
    told = []
    with search_progress(told.append, Budget()) as tell:
        tell(Stats())
    assert len(told) == 1
    with search_progress(False, Budget()) as tell:
        assert tell is None


def layered():
    """A model with two layers that are searched."""
    program = ea.parse(
        "S[i,j] += A[i,k]*B[k,j]\nO[i,j] += S[i,k]*C[k,j]", A=(40, 64), B=(64, 16), C=(16, 32)
    )
    rng = np.random.default_rng(0)
    return program, {name: rng.standard_normal(t.shape) for name, t in program.inputs.items()}


@pytest.fixture
def unknown(tmp_path, monkeypatch):
    """Nothing is known from before."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))


def test_a_bar_over_layers(capsys, unknown):
    pytest.importorskip("tqdm")
    ea.optimize(*layered(), seconds=20, progress=True)
    err = capsys.readouterr().err
    assert "optimize" in err and "0/2 " in err and "O[" in err


def test_log_lines_of_layers(monkeypatch, caplog, unknown):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    program, arrays = layered()
    with caplog.at_level(logging.INFO, "einalg"):
        model = of_model(program, arrays)
        compile_graph(model.graph, model.arrays, seconds=20, progress=True)
    assert [r for r in caplog.records if "0 of 2 layers, O[" in r.getMessage()]


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
