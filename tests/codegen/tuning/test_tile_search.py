"""Tuned tilings: right whatever wins, kept for this machine, portable as text, and never trusted
where they do not fit.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from bench.tune import maker, numbers
from codegen.hardware.cpu import CpuModel, machine
from codegen.kernels.contraction.cost_model import orders, plan, ranked
from codegen.kernels.contraction.partition import Tiling
from codegen.program.building import generated_kernels
from codegen.runtime.protocol import prepared
from codegen.targets.c.compiler import find_compiler
from codegen.tuning import tile_search
from codegen.tuning.spaces.contraction import contraction_space
from codegen.tuning.spaces.unit import CodeUnit
from codegen.tuning.tile_search import (
    TUNINGS,
    Winner,
    exported,
    imported,
    neighbours,
    signature,
    tune,
    tuned,
)
from derive.matching import match
from einalg.errors import RecordError
from einalg.language import ops
from einalg.language.ir.scope import Scope
from einalg.runtime.measurement import Measurement

SCOPE = ops.matmul(ea.tensor("A", (29, 40)), ea.tensor("B", (40, 35), role="weight"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    monkeypatch.setattr(tile_search, "SECONDS", 0.0)


def contraction_in(scope: Scope, ahead: Any = ("B",)) -> Any:
    kernel = match(scope, "O")
    assert kernel is not None
    space = contraction_space(CodeUnit(kernel, scope, frozenset(ahead)), machine())
    assert space is not None
    return kernel, space.contraction


def tune_scope(scope: Scope = SCOPE, count: int = 2) -> Winner:
    compiler = find_compiler()
    assert compiler is not None
    return tune(
        contraction_in(scope)[1], scope, "O", maker(scope, compiler), compiler, ("B",), count
    )


def test_a_winner_is_used_and_gives_the_same_source() -> None:
    kernel, found = contraction_in(SCOPE)
    assert tuned(found) is None
    winner = tune_scope()
    assert tuned(found) == winner.of(found) and winner.seconds <= winner.model_seconds
    unit = CodeUnit(kernel, SCOPE, frozenset({"B"}))
    space, best = contraction_space(unit, machine()), winner.of(found)
    assert space is not None and best is not None
    assert generated_kernels.best_candidate(unit).point == space.point(*best)
    again = tile_search.winner_of(json.loads(winner.text()))
    assert again == winner and again.text() == winner.text()


def test_a_slower_tiling_wins_where_it_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured decides, not what the model thinks."""
    figures = iter(range(100, 0, -1))

    def later_is_faster(calls: Any, *options: Any, **more: Any) -> dict[str, Measurement]:
        measured = {}
        for name in calls:
            seconds = float(next(figures))
            measured[name] = Measurement(seconds, seconds, seconds)
        return measured

    monkeypatch.setattr(tile_search, "measure", later_is_faster)
    winner = tune_scope(count=3)
    _, found = contraction_in(SCOPE)
    assert tuned(found) == winner.of(found)


def test_winners_travel_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    winner = tune_scope()
    path = tmp_path / "tuned.json"
    path.write_text(exported())
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "elsewhere"))
    _, found = contraction_in(SCOPE)
    assert tuned(found) is None and imported(path) == 1
    assert tuned(found) == winner.of(found) and exported() == path.read_text()


def test_a_winner_is_of_its_machine_compiler_and_kernel() -> None:
    winner = tune_scope()
    assert (
        len(
            {
                winner.key,
                *(
                    replace(winner, **{name: "other"}).key
                    for name in ("kernel", "machine", "compiler")
                ),
            }
        )
        == 4
    )
    _, found = contraction_in(SCOPE)
    renamed = ops.matmul(ea.tensor("X", (29, 40)), ea.tensor("Y", (40, 35), role="weight"))
    assert signature(contraction_in(renamed, ("Y",))[1]) == signature(found)
    others = [ops.matmul(ea.tensor("A", (29, 40)), ea.tensor("B", (40, n))) for n in (34, 36)]
    assert (
        len(
            {
                signature(found),
                *(signature(contraction_in(other, ())[1]) for other in (SCOPE, *others)),
            }
        )
        == 4
    )


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"kernels": [{}]}', '{"kernels": [{"schema": 99}]}', '{"kernels": 3}'],
)
def test_foreign_files(content: str, tmp_path: Path) -> None:
    path = tmp_path / "foreign.json"
    path.write_text(content)
    with pytest.raises(RecordError):
        imported(path)
    with pytest.raises(RecordError, match="no tuned kernels"):
        imported(tmp_path / "absent.json")


