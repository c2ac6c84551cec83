"""`einalg show`: an expression as text, LaTeX, a picture or a tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from einalg.cli.arguments import Shape
from einalg.cli.output import say
from einalg.cli.reading import programs
from einalg.printing import latex
from einalg.program import statement_tensor


def run(text: str, shapes: Mapping[str, Shape], weights: Iterable[str], form: str) -> None:
    """Print each statement in a form: `text`, `latex`, `svg` or `tree`."""
    (program,) = programs([text], shapes, weights)
    if form == "text":
        say(str(program))
        return
    if form == "tree":
        click.echo(program.tree())
        return
    if form == "svg":
        from einalg.cli.svg import svg

        click.echo(svg(program))
        return
    for name, scope in program.statements:
        click.echo(f"{latex(statement_tensor(name, scope))} = {latex(scope)}")
