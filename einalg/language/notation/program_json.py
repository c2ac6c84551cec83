"""Programs as JSON values: their text, their tensors and outputs; never executed (design §13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from einalg.errors import EinalgError, RecordError, without_remedy
from einalg.language.index.affine import Index
from einalg.language.ir.program import Program, statement_tensor
from einalg.language.ir.scope import LazyBody, Scope
from einalg.language.ir.tensor import Constant, Tensor
from einalg.language.notation.parser import line_reader, parse_lines, parse_value

INVALID_RECORD = (
    KeyError,
    TypeError,
    AttributeError,
    ArithmeticError,
    ValueError,
    IndexError,
    EinalgError,
)


def program_record(program: Program) -> dict[str, Any]:
    """Return a program as JSON values: its text, its tensors and its outputs.

    >>> import einalg as ea
    >>> program_record(Program([("O", ea.parse("O[i] = A[i]", A=(4,)))]))["text"]
    'O[i:4] = A[i]'
    """
    tensors = {name: _tensor_record(tensor) for name, tensor in program.tensors.items()}
    return {"text": str(program), "tensors": tensors, "outputs": list(program.outputs)}


def program_record_with_heads(program: Program) -> dict[str, Any]:
    """Return a program as JSON values that `lazy_program_from_record` reads: those of
    `program_record`, and the head of each statement, e.g. `["O", [["i", 0, 4]], [], "f32", ["A"]]`.
    """
    heads = [_head(name, scope) for name, scope in program.statements]
    return {**program_record(program), "heads": heads}


def _head(name: str, scope: Scope) -> list[Any]:
    """Return what a program needs to know of a statement before its text is read."""
    ranges = [[it.index.name, it.low, it.high] for it in scope.iterators]
    return [name, ranges, list(map(str, scope.where)), scope.dtype, list(scope.tensors)]


def program_from_record(record: Any) -> Program:
    """Read a program back; `RecordError` where the record is broken."""
    try:
        return Program(parse_lines(_lines(record), _tensors(record)), record["outputs"])
    except INVALID_RECORD as error:
        raise RecordError(f"the record holds no program: {without_remedy(error)}") from None


def lazy_program_from_record(record: Any) -> Program:
    """Read a program of a record with heads, whose statements are parsed when something asks for
    their bodies; `RecordError` where the record is broken.

    For records that are whole: that a text is what its head says is not checked.
    """
    try:
        tensors, read = _tensors(record), line_reader()
        statements: list[tuple[str, Scope]] = []
        for head, line in zip(record["heads"], _lines(record), strict=True):
            name, scope = _lazy_statement(head, line, tensors, read)
            statements.append((name, scope))
            tensors[name] = statement_tensor(name, scope)
        return Program.with_text(statements, record["outputs"], record["text"])
    except INVALID_RECORD as error:
        raise RecordError(f"the record holds no program: {without_remedy(error)}") from None


def _lazy_statement(
    head: Any, line: str, known: Mapping[str, Tensor], read: Callable[..., Scope]
) -> tuple[str, Scope]:
    name, ranges, where, dtype, used = head
    tensors = {other: known[other] for other in used}
    iterators = [(Index(index), low, high) for index, low, high in ranges]
    body = LazyBody(lambda: read(line, tensors).body, dtype, tensors)
    return name, Scope.with_lazy_body(iterators, list(map(parse_value, where)), body)


def _tensors(record: Any) -> dict[str, Tensor]:
    tensors = {}
    for name, tensor in record["tensors"].items():
        tensors[name] = _tensor_from_record(name, tensor)
    return tensors


def _lines(record: Any) -> list[str]:
    """Return the lines of the statements; a last line that names the outputs is left out."""
    return [line for line in record["text"].splitlines() if "=" in line]


def _tensor_record(tensor: Tensor) -> dict[str, Any]:
    record = {
        "axes": list(map(list, tensor.axes)),
        "dtype": tensor.dtype,
        "role": tensor.role,
    }
    if isinstance(tensor, Constant):
        record["values"] = list(map(str, tensor.values))
    return record


def _tensor_from_record(name: str, record: Any) -> Tensor:
    axes = list(map(tuple, record["axes"]))
    if record["role"] == Constant.role:
        return Constant(name, axes, record["dtype"], list(map(Fraction, record["values"])))
    return Tensor(name, axes, record["dtype"], record["role"])
