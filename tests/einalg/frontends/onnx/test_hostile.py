"""Nothing is executed from a file: whatever its names are, and what lies in the folder of a saved
network.
"""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import compile_program
from einalg.errors import RecordError
from einalg.frontends.onnx import load
from tests.helpers.fake_device import FakeDevice
from tests.helpers.kernels import compiler

onnx = pytest.importorskip("onnx", reason="these are files of the package onnx")

TOUCH = "touch ran"  # in the working folder of the test
NAMES = [
    f'*/ system("{TOUCH}"); /*',
    "../x",
    '" + x',
    "a\nb\r\nc",
    f'__import__("os").system("{TOUCH}")',
    "/etc/passwd",
    "%s%n{0}{name}",
    "a\\",
    '\\"; int main(void) { return 1; } //',
    "#include </dev/stdin>",
    "__global__",
    "é\u202ex",
    " ",
]


def folded(operator: str, **attributes: Any) -> Any:
    """A model that folds one input for each name, and a weight for each, from the left; all is
    called by these names.
    """
    size = len(NAMES)
    words = {kind: [f"{name}{kind}" for name in NAMES] for kind in ("", ".w", ".t", ".p")}
    words[".p"][-1] = NAMES[0] + NAMES[1]  # an output
    before, nodes = words[""][0], []
    for k in range(size):
        product, result = words[".t"][k], words[".p"][k]
        nodes.append(
            onnx.helper.make_node("Mul", [words[""][k], words[".w"][k]], [product], name=NAMES[k])
        )
        nodes.append(onnx.helper.make_node("Add", [before, product], [result], name=NAMES[-k]))
        before = result
    nodes.append(onnx.helper.make_node(operator, [before], ["../y"], name=NAMES[1], **attributes))
    stored = [
        onnx.numpy_helper.from_array(np.full(3, k + 1, np.float32), words[".w"][k])
        for k in range(size)
    ]
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [NAMES[0], 3])
        for name in words[""]
    ]
    output = onnx.helper.make_tensor_value_info("../y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph(nodes, NAMES[0], inputs, [output], stored, doc_string=NAMES[4])
    return onnx.helper.make_model(
        graph,
        opset_imports=[onnx.helper.make_opsetid("", 18)],
        ir_version=8,
        producer_name=NAMES[0],
    )


def examples() -> list[Any]:
    return list(np.random.default_rng(0).normal(size=(len(NAMES), 2, 3)).astype(np.float32))


def expected(arrays: list[Any]) -> Any:
    return arrays[0] + sum(array * np.float32(k + 1) for k, array in enumerate(arrays))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, two levels below what is searched for files afterwards."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    (tmp_path / "in" / "here").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "in" / "here")
    return tmp_path / "in"


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_names_are_names(here: Path) -> None:
    arrays = examples()
    o = ea.optimize(folded("Relu").SerializeToString(), arrays, seconds=0)
    wanted = np.maximum(expected(arrays), 0)
    np.testing.assert_allclose(o(*arrays), wanted, rtol=1e-5, atol=1e-5)
    assert str(o.report) and o.report._repr_html_()
    o.save(here / "here" / "model")
    o.to_onnx(here / "here" / "again.onnx")
    assert files(here) == [
        "here/again.onnx",
        *(
            f"here/model/{name}"
            for name in ("model.json", "program_0.c", "report.txt", "weights.npz")
        ),
    ]
    source = (here / "here" / "model" / "program_0.c").read_text()
    assert TOUCH not in source and compiler().compile(source).is_file()
    np.testing.assert_allclose(
        ea.Optimized.load(here / "here" / "model")(*arrays), wanted, rtol=1e-5, atol=1e-5
    )
    np.testing.assert_allclose(
        ea.optimize(here / "here" / "again.onnx", arrays, seconds=0)(*arrays),
        wanted,
        rtol=1e-5,
        atol=1e-5,
    )
    assert not list(here.rglob("ran"))


def test_names_in_sources_for_a_device(here: Path) -> None:
    (node,) = load(folded("Relu"), dict(zip(NAMES, examples()))).merged().nodes
    text = compile_program(
        ea.Program(node.program.statements, node.program.outputs), target="cuda"
    ).source("cuda")
    assert TOUCH not in text and FakeDevice().load(text.encode(), ["kernel_0"])


def test_names_around_a_call_of_the_framework(here: Path) -> None:
    arrays = examples()
    o = ea.optimize(folded("Hardmax", axis=1), arrays, seconds=0)
    np.testing.assert_allclose(o(*arrays), np.eye(3)[expected(arrays).argmax(1)])
    assert not files(here)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("domain", ["", "../x", NAMES[4]])
def test_an_operator_of_any_name_is_unknown(name: str, domain: str, here: Path) -> None:
    made = folded("Relu")
    made.graph.node[-1].op_type, made.graph.node[-1].domain = name, domain
    if domain:
        made.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    with pytest.raises(ea.EinalgError):
        ea.optimize(made, examples(), seconds=0)
    assert not files(here)


class Runs:
    """What runs a command when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.system, (TOUCH,)


def test_pickled_weights_are_refused(here: Path) -> None:
    """As an array of objects, in the place of an array, and in the place of the archive."""
    program = ea.parse("O[i] += A[k]*W[k,i]", A=(2,), W=ea.tensor("W", (2, 3), role="weight"))
    ea.optimize(program, {"A": np.ones(2), "W": np.ones((2, 3))}, seconds=0).save(here / "model")
    path, pickled = here / "model" / "weights.npz", pickle.dumps(Runs())
    for damage in ("objects", "member", "file"):
        if damage == "objects":
            np.savez(path, allow_pickle=True, w0=np.array([[Runs()]], dtype=object))
        elif damage == "member":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("w0.npy", pickled)
        else:
            path.write_bytes(pickled)
        with pytest.raises(RecordError, match=r"weights\.npz cannot be read"):
            ea.Optimized.load(here / "model")
    assert not list(here.rglob("ran"))
