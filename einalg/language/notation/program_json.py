"""Programs as JSON values: their text, their tensors and outputs; never executed (design §13)."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any

from einalg.errors import EinalgError, RecordError
from einalg.language.index.affine import Index
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.notation.parser import line_reader, parse_lines, parse_value

BROKEN = (KeyError, TypeError, AttributeError, ArithmeticError, ValueError, IndexError, EinalgError)


def program_record(program: Program) -> dict[str, Any]:
    """A program as JSON values: its text, its tensors and its outputs."""
    tensors = {name: _tensor_record(tensor) for name, tensor in program.tensors.items()}
    return {"text": str(program), "tensors": tensors, "outputs": list(program.outputs)}


def headed_record(program: Program) -> dict[str, Any]:
    """As `program_record`, with what `program_later` gives of each statement before it reads its
    text.
    """
    heads = [
        [
            name,
            [[it.index.name, it.low, it.high] for it in scope.iterators],
            list(map(str, scope.where)),
            scope.dtype,
            list(scope.tensors),
        ]
        for name, scope in program.statements
    ]
    return {**program_record(program), "heads": heads}


def program_later(record: Any) -> Program:
    """A program of a record with heads, whose statements are read when something asks for their
    bodies; `RecordError` where it is broken.

    For records that are whole: that a text is what its head says is not checked.
    """
    try:
        known, lines = _tensors(record), _lines(record)
        statements, read = list[tuple[str, Scope]](), line_reader()
        for (name, ranges, where, dtype, reads), line in zip(record["heads"], lines, strict=True):
            tensors = {used: known[used] for used in reads}
            body = partial(_body, read, line, tensors)
            scope = Scope.later(
                [(Index(index), low, high) for index, low, high in ranges],
                list(map(parse_value, where)),
                dtype,
                tensors,
                body,
            )
            statements.append((name, scope))
            known[name] = statement_tensor(name, scope)
        return Program.written(statements, record["outputs"], record["text"])
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
    return {
        "axes": [list(a) for a in tensor.axes],
        "dtype": tensor.dtype,
        "role": tensor.role,
        **values,
    }


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
