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


def python_script(start: Program, moves: Iterable[Move]) -> str:
    """Return the script: tensors, expression, one `s.apply` a move, and a proof.

    >>> import einalg as ea
    >>> product = ea.parse("O[i] += A[i,k]*B[k]", A=(4, 5), B=(5,))
    >>> print(python_script(ea.Program([("O", product)]), ()))
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
    lines = ["import einalg as ea", ""]
    for name, tensor in start.tensors.items():
        lines += _tensor(name, tensor)
    lines += _expression(start)
    user_rules = ", ".join(sorted({move.rule for move in steps} - ALL.keys()))
    if user_rules:
        lines += [
            f"rules = []  # fill in the rules of your own that are applied below: {user_rules}",
            "s = ea.Session(expr, rules)",
        ]
    else:
        lines.append("s = ea.Session(expr)")
    lines += map(_step, steps)
    return "\n".join([*lines, 'assert ea.prove(expr, s.expr).verdict != "different"', "print(s)"])


def _value(value: Any) -> str:
    return str(value) if value.q == 1 else f"Fraction({value.p}, {value.q})"


def _tensor(name: str, tensor: Tensor) -> list[str]:
    """Return the lines that make a tensor."""
    axes = tuple(high if low == 0 else (low, high) for low, high in tensor.axes)
    if isinstance(tensor, Constant):
        values = ", ".join(map(_value, tensor.values))
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
    if as_program(scope).names == start.names:
        return [f"expr = {parsed}"]
    return [f'expr = ea.Program([("{name}", {parsed})])']


def _step(move: Move) -> str:
    record: dict[str, Any] = move.as_record()
    args = pformat(record["args"], width=WIDTH, compact=True, sort_dicts=False).replace(
        "\n", "\n        "
    )
    return f's.apply(ea.Move("{move.rule}", {tuple(record["path"])}, {args}))'
