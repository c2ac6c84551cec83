"""What cached entries depend on: a change of einalg's code counts for what it can change alone."""

from __future__ import annotations

import ast
import io
import json
import tokenize
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest

import einalg as ea
from codegen.lowering.schedule import DEFAULT
from codegen.measure import calibration
from codegen.program.building.problem import build_state
from codegen.targets.c.compiler import Compiler
from derive.cost.model import MeasuredCostModel, Roofline
from derive.matching import kernels_of
from derive.programs.forms.layers import LAYERS, SearchedLayer, known_layer, layer_key
from einalg.api.backend import LocalBackend
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import as_program
from einalg.runtime.measurement import Measurement
from einalg.storage import fingerprint
from einalg.storage.fingerprint import (
    PACKAGES,
    SOURCE_ROOT,
    code_digest,
    forget_code,
    without_prose,
)
from tests.helpers.measurements import exactly

COMPILER = Compiler(("cc",), "cc 14", ("-O3",))
FUNCTION = "def lowered(scope):\n    return scope\n"
FILES = {
    "codegen/lowering.py": FUNCTION,
    "einalg/language/node.py": "NODES = 3\n",
    "einalg/runtime/timing.py": "ROUNDS = 3\n",
    "einalg/cli/app.py": "COMMANDS = 3\n",
    "einalg/display/html.py": "COLUMNS = 3\n",
    "derive/rules/split.py": "RULES = 3\n",
}


class Edit:
    """Files of einalg in a folder of the test, which change as they do between two processes."""

    def __init__(self, root: Path):
        self.root = root
        for name, text in FILES.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        forget_code()

    def __call__(self, name: str, text: str) -> None:
        (self.root / name).write_text(text)
        forget_code()


@pytest.fixture
def edit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "find_compiler", lambda: COMPILER)
    monkeypatch.setattr(fingerprint, "SOURCE_ROOT", tmp_path / "source")
    yield Edit(tmp_path / "source")
    forget_code()


class Clock(LocalBackend):
    """This machine, where every kernel takes as long as the test says."""

    def __init__(self, taken: float):
        super().__init__()
        self.taken = taken

    def kernel_timers(self, kernels: Sequence[Kernel]) -> list[Callable[[], Measurement]]:
        return [partial(exactly, self.taken) for _ in kernels]


def cost(taken: float) -> float:
    (kernel,) = kernels_of(as_program(ea.parse("O[i] = A[i]+1", A=(4,))))
    return MeasuredCostModel(Roofline(), Clock(taken)).seconds(kernel)


def layer() -> SearchedLayer:
    text = ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 4), B=(4, 4))
    return SearchedLayer(("O",), as_program(text), original=0.5)


def is_known_layer() -> bool:
    return known_layer(layer(), 1.0, LocalBackend()) is not None


def store_layer() -> None:
    content = json.dumps({"candidate": None, "original": 0.5, "cut": None}).encode()
    LAYERS.replace(layer_key(layer(), LocalBackend()), content)


def kernel_state() -> str:
    return build_state(COMPILER, DEFAULT)


CHANGED = {
    "codegen/lowering.py": FUNCTION.replace("return scope", "return None"),
    "einalg/language/node.py": "NODES = 4\n",
    "einalg/runtime/timing.py": "ROUNDS = 4\n",
    "derive/rules/split.py": "RULES = 4\n",
    "einalg/cli/app.py": "COMMANDS = 4\n",
    "einalg/display/html.py": "COLUMNS = 4\n",
}
KERNELS = {"codegen/lowering.py", "einalg/language/node.py"}
COSTS = KERNELS | {"einalg/runtime/timing.py"}
SEARCHES = COSTS | {"derive/rules/split.py"}


@pytest.mark.parametrize("name", CHANGED)
def test_a_cost_that_older_code_had_is_measured_anew(edit: Edit, name: str) -> None:
    """Neither taken, nor held against the new figure as the lower one."""
    assert cost(0.125) == 0.125
    edit(name, CHANGED[name])
    assert cost(0.5) == (0.5 if name in COSTS else 0.125)


@pytest.mark.parametrize("name", CHANGED)
def test_a_layer_that_older_code_searched_is_searched_anew(edit: Edit, name: str) -> None:
    store_layer()
    assert is_known_layer()
    edit(name, CHANGED[name])
    assert is_known_layer() is (name not in SEARCHES)


@pytest.mark.parametrize("name", CHANGED)
def test_kernels_are_generated_anew_by_other_code_generators_only(edit: Edit, name: str) -> None:
    before = kernel_state()
    edit(name, CHANGED[name])
    assert (kernel_state() == before) is (name not in KERNELS)


@pytest.mark.parametrize(
    "text",
    [
        '"""What it does."""\n\n' + FUNCTION,
        FUNCTION.replace(":\n", ':\n    """Return a scope.\n\n    As it is: "so".\n    """\n'),
        FUNCTION.replace(":\n", ":\n    # as it is\n"),
        FUNCTION.replace("scope\n", "scope  # as it is: '\n"),
    ],
)
def test_what_only_people_read_changes_nothing(edit: Edit, text: str) -> None:
    before = code_digest("codegen")
    edit("codegen/lowering.py", text)
    assert code_digest("codegen") == before


@pytest.mark.parametrize(
    "text",
    [
        FUNCTION.replace("return scope", "return '# scope'"),
        FUNCTION.replace("return scope", "return '''scope'''"),
        FUNCTION.replace("def", "async def"),
        FUNCTION + "# comment\nlowered = print\n",
    ],
)
def test_what_runs_counts(edit: Edit, text: str) -> None:
    before = code_digest("codegen")
    edit("codegen/lowering.py", text)
    assert code_digest("codegen") != before


def test_moved_and_new_files_count(edit: Edit) -> None:
    digests = {code_digest("codegen")}
    edit("codegen/other.py", FUNCTION)
    digests.add(code_digest("codegen"))
    (edit.root / "codegen/lowering.py").unlink()
    edit("codegen/lowered.py", FUNCTION)
    digests.add(code_digest("codegen"))
    assert len(digests) == 3


def test_unchanged_files_are_read_once(edit: Edit, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a process that starts looks at the times of files alone."""
    before = code_digest("codegen")
    forget_code()
    monkeypatch.setattr(fingerprint, "without_prose", lambda text: pytest.fail("it is read again"))
    assert code_digest("codegen") == before


def words(text: str) -> list[str]:
    """Everything in a source that Python runs."""
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    docstrings = {node.body[0].lineno for node in ast.walk(ast.parse(text)) if has_docstring(node)}
    return [
        token.string
        for token in tokens
        if token.type not in skipped
        and not (token.type == tokenize.STRING and token.start[0] in docstrings)
    ]


def has_docstring(node: ast.AST) -> bool:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node) is not None


@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.nightly)])
def test_exactly_docstrings_and_comments_are_left_out(step: int) -> None:
    """Of einalg's own files, by Python's own tokens: of every ninth one by day."""
    for package in PACKAGES:
        for path in sorted((SOURCE_ROOT / package).rglob("*.py"))[::step]:
            text = path.read_text()
            rest = without_prose(text)
            tokens = tokenize.generate_tokens(io.StringIO(rest).readline)
            left = [token.string for token in tokens if token.string.strip()]
            assert left == [word for word in words(text) if word.strip()], path
