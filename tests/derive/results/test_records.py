"""Records are JSON with a schema; a broken, foreign or newer file is a RecordError and changes
nothing (design §13).
"""

from __future__ import annotations

import json
from contextlib import suppress
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import einalg as ea
from derive.results.history import History
from derive.rewriting.moves import Move
from einalg.errors import RangeError, RecordError
from einalg.language.ir.program import as_program
from einalg.language.notation import parser
from einalg.language.notation.program_json import (
    lazy_program_from_record,
    program_from_record,
    program_record,
    program_record_with_heads,
)
from einalg.language.notation.source import SourceText
from einalg.testing import strategies

PROGRAM = as_program(ea.parse("O[h] += A.pad(1)[h+r-1]*K[r,c]", A=(8,), K=(3, 4)))


@given(st.one_of(strategies.scopes(), strategies.programs()))
def test_a_program_survives_its_record(expression):
    program = as_program(expression)
    written = json.loads(json.dumps(program_record(program)))
    assert program_from_record(written) == program


@given(st.one_of(strategies.scopes(), strategies.programs()))
def test_a_program_is_known_before_it_is_read(expression):
    program = as_program(expression)
    with patch(
        "einalg.language.notation.program_json.line_reader",
        lambda: lambda *_: pytest.fail("a statement is read"),
    ):
        later = lazy_program_from_record(json.loads(json.dumps(program_record_with_heads(program))))
        assert (later.names, later.outputs, later.tensors) == (
            program.names,
            program.outputs,
            program.tensors,
        )
        for name, scope in later:
            own = program[name]
            assert (scope.iterators, scope.where, scope.dtype, scope.tensors) == (
                own.iterators,
                own.where,
                own.dtype,
                own.tensors,
            )
    assert (
        lazy_program_from_record(json.loads(json.dumps(program_record_with_heads(program))))
        == program
    )


def test_statements_are_read_in_any_order():
    program = ea.parse(
        "T[i] = A[i] + 1\nV = L[i:4](2*T[i], where=i>=1)\nO[i:4] = V.pad(1)[i] + L[j:8](A[j%4])[i]",
        A=(4,),
    )
    later = lazy_program_from_record(json.loads(json.dumps(program_record_with_heads(program))))
    for name in ("O", "T", "V"):
        assert later[name].body == program[name].body
    assert later == program


@pytest.mark.parametrize(
    "damage",
    [
        {"heads": []},
        {"heads": [["O", [["i", 0, 4]], [], "f32", ["B"]]]},
        {"heads": 3},
        {"text": ""},
        {"outputs": ["P"]},
    ],
)
def test_a_damaged_record_of_a_program_for_later_is_told(damage):
    written = program_record_with_heads(as_program(ea.parse("O[i] = A[i]", A=(4,))))
    with pytest.raises(RecordError, match="holds no program"):
        lazy_program_from_record({**written, **damage})


def test_a_program_may_be_longer_than_a_text(monkeypatch):
    lines = [
        f"T{k}[i] = {f'T{k - 1}' if k else 'A'}[i]*2 + {f'T{k // 2}' if k else 'A'}[i] - exp(A[i])"
        for k in range(12)
    ]
    program = ea.parse("\n".join([*lines, "T11, T3"]), A=(8,))
    written = json.loads(json.dumps(program_record(program)))
    monkeypatch.setattr("einalg.language.notation.source.MAX_TEXT", 100)
    assert len(written["text"]) > 300
    assert program_from_record(written) == program
    written["text"] = written["text"].replace("T7[i:8] = ", "T7[i:8] = (")
    with pytest.raises(RecordError, match="never closed"):
        program_from_record(written)
    with pytest.raises(RecordError):
        program_from_record({**written, "text": "", "outputs": []})


def test_statements_of_equal_layers_are_read_once(monkeypatch):
    layer = "T{k}[i:6] = Sum[j:6](W{k}[i,j]*T{before}[j]) + b{k}[i]"
    lines = ["T0[i:6] = x[i]", *(layer.format(k=k, before=k - 1) for k in range(1, 9))]
    shapes = {
        "x": (6,),
        **{f"W{k}": (6, 6) for k in range(1, 9)},
        **{f"b{k}": (6,) for k in range(1, 9)},
    }
    program = ea.parse("\n".join(lines), **shapes)
    read = []
    monkeypatch.setattr(parser, "SourceText", lambda line: read.append(line) or SourceText(line))
    written = json.loads(json.dumps(program_record(program)))
    assert program_from_record(written) == program
    assert [line for line in read if line] == written["text"].splitlines()[:2]


@pytest.mark.parametrize("kinds", [("f32", "f64"), ("f32", "i32")])
def test_statements_that_read_other_kinds_of_tensors_are_not_alike(kinds):
    given = {f"A{k}": ea.tensor(f"A{k}", (4,), kind) for k, kind in enumerate(kinds)}
    (_, first), (_, second) = parser.parse_lines(["S[i] = A0[i]*2", "T[i] = A1[i]*2"], given)
    assert (first.dtype, second.dtype) == kinds


