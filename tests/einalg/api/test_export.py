"""Candidates and optimized networks as C projects, by the public functions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einalg as ea
from tests.helpers.c_project import check
from tests.helpers.cuda_project import run_on_the_cpu

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EINALG_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def _convolution() -> Any:
    K = ea.tensor("K", (2, 4, 7, 5), role="weight")
    text = "O[n,h,w,f] += A.pad(0,(1,0),(2,1),0)[n,h+r-1,w+s-2,c]*K[r,s,f,c]"
    return ea.derive(ea.parse(text, A=(1, 9, 11, 5), K=K), measure=False, states=10)


class Convolutional(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8 * 4 * 4, 10)

    def forward(self, image: Any) -> Any:
        activated = torch.relu(self.norm(self.convolution(image)))
        return self.linear(torch.nn.functional.max_pool2d(activated, 2).flatten(1))


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = torch.nn.LayerNorm(16)
        self.feed = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.GELU())

    def forward(self, x: Any) -> Any:
        return self.feed(self.norm(x + self.attention(x, x, x, need_weights=False)[0]))


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.recurrent = torch.nn.LSTM(8, 6, batch_first=True)

    def forward(self, x: Any) -> Any:
        outputs, (state, _) = self.recurrent(x)
        return outputs, state, x


class Singular(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return torch.relu(torch.linalg.svd(x)[1])


class Written(torch.nn.Module):
    """A result that only its own program reads: the graph gives its copy another value."""

    def forward(self, x: Any) -> Any:
        y = torch.relu(x)
        y[:, 1:3] = 0
        return torch.cat([y, torch.ones_like(y[:, :2])], 1)


NETWORKS = {
    "written in place": (Written, (3, 5)),
    "convolutional": (Convolutional, (2, 3, 8, 8)),
    "attention": (Attention, (2, 5, 16)),
    "recurrent": (Recurrent, (2, 3, 8)),
}


def _optimized(module: Any, shape: tuple[int, ...]) -> Any:
    torch.manual_seed(0)
    return ea.optimize(module().eval(), [torch.randn(shape)], seconds=0, prefer="einalg")


def test_a_candidate_is_a_project(tmp_path: Path) -> None:
    derivation = _convolution()
    for number, candidate in enumerate(derivation.candidates[:2]):
        folder = candidate.export_c(tmp_path / f"conv_{number}")
        assert folder == tmp_path / f"conv_{number}"
        assert {"Makefile", "CMakeLists.txt", "main.c"} < {p.name for p in folder.iterdir()}
        assert (
            f"void conv_{number}(const float *A, const float *K, float *O,"
            in (folder / f"conv_{number}.h").read_text()
        )
        assert "a call takes" in check(folder, "-O1")


def test_weights_of_a_candidate_are_inside(tmp_path: Path) -> None:
    weights = {"K": np.random.default_rng(0).standard_normal((2, 4, 7, 5)).astype(np.float32)}
    folder = _convolution().best.export_c(tmp_path / "out", "layer", weights=weights)
    assert "void layer(const float *A, float *O," in (folder / "layer.h").read_text()
    assert "a call takes" in check(folder, "-O1")


def test_a_candidate_for_a_device_is_a_cuda_project(tmp_path: Path) -> None:
    expression = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(37, 53), B=(53, 41))
    derivation = ea.derive(expression, target="cuda", measure=False, states=5)
    folder = derivation.best.export_c(tmp_path / "out", "product")
    assert {"product.cu", "product.h", "main.cu"} < {path.name for path in folder.iterdir()}
    assert "a call takes" in run_on_the_cpu(folder)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_is_a_project(name: str, tmp_path: Path) -> None:
    folder = _optimized(*NETWORKS[name]).export_c(tmp_path / "net", "forward")
    assert (folder / "forward.c").is_file()
    assert "a call takes" in check(folder, "-O1", "-Wno-unused-result")


def test_a_loaded_network_is_a_project(tmp_path: Path) -> None:
    o = ea.optimize(ea.parse("O[i] = A[i] + 1", A=(5,)), [np.ones(5)], seconds=0)
    o.save(tmp_path / "saved")
    folder = ea.Optimized.load(tmp_path / "saved").export_c(tmp_path / "out")
    assert "a call takes" in check(folder, "-O1")


def test_a_call_of_the_framework_is_named(tmp_path: Path) -> None:
    o = _optimized(Singular, (4, 4))
    with pytest.raises(
        ea.CodegenError, match=r"calls of the framework are left in it .*svd"
    ) as error:
        o.export_c(tmp_path / "out")
    assert str(error.value).splitlines()[-1].startswith("  ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["a b", "int", ""])
def test_a_name_must_be_an_identifier(name: str, tmp_path: Path) -> None:
    candidate = ea.derive(ea.parse("O[i] += A[i,j]", A=(2, 3)), measure=False, states=1).best
    with pytest.raises(ea.UseError, match="name must be a C identifier"):
        candidate.export_c(tmp_path / "out", name)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"B": np.ones(3)}, "B is not an input of the program; the inputs are A"),
        ({"A": np.ones(3)}, "A has shape"),
    ],
)
def test_weights_must_fit(weights: Any, message: str, tmp_path: Path) -> None:
    candidate = ea.derive(ea.parse("O[i] += A[i,j]", A=(2, 3)), measure=False, states=1).best
    with pytest.raises(ea.ShapeError, match=message):
        candidate.export_c(tmp_path / "out", weights=weights)
    assert not (tmp_path / "out").exists()


def test_without_a_compiler_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    candidate = ea.derive(ea.parse("O[i] += A[i,j]", A=(2, 3)), measure=False, states=1).best
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ea.CodegenError, match="no C compiler works here"):
        candidate.export_c(tmp_path / "out")
    assert not (tmp_path / "out").exists()
