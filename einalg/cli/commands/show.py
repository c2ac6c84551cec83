"""`einalg show`: an expression as text, LaTeX, a picture or a tree; what was saved, without
searching or measuring again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

import einalg as ea
from einalg.cli.commands.derivation_text import NOTHING_FASTER, nothing_to_explain, numbered, tell
from einalg.cli.output import say
from einalg.cli.shape_options import Shape
from einalg.cli.sources import DERIVATION, HISTORY, SAVED, programs, saved_kind
from einalg.language.ir.printing.latex import latex
from einalg.language.ir.program import Program, statement_tensor


def run(
    source: str,
    shapes: Mapping[str, Shape],
    weights: Iterable[str],
    form: str,
    explain: bool,
    number: int | None,
) -> None:
    """Print an expression in a form: `text`, `latex`, `svg` or `tree`; of a saved derivation also
    its candidates.
    """
    kind = saved_kind(source)
    if kind in SAVED and (shapes or weights):
        raise click.UsageError(f"{source} holds the shapes and roles of its tensors: give none")
    if kind == DERIVATION:
        _show_derivation(source, form, explain, number)
        return
    if explain or number is not None:
        raise click.UsageError(
            "--explain and --candidate are for a saved derivation, "
            "which einalg derive --save FILE writes"
        )
    if kind == HISTORY:
        _show_history(source, form)
        return
    (program,) = programs([source], shapes, weights)
    _show(program, form)


def _show_derivation(path: str, form: str, explain: bool, number: int | None) -> None:
    """A saved derivation with its candidates, or in another form than text the expression, or the
    candidate that is asked for.
    """
    derivation = ea.Derivation.load(path)
    chosen = None if number is None else numbered(derivation, number)
    if form != "text":
        _show(chosen.program if chosen else derivation.expression, form)
        return
    say(str(derivation.expression))
    tell(derivation)
    if chosen or explain:
        say(derivation.explain(chosen))
    if explain and nothing_to_explain(derivation, number):
        say(f"\n{NOTHING_FASTER} To see another candidate: --candidate 1")


def _show_history(path: str, form: str) -> None:
    """A saved session step by step, or in another form than text the program at its end."""
    history = ea.History.load(path)
    if form == "text":
        say(str(history))
    else:
        _show(history.program, form)


def _show(program: Program, form: str) -> None:
    """Print each statement in a form."""
    if form == "text":
        say(str(program))
        return
    if form == "tree":
        click.echo(program.tree())
        return
    if form == "svg":
        from einalg.cli.commands.formula_svg import svg

        click.echo(svg(program))
        return
    for name, scope in program.statements:
        click.echo(f"{latex(statement_tensor(name, scope))} = {latex(scope)}")