def test_names_that_trade_places_are_read_as_they_stand():
    given = {name: ea.tensor(name, (4, 4)) for name in "AB"}
    lines = ["S[i,j] = A[i,j]*B[j,i]", "T[i,j] = B[i,j]*A[j,i]", "U[i,j] = A[i,j]*A[j,i]"]
    assert parser.parse_lines(lines, given) == [
        (line[0], ea.parse(line.partition("\n")[0], **given)) for line in lines
    ]


def test_what_is_read_where_it_has_no_value_is_refused_in_every_statement():
    given = {name: ea.tensor(name, (6,)) for name in "AB"}
    lines = [
        "S = L[i:6](A[i], where=i >= 2)",
        "T = L[i:6](B[i], where=i >= 3)",
        "U[i:2:6] = S[i]*2",
        "V[i:2:6] = T[i]*2",
    ]
    with pytest.raises(RangeError, match="reads points of T at which it has no value"):
        parser.parse_lines(lines, given)
    assert [name for name, _ in parser.parse_lines(lines[:3], given)] == ["S", "T", "U"]


def saved(tmp_path):
    session = ea.Session(PROGRAM)
    session.apply(0)
    session.save(tmp_path / "h.json")
    return tmp_path / "h.json"


def broken(tmp_path, change):
    path = saved(tmp_path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    return path


CHANGES = {
    "foreign kind": (
        lambda c: c.update(format="other"),
        "is not a record of the kind 'einalg history'",
    ),
    "newer": (
        lambda c: c.update(schema=99),
        "has schema 99, this version reads up to 1\n  install a newer einalg",
    ),
    "no schema": (lambda c: c.pop("schema"), "has no schema number"),
    "no steps": (lambda c: c.update(steps=3), "has no list of steps"),
    "no program": (lambda c: c.update(start={}), "the record holds no program"),
    "bad text": (lambda c: c["start"].update(text="O[i] = ("), "the record holds no program"),
    "bad tensor": (
        lambda c: c["start"]["tensors"]["A"].update(axes=[[0, "x"]]),
        "the record holds no program",
    ),
    "no move": (lambda c: c["steps"].append(["rule"]), "this is not a move"),
    "bad path": (lambda c: c["steps"][0].update(path=[1]), "this is not a move"),
    "changed result": (
        lambda c: c["steps"][0].update(after="O = 1"),
        "gives another program than when it was saved",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_broken_history_is_a_record_error(name, tmp_path):
    change, message = CHANGES[name]
    with pytest.raises(ea.RecordError) as error:
        History.load(broken(tmp_path, change))
    assert message in str(error.value)


def test_a_file_that_is_no_record_is_not_to_be_written_over(tmp_path):
    (tmp_path / "conv.ein").write_text(str(PROGRAM))
    with pytest.raises(ea.RecordError) as error:
        ea.Session.load(tmp_path / "conv.ein")
    assert str(error.value).endswith("\n  give a file that was written by `save`")


def test_a_step_that_does_not_apply_is_a_rule_error(tmp_path):
    path = broken(tmp_path, lambda c: c["steps"][0]["args"].update(outer=["q"]))
    with pytest.raises(ea.RuleError, match="not all of q"):
        History.load(path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1, 2]", b"null", b"[" * 100_000])
def test_a_file_that_is_no_record(content, tmp_path):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ea.RecordError):
        History.load(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(ea.RecordError, match="there is no file"):
        History.load(tmp_path / "none.json")


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = saved(tmp_path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    session = ea.Session(PROGRAM)
    with pytest.raises(ea.RecordError, match=r"cannot be written: No space .*\n  give a file"):
        session.save(path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["rule", "path", "args", "text", "tensors", "outputs", "O"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def load_mutated(path, content):
    path.write_text(json.dumps(content))
    with suppress(ea.EinalgError):
        History.load(path)


@given(st.data())
def test_fuzz_histories(tmp_path_factory, data):
    fuzz_history(tmp_path_factory, data)


@pytest.mark.nightly
@settings(max_examples=10_000)
@given(st.data())
def test_fuzz_histories_for_long(tmp_path_factory, data):
    fuzz_history(tmp_path_factory, data)


def fuzz_history(tmp_path_factory, data):
    """Some part of a good record is replaced by any JSON value: only errors of einalg come out."""
    path = tmp_path_factory.mktemp("fuzz") / "h.json"
    move = {"rule": "summation splitting", "path": ["O"], "args": {"reduction": 0, "outer": ["r"]}}
    content = {
        "format": "einalg history",
        "schema": 1,
        "start": program_record(PROGRAM),
        "steps": [move],
    }
    place = content
    while isinstance(place, (dict, list)) and place:
        keys = sorted(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if not isinstance(place[key], (dict, list)) or data.draw(st.booleans()):
            place[key] = data.draw(JSON)
            break
        place = place[key]
    load_mutated(path, content)


@given(JSON)
def test_fuzz_moves(value):
    with suppress(ea.RecordError):
        Move.from_json(json.dumps(value))
