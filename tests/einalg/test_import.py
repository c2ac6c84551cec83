"""What `import einalg` costs, and that its names lead somewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import einalg

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 0.5
TRIES = 3
HEAVY = {
    "torch",
    "pycuda",
    "IPython",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "sympy",
    "islpy",
    "numpy",
    "opt_einsum",
    "derive",
    "codegen",
}
OPTIONAL = (
    "torch",
    "pycuda",
    "IPython",
    "matplotlib",
    "onnx",
    "onnxruntime",
    "graphviz",
    "nbformat",
    "nbclient",
    "pytest",
    "hypothesis",
    "distributed",
    "tqdm",
    "anywidget",
    "latex2mathml",
    "traitlets",
    "click",
    "rich",
)
NEEDS_EXTRA = ("einalg.testing", "einalg.cli.")  # strategies are hypothesis's, commands click's

TIMED_IMPORT = """
import json, sys, time
before, start = set(sys.modules), time.process_time()
import einalg
seconds = time.process_time() - start
print(json.dumps([seconds, sorted({name.split(".")[0] for name in set(sys.modules) - before})]))
"""

IMPORT_WITHOUT_EXTRAS = """
import sys
from importlib import import_module

for name in {optional}:
    sys.modules[name] = None  # importing it raises ImportError
for name in {modules}:
    import_module(name)
"""


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_is_quick_and_light() -> None:
    runs = [json.loads(_python(TIMED_IMPORT)) for _ in range(TRIES)]
    assert not HEAVY.intersection(runs[0][1])
    assert min(seconds for seconds, _ in runs) < MOST_SECONDS


def test_every_module_imports_without_extras() -> None:
    """What is optional is imported where it is used, so that the core works and documents itself
    without it.
    """
    paths = sorted(
        path.relative_to(ROOT)
        for package in ("einalg", "derive", "codegen")
        for path in (ROOT / package).rglob("*.py")
    )
    names = [
        ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        for path in paths
        if path.name != "__main__.py"
    ]
    modules = [name for name in names if not name.startswith(NEEDS_EXTRA)]
    _python(IMPORT_WITHOUT_EXTRAS.format(optional=OPTIONAL, modules=modules))


@pytest.mark.parametrize("name", sorted(einalg.__all__))
def test_public_name(name: str) -> None:
    assert getattr(einalg, name) is not None
    assert name in dir(einalg)


def test_from_imports() -> None:
    assert (
        _python(
            "from einalg import ops, parse, L, Sum, evaluate; print(ops.__name__, parse.__name__)"
        )
        == "einalg.language.ops parse\n"
    )


def test_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'convolve'"):
        _ = einalg.convolve


@pytest.mark.parametrize("module", [einalg, einalg.ops, einalg.testing])
def test_dir_lists_public_names_only(module: object) -> None:
    names = dir(module)
    assert names == sorted(module.__all__)  # type: ignore[attr-defined]
    assert not [name for name in names if name.startswith("_")]
    assert all(hasattr(module, name) for name in names)
