"""How index arithmetic is written: as text that both doors of the notation read, and as LaTeX
(design §4).
"""

from __future__ import annotations

from typing import Any

from sympy.printing.precedence import PRECEDENCE

from einalg.language.index.protocols import DividedForm, LinearForm


def form_precedence(form: LinearForm) -> int:
    if len(form.terms) + bool(form.const) > 1 or form.const < 0:
        return PRECEDENCE["Add"]
    return (
        PRECEDENCE["Atom"] if form.as_index() is not None or not form.terms else PRECEDENCE["Mul"]
    )


def form_text(form: LinearForm) -> str:
    """Positive terms first: `r - h`, not `-h + r`."""
    ordered = sorted(form.terms, key=lambda term: term[1] < 0)
    parts = [_term_text(a, abs(c)) for a, c in ordered] + (
        [str(abs(form.const))] if form.const or not ordered else []
    )
    signs = [c < 0 for _, c in ordered] + [form.const < 0]
    first = f"-{_operand(*ordered[0], parts[0]) if ordered else parts[0]}" if signs[0] else parts[0]
    return first + "".join(
        (" - " if negative else " + ") + part for negative, part in zip(signs[1:], parts[1:])
    )


def form_latex(form: LinearForm, printer: Any) -> str:
    text = ""
    for atom, c in sorted(form.terms, key=lambda term: term[1] < 0):
        term = printer._print(atom)
        if "bmod" in term and form.as_atom() is None:
            term = rf"\left({term}\right)"
        text += (
            ("-" if c < 0 else "+" if text else "") + ("" if abs(c) == 1 else str(abs(c))) + term
        )
    if form.const or not text:
        text += f"{form.const:+d}" if text else str(form.const)
    return text


def quotient_text(node: DividedForm) -> str:
    operand = form_text(node.argument)
    return f"{operand if node.argument.as_index() is not None else f'({operand})'}{node.sign}{node.divisor}"


def quotient_latex(node: DividedForm, printer: Any) -> str:
    form = node.argument
    operand = (
        printer._print(form)
        if len(form.terms) + bool(form.const) == 1
        else f"({printer._print(form)})"
    )
    return (
        rf"\lfloor {operand} / {node.divisor} \rfloor"
        if node.sign == "//"
        else rf"{operand} \bmod {node.divisor}"
    )


def _operand(atom: Any, coefficient: int, term: str) -> str:
    """What may follow a minus sign: `-(i//2)`, for `-i//2` is `(-i)//2`."""
    return term if atom.is_Symbol or coefficient != -1 else f"({term})"


def _term_text(atom: Any, coefficient: int) -> str:
    text = atom.name if atom.is_Symbol else quotient_text(atom)
    if coefficient == 1:
        return text
    return f"{coefficient}*{text}" if atom.is_Symbol else f"{coefficient}*({text})"