@pytest.mark.parametrize("change", [{"rows": 0}, {"lines": 5}, {"vectors": "2"}, {"rows": -1}])
def test_numbers_that_do_not_fit_are_not_used(change: Any) -> None:
    winner = tune_scope()
    entry = json.loads(winner.text())
    entry["tiling"] |= change
    TUNINGS.replace(winner.key, json.dumps(entry).encode())
    tile_search._known.cache_clear()
    _, found = contraction_in(SCOPE)
    assert tuned(found) is None or all(isinstance(n, str) for n in change.values())


def test_neighbours_fit_and_change_one_number() -> None:
    _, found = contraction_in(SCOPE)
    best = plan(found)
    assert best is not None and ranked(found)[0] == best
    for other in neighbours(*best):
        assert other.fits(best[0])
        assert (
            sum(
                getattr(other, name) != getattr(best[1], name)
                for name in ("block", "group", "depth")
            )
            == 1
        )


def test_a_tiling_with_other_values_is_left_out(caplog: Any) -> None:
    compiler = find_compiler()
    assert compiler is not None
    make, made = maker(SCOPE, compiler), []

    def spoiled(way: Any, tiling: Tiling) -> Any:
        run = make(way, tiling)
        made.append(tiling)
        wrong = len(made) == 2

        def call(buffers: Any) -> None:
            prepared(run, buffers)(buffers)
            buffers["O"][0, 0] += wrong

        return call

    winner = tune(contraction_in(SCOPE)[1], SCOPE, "O", spoiled, compiler, (), 2)
    assert "has other values" in caplog.text and winner.tiling in [
        t for n, t in enumerate(made) if n != 1
    ]
    assert np.isfinite(winner.seconds) and numbers(winner.tiling)


def test_a_signature_has_the_windows_of_a_convolution_and_no_names() -> None:
    def of(data: str, kernel: str, dilation: int, padding: int) -> str:
        A, K = ea.tensor(data, (1, 8, 14, 14)), ea.tensor(kernel, (16, 8, 3, 3))
        scope = ops.conv2d(A, K, padding=padding, dilation=dilation)
        return signature(contraction_in(scope, ())[1])

    assert of("A", "K", 1, 1) == of("X", "W", 1, 1)
    assert len({of("A", "K", *row) for row in ((1, 1), (2, 2), (1, 0))}) == 3


def unmeasured() -> Winner:
    """The tiling that the model ranks best, as if it had won here."""
    _, found = contraction_in(SCOPE)
    compiler, best = find_compiler(), plan(found)
    assert compiler is not None and best is not None
    return Winner(
        kernel=signature(found),
        machine=tile_search.this_machine(),
        compiler=tile_search.this_compiler(compiler),
        order=orders(found).index(best[0]),
        tiling=best[1],
        seconds=1.0,
        model_seconds=2.0,
    )


def test_a_row_without_what_has_a_usual_value() -> None:
    winner = unmeasured()
    entry = json.loads(winner.text())
    usual = {name for name in ("lines", "apart", "pack_left") if not entry["tiling"][name]}
    usual |= {"lines"} if entry["tiling"]["lines"] == 1 else set()
    assert usual
    for name in usual:
        del entry["tiling"][name]
    assert tile_search.winner_of(entry) == winner
    for name in ("lanes", "rows", "vectors"):
        broken = {**entry, "tiling": {**entry["tiling"]}}
        del broken["tiling"][name]
        with pytest.raises(RecordError, match="this is no tuned kernel"):
            tile_search.winner_of(broken)


def test_an_empty_entry_of_the_cache_is_none() -> None:
    winner, (_, found) = unmeasured(), contraction_in(SCOPE)
    for content, result in ((winner.text().encode(), winner.of(found)), (b"", None)):
        TUNINGS.replace(winner.key, content)
        tile_search._known.cache_clear()
        assert tuned(found) == result
    assert json.loads(exported())["kernels"] == []


def test_steps_that_threads_share_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several steps of depth only, and where there are several cores."""
    _, found = contraction_in(SCOPE)
    best = plan(found)
    assert best is not None
    ordered, tiling = best
    for cores, depth, is_tried in ((4, 10, True), (1, 10, False), (4, 40, False)):
        monkeypatch.setattr(tile_search, "machine", lambda cores=cores: CpuModel(cores=cores))
        near = list(neighbours(ordered, replace(tiling, depth=depth)))
        assert any(other.apart != tiling.apart for other in near) == is_tried
