"""Records on disk: JSON with a schema number, written whole or not at all, never executed (design §13)."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

from einalg.access import Constant, Tensor
from einalg.affine import Index
from einalg.errors import EinalgError, RecordError
from einalg.files import write_whole
from einalg.program import Program, statement_tensor
from einalg.scope import Scope
from einalg.text import line_reader, parse_lines, parse_value

SCHEMA = 1
MOST_BYTES = 64 * 2**20
BROKEN = (KeyError, TypeError, AttributeError, ArithmeticError, ValueError, IndexError, EinalgError)


def program_record(program: Program) -> dict[str, Any]:
    """A program as JSON values: its text, its tensors and its outputs."""
    tensors = {name: _tensor_record(tensor) for name, tensor in program.tensors.items()}
    return {"text": str(program), "tensors": tensors, "outputs": list(program.outputs)}


def headed_record(program: Program) -> dict[str, Any]:
    """As `program_record`, with what `program_later` gives of each statement before it reads its text."""
    heads = [
        [name, [[it.index.name, it.low, it.high] for it in scope.iterators], list(map(str, scope.where)), scope.dtype, list(scope.tensors)]
        for name, scope in program.statements
    ]
    return {**program_record(program), "heads": heads}


def program_later(record: Any) -> Program:
    """A program of a record with heads, whose statements are read when something asks for their bodies; `RecordError` where it is broken.

    For records that are whole: that a text is what its head says is not checked.
    """
    try:
        known, lines = _tensors(record), _lines(record)
        statements, read = list[tuple[str, Scope]](), line_reader()
        for (name, ranges, where, dtype, reads), line in zip(record["heads"], lines, strict=True):
            tensors = {used: known[used] for used in reads}
            body = partial(_body, read, line, tensors)
            scope = Scope.later([(Index(index), low, high) for index, low, high in ranges], list(map(parse_value, where)), dtype, tensors, body)
            statements.append((name, scope))
            known[name] = statement_tensor(name, scope)
        return Program(statements, record["outputs"])
    except BROKEN as error:
        raise RecordError(f"the record holds no program: {error}") from None


def _body(read: Any, line: str, tensors: dict[str, Tensor]) -> Any:
    return read(line, tensors).body


def _tensors(record: Any) -> dict[str, Tensor]:
    return {name: _tensor_from_record(name, tensor) for name, tensor in record["tensors"].items()}


def _lines(record: Any) -> list[str]:
    """A statement each; a last line names the outputs."""
    return [line for line in record["text"].splitlines() if "=" in line]


def _tensor_record(tensor: Tensor) -> dict[str, Any]:
    values = {"values": [str(v) for v in tensor.values]} if isinstance(tensor, Constant) else {}
    return {"axes": [list(a) for a in tensor.axes], "dtype": tensor.dtype, "role": tensor.role, **values}


def _tensor_from_record(name: str, record: Any) -> Tensor:
    axes = [tuple(a) for a in record["axes"]]
    if record["role"] == Constant.role:
        return Constant(name, axes, record["dtype"], [Fraction(v) for v in record["values"]])
    return Tensor(name, axes, record["dtype"], record["role"])


def program_from_record(record: Any) -> Program:
    """Read a program back; `RecordError` where the record is broken."""
    try:
        return Program(parse_lines(_lines(record), _tensors(record)), record["outputs"])
    except BROKEN as error:
        raise RecordError(f"the record holds no program: {error}") from None


def text(kind: str, content: dict[str, Any]) -> str:
    """A record as JSON."""
    from einalg import __version__

    return json.dumps({"format": kind, "schema": SCHEMA, "einalg": __version__, **content}, indent=1)


def write(path: Any, kind: str, content: dict[str, Any]) -> None:
    """Write a record atomically: a reader sees the old file or the whole new one."""
    write_whole(path, text(kind, content).encode())


def read(path: Any, kind: str) -> dict[str, Any]:
    """Read a record; `RecordError` where it is missing, broken, of another kind or newer than this version."""
    if not Path(path).exists():
        raise RecordError(f"there is no file {path}")
    try:
        if Path(path).stat().st_size > MOST_BYTES:
            raise RecordError(f"{path} has more than {MOST_BYTES} bytes, so it is not a record of einalg")
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise RecordError(f"{path} cannot be read as a record: {error}\n  give a file that was written by `save`") from None
    if not isinstance(record, dict) or record.get("format") != kind:
        raise RecordError(f"{path} is not a record of the kind {kind!r}")
    schema = record.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise RecordError(f"{path} has no schema number")
    if schema > SCHEMA:
        raise RecordError(f"{path} has schema {schema}, this version reads up to {SCHEMA}\n  install a newer einalg")
    return record
