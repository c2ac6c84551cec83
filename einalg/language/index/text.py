"""Texts of index arithmetic: as both doors of the notation read it, and as LaTeX (design §4)."""

from __future__ import annotations

from typing import Any

from sympy.printing.precedence import PRECEDENCE

from einalg.language.index.bounds import DividedForm, LinearForm


def form_precedence(form: LinearForm) -> int:
    """Return SymPy's precedence of a form, by which printers set brackets."""
    if len(form.terms) + bool(form.const) > 1 or form.const < 0:
        return PRECEDENCE["Add"]
    atom = form.as_atom()
    if not form.terms or (atom is not None and atom.is_Symbol):
        return PRECEDENCE["Atom"]
    return PRECEDENCE["Mul"]


def form_text(form: LinearForm) -> str:
    """Return a form with positive terms first: `r - h`, not `-h + r`."""
    text = ""
    for atom, coefficient in sorted(form.terms, key=_is_negative):
        term = _term_text(atom, abs(coefficient))
        if text:
            text += _joined(term, coefficient < 0)
        elif coefficient < 0:
            text = f"-{_after_minus(atom, coefficient, term)}"
        else:
            text = term
    if not text:
        return str(form.const)
    if form.const:
        text += _joined(str(abs(form.const)), form.const < 0)
    return text


def _is_negative(term: tuple[Any, int]) -> bool:
    return term[1] < 0


def _joined(term: str, negative: bool) -> str:
    if negative:
        return f" - {term}"
    return f" + {term}"


def form_latex(form: LinearForm, printer: Any) -> str:
    text = ""
    for atom, coefficient in sorted(form.terms, key=_is_negative):
        term = printer._print(atom)
        if "bmod" in term and form.as_atom() is None:
            term = rf"\left({term}\right)"
        if coefficient < 0:
            text += "-"
        elif text:
            text += "+"
        if abs(coefficient) != 1:
            text += str(abs(coefficient))
        text += term
    if not text:
        return str(form.const)
    if form.const:
        text += f"{form.const:+d}"
    return text


def quotient_text(node: DividedForm) -> str:
    operand = form_text(node.argument)
    atom = node.argument.as_atom()
    if atom is None or not atom.is_Symbol:
        operand = f"({operand})"
    return f"{operand}{node.sign}{node.divisor}"


def quotient_latex(node: DividedForm, printer: Any) -> str:
    form = node.argument
    operand = printer._print(form)
    if len(form.terms) + bool(form.const) != 1:
        operand = f"({operand})"
    if node.sign == "//":
        return rf"\lfloor {operand} / {node.divisor} \rfloor"
    return rf"{operand} \bmod {node.divisor}"


def _after_minus(atom: Any, coefficient: int, term: str) -> str:
    """Return what may follow a minus sign: `-(i//2)`, for `-i//2` is `(-i)//2`."""
    if atom.is_Symbol or coefficient != -1:
        return term
    return f"({term})"


def _term_text(atom: Any, coefficient: int) -> str:
    text = atom.name if atom.is_Symbol else quotient_text(atom)
    if coefficient == 1:
        return text
    if atom.is_Symbol:
        return f"{coefficient}*{text}"
    return f"{coefficient}*({text})"
