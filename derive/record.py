"""Records on disk: JSON with a schema number, written whole or not at all, never executed (design §13)."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from einalg.access import Constant, Tensor
from einalg.errors import EinalgError, RecordError
from einalg.files import write_whole
from einalg.program import Program
from einalg.text import parse_lines

SCHEMA = 1
MOST_BYTES = 64 * 2**20


def program_record(program: Program) -> dict[str, Any]:
    """A program as JSON values: its text, its tensors and its outputs."""
    tensors = {name: _tensor_record(tensor) for name, tensor in program.tensors.items()}
    return {"text": str(program), "tensors": tensors, "outputs": list(program.outputs)}


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
        tensors = {name: _tensor_from_record(name, tensor) for name, tensor in record["tensors"].items()}
        lines = record["text"].splitlines()
        return Program(parse_lines([line for line in lines if "=" in line], tensors), record["outputs"])  # a last one names the outputs
    except (KeyError, TypeError, AttributeError, ArithmeticError, ValueError, IndexError, EinalgError) as error:
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
