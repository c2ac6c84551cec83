"""An optimized network that is saved: a new folder, whole or not at all, that loads without the
front ends and gives the same values.
"""

from __future__ import annotations

import copy
import json
import pickle
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import einalg as ea
from einalg.errors import CodegenError, RecordError
from einalg.frontends.graph_builder import GraphBuilder
from einalg.language import ops

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def made():
    """A network with weights of two types, of which one is an output, and an example input."""
    builder = GraphBuilder()
    builder.input("x", (4, 6), "f32")
    builder.weight("w", RNG.standard_normal((6, 5)).astype(np.float32))
    builder.weight("rows", np.array([2, 0, 1], np.int64))
    builder.express("MatMul", ("x", "w"), ("y",), ops.matmul)
    builder.express("Relu", ("y",), ("z",), ops.relu)
    builder.express("Add", ("z", "z"), ("g",), ops.add)
    x = RNG.standard_normal((4, 6)).astype(np.float32)
    return ea.optimize(builder.graph(["y", "g", "rows"]), [x], seconds=1), x


def test_what_is_loaded_gives_the_same(made, tmp_path):
    o, x = made
    o.save(tmp_path / "new" / "model")
    again = ea.Optimized.load(tmp_path / "new" / "model")
    for found, expected in zip(again(x), o(x), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    files = sorted(path.name for path in (tmp_path / "new" / "model").iterdir())
    assert files == ["model.json", "program_0.c", "report.txt", "weights.npz"]
    assert "void kernel_0" in (tmp_path / "new" / "model" / "program_0.c").read_text()
    (before,), (after,) = o.parts.values(), again.parts.values()
    assert (after.verdict, after.error, after.seconds) == (
        before.verdict,
        before.error,
        before.seconds,
    )
    assert [layer.text for layer in after.layers] == [layer.text for layer in before.layers]


def test_the_report_of_what_is_loaded_tells_the_layers(tmp_path):
    product = ea.parse(
        "T[i,j] += A[i,k]*W[k,j]\nO[i,j] = Max(T[i,j], 0)",
        A=(40, 30),
        W=ea.tensor("W", (30, 20), role="weight"),
    )
    given = {"A": RNG.standard_normal((40, 30)), "W": RNG.standard_normal((30, 20))}
    o = ea.optimize(product, given, seconds=300)
    o.save(tmp_path / "model")
    again = ea.Optimized.load(tmp_path / "model")
    (before,), (after,) = (next(iter(x.parts.values())).layers for x in (o, again))
    assert (after.names, after.text, after.original) == (before.names, before.text, before.original)
    assert (after.candidate is None) == (before.candidate is None) and "T (once, with W): " in str(
        again.report
    )
    assert (
        [line for line in str(again.report).splitlines() if "█" in line]
        == [line for line in str(o.report).splitlines() if "█" in line]
        != []
    )
    assert again.report._repr_html_().count('class="einalg-stack"') == 2


def test_it_loads_without_the_front_ends(made, tmp_path):
    o, x = made
    o.save(tmp_path / "model")
    np.save(tmp_path / "x.npy", x)
    script = """
        import sys
        for name in ("torch", "onnx", "onnxruntime"):
            sys.modules[name] = None
        import numpy as np
        import einalg as ea
        y, g, rows = ea.Optimized.load(sys.argv[1])(np.load(sys.argv[2]))
        print(float(y.sum()), rows.tolist())
    """
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(script),
        str(tmp_path / "model"),
        str(tmp_path / "x.npy"),
    ]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split(
        maxsplit=1
    )
    assert (
        float(printed[0]) == pytest.approx(float(o(x)[0].sum()), rel=1e-5)
        and printed[1].strip() == "[2, 0, 1]"
    )


def test_a_folder_with_anything_in_it_is_left_alone(made, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RecordError, match="is there already"):
        made[0].save(tmp_path)
    with pytest.raises(RecordError, match="is there already"):
        made[0].save(tmp_path / "mine.txt")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"] and (
        tmp_path / "mine.txt"
    ).read_text() == "mine"
    (tmp_path / "empty").mkdir()
    made[0].save(tmp_path / "empty")
    assert (tmp_path / "empty" / "model.json").exists()


def test_where_nothing_can_be_written_nothing_is_left(made, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("derive.programs.artifact.np.savez", full)
    with pytest.raises(RecordError, match="No space left"):
        made[0].save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("language", ["cuda", "fortran"])
def test_sources_that_there_are_not(made, tmp_path, language):
    with pytest.raises(CodegenError, match=f"no source in '{language}'"):
        made[0].save(tmp_path / "model", language)
    assert not list(tmp_path.iterdir())


def test_calls_of_a_framework_cannot_be_saved(tmp_path):
    builder = GraphBuilder()
    builder.input("x", (4,), "f32")
    builder.call(
        "Sort", ("x",), {"y": ((4,), "f32")}, lambda x: (np.sort(x),), "sorting is no expression"
    )
    builder.express("Relu", ("y",), ("o",), ops.relu)
    o = ea.optimize(builder.graph(["o"]), [np.ones(4, np.float32)], seconds=0)
    with pytest.raises(RecordError, match=r"calls of the framework are left in it \(Sort\)"):
        o.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "model.json").unlink(),
        lambda folder: (folder / "model.json").write_text("{"),
        lambda folder: (folder / "weights.npz").unlink(),
        lambda folder: (folder / "weights.npz").write_bytes(b"PK\x03\x04 no archive"),
        lambda folder: (folder / "weights.npz").write_bytes(
            (folder / "weights.npz").read_bytes()[:200]
        ),
        lambda folder: changed(folder, "inputs", [{"name": "x", "axes": [[0, 9]], "dtype": "f32"}]),
        lambda folder: changed(folder, "parts", [{}]),
        lambda folder: changed(folder, "weights", ["w", "rows", "more"]),
        lambda folder: changed(folder, "schema", 99),
    ],
)
def test_a_damaged_folder_is_told(made, tmp_path, damage):
    o, x = made
    o.save(tmp_path / "model")
    damage(tmp_path / "model")
    with pytest.raises(ea.EinalgError):
        ea.Optimized.load(tmp_path / "model")(x)


def changed(folder, key, value):
    content = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps({**content, key: value}))


def test_a_moved_folder_loads(made, tmp_path):
    o, x = made
    o.save(tmp_path / "model")
    shutil.move(tmp_path / "model", tmp_path / "elsewhere")
    np.testing.assert_array_equal(ea.Optimized.load(tmp_path / "elsewhere")(x)[0], o(x)[0])


def test_copies_are_the_network_and_pickling_is_refused(own_cache):
    o = ea.optimize(ea.parse("O[i] = A[i] + 1", A=(2,)), [np.ones(2)], seconds=0)
    assert copy.copy(o) is o and copy.deepcopy({"model": o})["model"] is o
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(ea.UseError, match=r"cannot be pickled.*\n.*save\(path\)"):
            pickle.dumps([o], protocol)
