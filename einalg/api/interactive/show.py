"""How a session is shown: a widget in a notebook, else HTML that only shows, and text in a
terminal.
"""

from __future__ import annotations

import sys
from html import escape
from typing import Any

from einalg.api.interactive.panel import SessionPanel
from einalg.api.interactive.widget import widget
from einalg.display.html import badge, code, page, table


def bundle(session: Any) -> dict[str, Any]:
    """The session in every form that there is a front end for, of which it takes the best.

    A terminal takes text, for which nothing else is computed.
    """
    text = {"text/plain": str(session)}
    if in_terminal():
        return text
    forms: dict[str, Any] = {**text, "text/html": static(session.panel)}
    if in_notebook():
        forms.update(_view(session.panel))
    return forms


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = _shell()
    return getattr(shell, "kernel", None) is not None


def in_terminal() -> bool:
    """Whether this process is IPython in a terminal."""
    shell = _shell()
    return shell is not None and getattr(shell, "kernel", None) is None


def _shell() -> Any:
    """The shell of IPython; None in plain Python."""
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    return ipython.get_ipython()


def _view(panel: SessionPanel) -> dict[str, Any]:
    """Return the view of the panel's widget, which is one however often it is shown.

    It is empty where anywidget is not installed.
    """
    if panel.widget is None:
        try:
            panel.widget = widget(panel)
        except ImportError:
            return {}
    shown = panel.widget._repr_mimebundle_()
    if isinstance(shown, tuple):
        shown = shown[0]
    return {key: value for key, value in (shown or {}).items() if "widget" in key}


def static(panel: SessionPanel) -> str:
    """Return the session as HTML that needs nobody to run it.

    Its moves are applied with `s.apply(number)`.
    """
    sections = panel.sections
    return page(
        sections["program"]["math"]
        + _steps(panel.session, sections["steps"])
        + _moves(panel.session)
        + _distances(sections["distances"])
        + _kernels(sections),
        "einalg-static",
    )


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{escape(title)}</summary>{content}</details>"


def _steps(session: Any, steps: list[Any]) -> str:
    """Return a table of the steps; of several branches their tree as text."""
    branches = len(session.branches.ends)
    if branches > 1:
        tree = f"<pre>{escape(str(session.branches))}</pre>to be gone to with s.go_to(number)"
        return _folded(f"Steps: {len(session.history)}, on one of {branches} branches", tree)
    rows = []
    for step in steps:
        rule = f"{escape(step['rule'])} <small>{escape(step['detail'])}</small>"
        rows.append([str(step["number"]), rule, _verdict(step["verdict"])])
    return _folded(f"Steps: {len(session.history)}", table(["step", "rule", "verdict"], rows))


def _verdict(verdict: str) -> str:
    if not verdict:
        return ""
    return badge(verdict, "good" if verdict == "proved" else "")


def _moves(session: Any) -> str:
    choices = session.possible()
    rows = []
    for choice in choices:
        move, before, after = escape(str(choice.move)), code(choice.before), code(choice.after)
        rows.append([str(choice.number), f"{move}<br>{before}<br>⇒ {after}"])
    title = f"Moves: {len(choices)}, to be applied with s.apply(number)"
    return _folded(title, table(["number", "move"], rows))


def _distances(distances: Any) -> str:
    rows = []
    for row in distances["near"]:
        reasons = "<br>".join(map(escape, row["reasons"]))
        rows.append([escape(row["operator"]), f"{row['distance']:g}", reasons])
    heads = ["operator", "distance", "what separates"]
    return _folded("Distance to each operator", table(heads, rows))


def _kernels(sections: Any) -> str:
    kernels = sections["kernels"]["kernels"]
    return _folded("Kernels", "".join(f"<p>{code(kernel)}</p>" for kernel in kernels))
