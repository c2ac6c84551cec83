"""How the packages may depend on each other, and what every file keeps to (design §5)."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("einalg", "derive", "codegen")
MOST_ENTRIES = 12  # of a folder: what a reader takes in at a glance
MACHINE_PATHS = re.compile(r"/(?:work|root|home|tmp|mnt)/|\b[A-Z]:\\\\[A-Z]")
REFERENCE_LINES = 260
DROPPING = {  # they call Python code where exceptions are dropped
    "WeakKeyDictionary",
    "WeakSet",
    "WeakValueDictionary",
    "finalize",
    "get_pieces",
}
REFERENCES = {"ref", "Entry", "_Lease"}  # classes of weak references
IN_C = (".append", ".__setitem__")

# A room may import itself, `COMMON`, and these; the longest name that fits
# a module is its room.
ROOMS = {
    "einalg.boundary": set(),
    "einalg.errors": set(),
    "einalg.options": set(),
    "einalg.language": set(),
    "einalg.storage": set(),
    "einalg.text": set(),
    "einalg.runtime": {"einalg.language"},
    "einalg.frontends": {"einalg.language", "einalg.storage", "einalg.runtime"},
    "einalg.testing": {"einalg.language"},
    "einalg.testing.equality": {
        "einalg.language",
        "einalg.text",
        "einalg.frontends",
        "einalg.testing",
        "derive",
    },
    "einalg.display": {"einalg.language", "einalg.text", "derive"},
    "derive": {
        "einalg.language",
        "einalg.storage",
        "einalg.text",
        "einalg.runtime",
        "einalg.frontends",
        "einalg.testing",
    },
    "codegen": {
        "einalg.language",
        "einalg.storage",
        "einalg.text",
        "einalg.runtime",
        "einalg.frontends",
    },
    "einalg.api": {
        "einalg.language",
        "einalg.storage",
        "einalg.text",
        "einalg.runtime",
        "einalg.frontends",
        "einalg.display",
        "einalg.testing",
        "derive",
        "codegen",
    },
    "einalg.cli": {
        "einalg.api",
        "einalg.language",
        "einalg.storage",
        "einalg.text",
        "einalg.runtime",
        "einalg.frontends",
        "einalg.display",
        "derive",
        "codegen",
    },
}
COMMON = ("einalg.boundary", "einalg.errors", "einalg.options")
FACE = "einalg"  # the package itself: names that are looked up on first use, and the version

# Imported inside a function, because they serve a package that need not be installed.
SERVE_AN_EXTRA = {
    "einalg.cli.commands": "click, rich",
    "einalg.cli.commands.formula_svg": "ziamath",
    "einalg.frontends.onnx": "onnx",
    "einalg.frontends.torch": "torch",
    "einalg.testing.strategies": "hypothesis",
    "codegen.libraries.torch": "torch",
    "codegen.targets.cuda.device.pycuda": "pycuda",
}
INDEX_NODES = (
    "affine",
    "bounds",
    "constraint",
    "convert",
    "identifiers",
    "isl",
    "iterator",
    "remainder",
)
DATA_MODEL = {
    "einalg",
    "einalg.boundary",
    "einalg.errors",
    "einalg.options",
    "einalg.language",
    "einalg.language.conditions",
    "einalg.language.conversion",
    "einalg.language.interning",
    "einalg.language.node",
    "einalg.language.scalar_operand",
    "einalg.language.refusals",
    "einalg.language.interpreters",
    "einalg.language.interpreters.exact_values",
    "einalg.language.interpreters.reference",
    "einalg.language.interpreters.reference_functions",
    "einalg.language.interpreters.reference_indices",
    "einalg.language.index",
    *(
        f"einalg.language.index.{name}"
        for name in (*INDEX_NODES, "cases", "operators", "size", "text")
    ),
    "einalg.language.ir",
    *(
        f"einalg.language.ir.{name}"
        for name in (
            "body",
            "dtype_inference",
            "dtypes",
            "element",
            "identity",
            "program",
            "scope",
            "tensor",
            "traversal",
        )
    ),
    "einalg.language.ir.printing",
    *(f"einalg.language.ir.printing.{name}" for name in ("kinds", "latex", "text", "tree")),
}


class Import(NamedTuple):
    target: str
    line: int
    late: bool  # inside a function: it runs when that is called
    typing_only: bool
    star: bool


def _files(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def _name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in _files(*PACKAGES)}


@cache
def imports(module: str) -> tuple[Import, ...]:
    return tuple(
        _imports(ast.parse(MODULES[module].read_text()), module, late=False, typing_only=False)
    )


def _imports(node: ast.AST, module: str, late: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            for target, star in _targets(child, module):
                yield Import(target, child.lineno, late, typing_only, star)
        elif isinstance(child, ast.If) and ast.unparse(child.test) in (
            "TYPE_CHECKING",
            "typing.TYPE_CHECKING",
        ):
            yield from _imports(ast.Module(child.body, []), module, late, True)
            yield from _imports(ast.Module(child.orelse, []), module, late, typing_only)
        else:
            inside = late or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _imports(child, module, inside, typing_only)


def _targets(node: ast.Import | ast.ImportFrom, module: str) -> Iterator[tuple[str, bool]]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, False) for alias in node.names)
        return
    base = node.module or ""
    if node.level:
        parents = (
            module.split(".") if MODULES[module].name == "__init__.py" else module.split(".")[:-1]
        )
        base = ".".join([*parents[: len(parents) - node.level + 1], *([base] if base else [])])
    for alias in node.names:
        inner = f"{base}.{alias.name}"
        yield (inner if inner in MODULES else base), alias.name == "*"


def _package(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


def _edges(module: str) -> set[str]:
    """Return the modules of our own that `module` imports, wherever in it, for whatever reason."""
    return {i.target for i in imports(module) if i.target in MODULES and i.target != module}


def _reached(start: str, edges: Callable[[str], set[str]] = _edges) -> set[str]:
    reached, todo = set(), [start]
    while todo:
        current = todo.pop()
        if current not in reached:
            reached.add(current)
            todo += edges(current)
    return reached


def _room(module: str) -> str:
    fitting = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return max(fitting, key=len, default=FACE)


def test_packages_are_found() -> None:
    assert {_package(module) for module in MODULES} == set(PACKAGES)
    assert "einalg.language.index.affine" in _reached("einalg.language.notation.builders")


@pytest.mark.parametrize("room", ROOMS)
def test_what_a_room_imports(room: str) -> None:
    """`derive` and `codegen` never meet; nothing below `einalg.api` imports it."""
    allowed = {room, FACE, *COMMON, *ROOMS[room]}
    wrong = [
        f"{MODULES[module].relative_to(ROOT)}:{i.line} imports {i.target}"
        for module in MODULES
        if _room(module) == room
        for i in imports(module)
        if _package(i.target) in PACKAGES and _room(i.target) not in allowed
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_has_a_room() -> None:
    assert [module for module in MODULES if _room(module) == FACE] == [FACE]


def test_no_file_imports_itself_in_a_circle() -> None:
    """Imports inside functions and for the type checker count like any other."""
    cycles = [m for m in MODULES if any(m in _reached(target) for target in _edges(m))]
    assert not cycles, f"these modules import each other in a circle: {', '.join(cycles)}"


def _folder(module: str) -> str:
    return module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]


@cache
def _folder_edges(folder: str) -> set[str]:
    """Return the folders that the modules of a folder import from; the face of a package is none."""
    inside = [m for m in MODULES if _folder(m) == folder and m not in PACKAGES]
    return {_folder(t) for m in inside for t in _edges(m) if t not in PACKAGES} - {folder}


def test_no_folder_imports_itself_in_a_circle() -> None:
    folders = {_folder(module) for module in MODULES}
    cycles = [f for f in folders if any(f in _reached(t, _folder_edges) for t in _folder_edges(f))]
    assert not cycles, f"these folders import each other in a circle: {', '.join(sorted(cycles))}"


def test_folders_are_small() -> None:
    wide = {}
    for folder in {path.parent for path in MODULES.values()}:
        files = [p for p in folder.glob("*.py") if p.name != "__init__.py"]
        entries = len(files) + len([p for p in folder.iterdir() if (p / "__init__.py").is_file()])
        if entries > MOST_ENTRIES:
            wide[str(folder.relative_to(ROOT))] = entries
    assert not wide, f"more than {MOST_ENTRIES} entries: {wide}"


def test_every_folder_says_what_it_is_for() -> None:
    silent = [
        module
        for module, path in MODULES.items()
        if path.name == "__init__.py" and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent, silent


def test_a_class_has_a_name_of_its_own() -> None:
    modules: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                modules.setdefault(node.name, []).append(module)
    assert not {name: several for name, several in modules.items() if len(several) > 1}


def test_imports_inside_functions_serve_an_extra() -> None:
    late = [
        f"{MODULES[module].relative_to(ROOT)}:{i.line} {i.target}"
        for module in MODULES
        for i in imports(module)
        if i.late and _package(i.target) in PACKAGES
        if not any(i.target == e or i.target.startswith(f"{e}.") for e in SERVE_AN_EXTRA)
    ]
    assert not late, "\n".join(late)


def test_an_interrupt_is_lost_nowhere() -> None:
    """Where an object dies, and inside isl, Python drops what its code raises, as by Ctrl-C: there
    only functions in C are called. The handles of a device are the exception.
    """
    lossy: list[str] = []
    for module, path in MODULES.items():
        if module.startswith("codegen.targets.cuda.device"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if _is_python_callback(node):
                lossy.append(f"{module}:{getattr(node, 'lineno', '')}")
    assert not lossy, f"Python code that is called where exceptions are dropped: {lossy}"


def _is_python_callback(node: ast.AST) -> bool:
    """Tell whether a node lets Python code be called where exceptions are dropped."""
    if isinstance(node, ast.FunctionDef):
        return node.name == "__del__"
    if isinstance(node, ast.Name):
        return node.id in DROPPING
    if isinstance(node, ast.Attribute):
        return node.attr in DROPPING
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func).rpartition(".")[2]
    callbacks: list[ast.expr] = []
    if name.startswith("foreach_"):
        callbacks = node.args
    elif name in REFERENCES:
        callbacks = node.args[1:]
    return not all(ast.unparse(callback).endswith(IN_C) for callback in callbacks)


def test_no_star_imports() -> None:
    stars = [
        f"{MODULES[module].relative_to(ROOT)}:{i.line}"
        for module in MODULES
        for i in imports(module)
        if i.star
    ]
    assert not stars, stars


def test_what_users_read_does_not_cite_internal_documents() -> None:
    """Docstrings of functions and classes, and other texts; those of modules are for who works on
    them.
    """
    cited = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in MODULES.values()
        for inner in ast.parse(path.read_text()).body
        if not (isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Constant))
        for node in ast.walk(inner)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "design §" in node.value
    ]
    assert not cited, cited


def test_reference_evaluator_stands_alone() -> None:
    """What everything is tested against shares the data model with what it tests, and nothing else."""
    assert (
        len(MODULES["einalg.language.interpreters.reference"].read_text().splitlines())
        <= REFERENCE_LINES
    )
    assert _reached("einalg.language.interpreters.reference") <= DATA_MODEL
    assert not any(i.late for i in imports("einalg.language.interpreters.reference"))


def test_data_model_is_below_the_rest() -> None:
    assert set().union(*(_reached(module) for module in DATA_MODEL)) <= DATA_MODEL


GENERAL = (
    "derive/matching",
    "derive/rules",
    "derive/search/repairs.py",
    "derive/search/variations.py",
    "derive/search/cleanup.py",
    "derive/search/expansion.py",
)
LARGEST_LITERAL = 3


def _general_files() -> list[Path]:
    return [
        file
        for name in GENERAL
        for file in ([ROOT / name] if name.endswith(".py") else _files(name))
    ]


def _literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Constants in functions and classes: not docstrings, not the sizes of caches, and not what the
    module itself names.
    """
    named = {
        id(node)
        for statement in tree.body
        if isinstance(statement, (ast.Assign, ast.AnnAssign))
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            named.add(id(node.value))
        if isinstance(node, ast.FunctionDef):
            named.update(
                id(inner) for decorator in node.decorator_list for inner in ast.walk(decorator)
            )
    yield from (
        node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in named
    )


def test_the_search_is_fitted_to_no_operator() -> None:
    """No operator, layout or size is a literal where expressions are matched, rewritten and
    searched.
    """
    from einalg.language.ops.definition.registry import OPERATORS
    from einalg.language.ops.templates import TEMPLATES

    words = {
        "sum",
        "max",
        "min",
        "prod",
        "mul",
        "add",
        "pad",
        "split",
        "stack",
        "where",
        "slice",
        "tile",
    }  # what they also mean
    operators = {*(t.name for t in TEMPLATES), *OPERATORS} - words
    layout = re.compile(r"(?=.*C)[NCDHWOI]{3,5}")
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.value!r}"
        for file in _general_files()
        for node in _literals(ast.parse(file.read_text()))
        if (
            isinstance(node.value, str)
            and (node.value in operators or layout.fullmatch(node.value))
        )
        or (type(node.value) is int and abs(node.value) > LARGEST_LITERAL)
    ]
    assert len(_general_files()) > 15 and not wrong, "\n".join(wrong)


