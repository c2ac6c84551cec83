"""A derivation as a Python script that makes it again."""

from __future__ import annotations

from collections.abc import Iterable
from pprint import pformat
from typing import Any

from derive.rewriting.moves import Move
from derive.rules import ALL
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.tensor import Constant, Tensor

WIDTH = 120


def written(start: Program, moves: Iterable[Move]) -> str:
    """The script: tensors, expression, one `s.apply` a move, and a proof.

    >>> import einalg as ea
    >>> print(written(ea.Program([("O", ea.parse("O[i] += A[i,k]*B[k]", A=(4, 5), B=(5,)))]), ()))
    import einalg as ea
    <BLANKLINE>
    A = ea.tensor("A", (4, 5), "f32", "input")
    B = ea.tensor("B", (5,), "f32", "input")
    expr = ea.parse("O[i:4] = Sum[k:5](A[i, k]*B[k])", A=A, B=B)
    s = ea.Session(expr)
    assert ea.prove(expr, s.expr).verdict != "different"
    print(s)
    """
    steps = tuple(moves)
    own = sorted({move.rule for move in steps} - ALL.keys())
    lines = ["import einalg as ea", ""]
    lines += [line for name, tensor in start.tensors.items() for line in _tensor(name, tensor)]
    lines += _expression(start)
    lines += (
        [f"rules = []  # fill in the rules of your own that are applied below: {', '.join(own)}"]
        if own
        else []
    )
    lines += [f"s = ea.Session(expr{', rules' if own else ''})"]
    lines += [_step(move) for move in steps]
    return "\n".join([*lines, 'assert ea.prove(expr, s.expr).verdict != "different"', "print(s)"])


def _tensor(name: str, tensor: Tensor) -> list[str]:
    axes = tuple(high if low == 0 else (low, high) for low, high in tensor.axes)
    if isinstance(tensor, Constant):
        values = ", ".join(f"Fraction({v.p}, {v.q})" if v.q != 1 else str(v) for v in tensor.values)
        made = f'{name} = Constant("{name}", {axes}, "{tensor.dtype}", [{values}])'
        return [
            "from fractions import Fraction",
            "from einalg.language.ir.tensor import Constant",
            made,
        ]
    return [f'{name} = ea.tensor("{name}", {axes}, "{tensor.dtype}", "{tensor.role}")']


def _expression(start: Program) -> list[str]:
    """The program from its text, which holds all but the name of a single statement."""
    tensors = "".join(f", {name}={name}" for name in start.tensors)
    lines = str(start).splitlines()
    if len(start.names) > 1:
        return ['expr = ea.parse(\n    """', *lines, f'""",\n    {tensors[2:]})']
    parsed = f'ea.parse("{lines[0]}"{tensors})'
    name, scope = start.statements[0]
    usual = as_program(scope).names == start.names
    return [f"expr = {parsed}" if usual else f'expr = ea.Program([("{name}", {parsed})])']


def _step(move: Move) -> str:
    record: dict[str, Any] = move.as_record()
    args = pformat(record["args"], width=WIDTH, compact=True, sort_dicts=False).replace(
        "\n", "\n        "
    )
    return f's.apply(ea.Move("{move.rule}", {tuple(record["path"])}, {args}))'
