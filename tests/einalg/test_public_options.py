"""Every option of every public function, fed with what it must not be: an einalg error with a
remedy, before anything is computed or written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import Parameter, getattr_static, isclass, isfunction, signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import einalg as ea
from codegen.program.executable import Executable
from derive.results.candidates import Candidate, Candidates
from einalg.errors import EinalgError
from einalg.language.ir.program import Program

WRONG: Mapping[str, Any] = {
    "None": None,
    "True": True,
    "negative": -1,
    "fraction": 2.5,
    "NaN": math.nan,
    "infinity": math.inf,
    "huge": 10**30,
    "vast": 10**5000,
    "complex": 1j,
    "text": "nonsense",
    "empty text": "",
    "bytes": b"nonsense",
    "object": object(),
    "objects": [object()],
    "list": [],
    "dict": {},
    "array": np.array(["a"]),
    "NUL": "a\0b",
    "no folder": "no folder/file",
}
WORDS = {"text", "NUL", "no folder"}
SOME_TEXT = WORDS | {"empty text"}
LARGE = {"huge", "vast"}
NONE_AT_ALL = {"None", "list", "dict"}  # of several things that may be left out
RIGHT: Mapping[str, set[str]] = {  # values above that are right for an option, by its name
    "depth": LARGE,
    "states": LARGE,
    "seconds": LARGE | {"infinity", "fraction"},
    "seed": LARGE,
    "most": LARGE,
    "repeats": LARGE,
    "examples": LARGE,
    "rules": NONE_AT_ALL,
    "ops": NONE_AT_ALL,
    "progress": {"None", "True"},
    "measure": {"True"},
    "executor": {"None"},
    "memory": LARGE | {"None"},
    "accuracy": LARGE | {"None", "fraction", "infinity"},
    "example_inputs": {"None"},
    "substitutions": {"None", "list"},
    "candidate": {"None"},
    "candidates": {"None", "list"},
    "backend": {"None"},
    "search": {"None"},
    "axes": {"None"},
    "points": {"None", "list"},
    "steps": {"list"},
    "strategy": {"None"},
    "name": WORDS,
    "before": SOME_TEXT,
    "after": SOME_TEXT,
    "requires": SOME_TEXT,
    "section": SOME_TEXT,
    "example": {"None"},
    "outputs": {"empty text", "list", "dict"},
    "values": LARGE | {"True", "negative", "fraction", "list"},
    "names": {"text"},
    "args": {"dict"},
    "folder": {"text", "no folder"},
    "weights": {"None", "dict"},
}
RIGHT_HERE: Mapping[tuple[str, str], set[str]] = {  # where the same name means something else
    ("Move", "rule"): WORDS,
    ("tune", "trials"): LARGE,
    ("tune", "strategy"): set(),
    ("optimize", "tune"): LARGE | {"infinity", "fraction"},
    ("size", "name"): {"text"},
    ("size", "at_least"): LARGE,
    ("size", "at_most"): LARGE | {"None"},
    ("size", "multiple_of"): LARGE,
    ("Move", "path"): {"list", "array"},
    ("footprint", "path"): {"list"},
    ("mutants", "factors"): {"list"},
    ("check_rule", "seed"): LARGE | {"None"},
    ("tensor", "name"): {"text"},
    ("tensor", "shape"): {"list"},
    ("constant", "name"): {"text"},
    ("Session.moves", "rule"): {"None"},
    ("Session.moves", "path"): {"None"},
    ("Session.moves", "at"): {"None"},
    ("Session.aim", "operator"): {"None"},
    ("Session.possible", "rule"): {"None"},
    ("Session.possible", "path"): {"None"},
    ("Session.possible", "at"): {"None"},
    ("Session.substitute", "path"): {"None"},
    ("Session.lift", "name"): {"None"} | WORDS,
    ("Session.undo", "steps"): set(),
    ("Schedule", "tuned"): {"True"},
    ("Schedule.moves", "kernel"): {"None"},
    ("Schedule.moves", "name"): {"None"},
    ("Schedule.undo", "steps"): set(),
    ("Schedule.source", "kernel"): {"None"},
    ("Schedule.loops", "kernel"): {"None"},
    ("Schedule.save", "path"): {"text"},
    ("Candidate.compile", "target"): {"None"},
    ("Candidate.export_c", "name"): {"None", "text"},
    ("Optimized.export_c", "name"): {"None", "text"},
    ("Optimized.save", "path"): {"text", "no folder"},
    ("Optimized.save", "language"): {"None"},
    ("Optimized.to_onnx", "path"): {"text"},
    ("Derivation.save", "path"): {"text"},
    ("Session.save", "path"): {"text"},
    ("History.save", "path"): {"text"},
    ("History.load", "rules"): {"dict"},
    ("History.replay", "rules"): {"dict"},
}
# Results, which einalg makes, and nodes, which its notation makes: their methods are looked at.
MADE_BY_EINALG = {
    *(
        "Derivation",
        "History",
        "Mutant",
        "Optimized",
        "Proof",
        "RuleReport",
        "Scope",
        "Tuning",
        "Reduce",
        "Mod",
    ),
}
READERS = {"L", "Sum", "Prod", "Max", "Min", "einsum", "parse"}  # of the notation: test_errors.py


class Subject(NamedTuple):
    """A public callable, with right values of what it cannot do without."""

    call: Callable[..., Any]
    required: Mapping[str, Any]


@cache
def expression() -> ea.Scope:
    return ea.parse("O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]", A=(8, 16), K=(3, 8))


CLASSES = {  # whose methods are public
    "Derivation": ea.Derivation,
    "Candidate": Candidate,
    "Candidates": Candidates,
    "Executable": Executable,
    "Session": ea.Session,
    "History": ea.History,
    "Optimized": ea.Optimized,
    "Program": Program,
    "Move": ea.Move,
    "Rule": ea.Rule,
    "Schedule": ea.Schedule,
}


@cache
def values() -> Mapping[str, Any]:
    """Return a value of each of these classes."""
    derivation = ea.derive(expression(), measure=False, states=20)
    session = ea.Session(expression())
    session.apply(0)
    optimized = ea.optimize(ea.parse("O[i] = A[i] + 1", A=(2,)), [np.ones(2)], seconds=0)
    return {
        "Derivation": derivation,
        "Candidate": derivation.best,
        "Candidates": derivation.candidates,
        "Executable": derivation.original.compile(),
        "Session": session,
        "History": session.history,
        "Optimized": optimized,
        "Program": derivation.best.program,
        "Move": ea.Move("staging", ["O"], {}),
        "Rule": ea.rules["staging"],
        "Schedule": ea.Schedule(expression()),
    }


REQUIRED: Mapping[str, Any] = {
    "expr": expression(),
    "a": expression(),
    "b": ea.parse("O[h] = exp(A[0,h])", A=(8, 16)),
    "model": ea.parse("O[i] = A[i] + 1", A=(2,)),
    "operator": "matmul",
    "tested": ea.rules["staging"],
    "shape": (3,),
    "values": [1, 2],
    "names": "i",
    "name": "A",
    "before": "f",
    "after": "f",
    "requires": "",
    "find": print,
    "rewrite": print,
    "rule": "staging",
    "path": ("O",),
    "folder": "out",
    "args": {},
    "text": "{}",
    "record": {},
    "statements": [("O", expression())],
    "move": 10**6,
    "number": 0,
    "steps": [],
    "mapping": "{ [h] -> [h] }",
    "space": "none",
}
CHEAP: Mapping[str, Mapping[str, Any]] = {  # options with which a call does little
    "derive": {"measure": False, "states": 0},
    "tune": {"seconds": 0},
    "optimize": {"seconds": 0},
    "Optimized.save": {"path": "model"},
    "Optimized.load": {"path": "missing"},
}


def _is_ours(member: Any) -> bool:
    module = getattr(member, "__module__", None) or ""
    return module.partition(".")[0] in ("einalg", "derive", "codegen")


@cache
def options() -> Mapping[str, list[Parameter]]:
    """Return the options of each public callable, by its name: `derive`, `Session.apply`."""
    public: dict[str, list[Parameter]] = {}
    for name in set(ea.__all__) - READERS - MADE_BY_EINALG:
        value = getattr(ea, name)
        is_error = isclass(value) and issubclass(value, (EinalgError, Warning))
        if callable(value) and not is_error:
            public[name] = _options(value)
    for owner, kind in CLASSES.items():
        for name in dir(kind):
            method = getattr(kind, name)
            if name.startswith("_") or not callable(method) or not _is_ours(method):
                continue  # a property among them
            is_of_a_value = isfunction(getattr_static(kind, name))
            public[f"{owner}.{name}"] = _options(method)[is_of_a_value:]  # without `self`
    return public


def _options(call: Callable[..., Any]) -> list[Parameter]:
    kinds = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return [p for p in signature(call).parameters.values() if p.kind in kinds]


def subject(name: str) -> Subject:
    owner, _, method = name.rpartition(".")
    source = ea
    if owner:
        source = values()[owner]
    required = dict(CHEAP.get(name, {}))
    for option in options()[name]:
        if option.default is Parameter.empty and option.name not in required:
            required[option.name] = REQUIRED.get(option.name)
    return Subject(getattr(source, method), required)


# Functions for the other parts of einalg, whose arguments are values of einalg.
INTERNAL = {
    *("Executable.accepting", "Executable.fill", "Executable.direct", "Executable.frame"),
    "Optimized.direct",
    *("Program.replaced", "Program.with_text", "Rule.find", "Rule.rewrite", "Candidates.remarks"),
}


def cases() -> Iterator[tuple[str, str]]:
    for name, public in sorted(options().items()):
        if name in INTERNAL:
            continue
        for option in public:
            yield name, option.name


@pytest.mark.parametrize(("name", "option"), list(cases()))
def test_a_wrong_option_is_an_error_with_a_remedy(
    name: str, option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call, required = subject(name)
    right = RIGHT_HERE.get((name, option), RIGHT.get(option, set()))
    for what, value in WRONG.items():
        if what in right:
            continue
        with pytest.raises(EinalgError) as refused:
            call(**{**required, option: value})
            pytest.fail(f"{name}({option}={what}) is accepted")
        lines = str(refused.value).split("\n")
        assert len(lines) > 1, lines
        assert lines[-1].startswith("  "), lines
    assert not list(tmp_path.iterdir())


def test_all_public_functions_are_looked_at() -> None:
    looked_at = {name for name, _ in cases()}
    without_options = {name for name, public in options().items() if not public}
    for name in ea.__all__:
        value = getattr(ea, name)
        if isfunction(value) and name not in READERS:
            assert name in looked_at | without_options


@pytest.mark.parametrize("array", [["a", "b"], [1j, 2], [None, 1], [[1, 2], [3]], "ab", object()])
def test_arrays_that_hold_no_numbers(array: Any) -> None:
    program = ea.parse("O[i] = A[i] + 1", A=(2,))
    run = ea.derive(program, measure=False, states=0).best.compile()
    for call in (
        lambda: ea.evaluate(program, A=array),
        lambda: run(A=array),
        lambda: run.bind(A=array),
        lambda: run.time(A=array),
        lambda: values()["Optimized"](array),
        lambda: ea.optimize(program, [array], seconds=0),
    ):
        with pytest.raises(ea.ShapeError, match=r"\n  "):
            call()


@pytest.mark.parametrize("path", ["no folder/file", "", "x" * 5000, None, 3, "a\0b"])
def test_records_are_written_and_read_where_there_is_a_place(path: Any) -> None:
    owners = values()
    for call in (
        owners["Derivation"].save,
        owners["Session"].save,
        owners["History"].save,
        owners["Schedule"].save,
        owners["Optimized"].to_onnx,
        ea.Derivation.load,
        ea.Session.load,
        ea.History.load,
        ea.Optimized.load,
        ea.Schedule.load,
    ):
        with pytest.raises(ea.RecordError, match=r"\n  "):
            call(path)