def test_no_machine_paths() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number} {line.strip()}"
        for path in _files(*PACKAGES, "tests", "bench")
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if MACHINE_PATHS.search(line)
    ]
    assert not found, "\n".join(found)


def test_packages_ship_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(PACKAGES)
    assert all((ROOT / package / "py.typed").is_file() for package in PACKAGES)


SAME_FOR_EVERY_SEED = """
import einalg as ea
from einalg.language.analysis.canonical import key
from einalg.language.ir.printing.latex import latex
from einalg.language.ir.printing.tree import tree
from einalg.language.ir.program import as_program, inlined

expressions = [
    ea.parse("O[n,f,h,w] += A.pad(0,0,1,(2,1))[n,c,h+r-1,w+s-2] * K[f,c,r,s]", A=(1, 3, 5, 7), K=(2, 3, 3, 4)),
    ea.parse("O[i,j] += A[i,k]*B[k,j] + C[j,i//2,j%3] * exp(A[i,k])", A=(4, 5), B=(5, 6), C=(6, 2, 3)),
    ea.parse("O = L[i:4, j:4](Max(A[i,j], A[j,i]) + B[i,j] + A[i,i], where=j<=i)", A=(4, 4), B=(4, 4)),
    ea.parse("M[i] = Max[j](S[i,j])\\nE[i,j] = exp(S[i,j] - M[i])\\nO[i,j] = E[i,j] / Sum[k](E[i,k])", S=(3, 5)),
    ea.einsum("abc,cd,bd->da", ea.tensor("A", (2, 3, 4)), ea.tensor("B", (4, 5)), ea.tensor("C", (3, 5))),
]
for expression in expressions:
    program = as_program(expression)
    print(expression, key(expression), latex(inlined(program)), tree(inlined(program)), list(program.tensors), sep="\\n")
"""


def test_same_for_every_hash_seed() -> None:
    """Sets of strings change their order from process to process; no result may."""
    one, two, three = (_run(SAME_FOR_EVERY_SEED, seed) for seed in ("1", "2", "12345"))
    assert len(one) > 1000
    assert one == two == three


def _run(code: str, seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
