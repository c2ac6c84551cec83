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


def bundle(panel: SessionPanel) -> dict[str, Any]:
    """The session in every form that there is a front end for, of which it takes the best."""
    forms: dict[str, Any] = {"text/plain": str(panel.session), "text/html": static(panel)}
    view = _view(panel) if in_notebook() else None
    return {**forms, **view} if view else forms


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


def _view(panel: SessionPanel) -> dict[str, Any] | None:
    """The view of the panel's widget, which is one however often it is shown; None where anywidget
    is not installed.
    """
    if panel.widget is None:
        try:
            panel.widget = widget(panel)
        except ImportError:
            return None
    shown = panel.widget._repr_mimebundle_()
    view = shown[0] if isinstance(shown, tuple) else shown
    return {key: value for key, value in (view or {}).items() if "widget" in key}


def static(panel: SessionPanel) -> str:
    """The session as HTML that needs nobody to run it; its moves are applied with
    `s.apply(number)`.
    """
    sections = panel.sections
    return page(
        sections["program"]["math"]
        + _steps(sections["steps"])
        + _moves(panel.session)
        + _distances(sections["distances"])
        + _kernels(sections),
        "einalg-static",
    )


def _folded(title: str, content: str, opened: bool = False) -> str:
    return (
        f"<details{' open' if opened else ''}><summary>{escape(title)}</summary>{content}</details>"
    )


def _steps(steps: list[Any]) -> str:
    rows = [
        [
            str(step["number"]),
            f"{escape(step['rule'])} <small>{escape(step['detail'])}</small>",
            _verdict(step),
        ]
        for step in steps
    ]
    return _folded(f"Steps: {len(steps) - 1}", table(["step", "rule", "verdict"], rows))


def _verdict(step: Any) -> str:
    return (
        badge(step["verdict"], "good" if step["verdict"] == "proved" else "")
        if step["verdict"]
        else ""
    )


def _moves(session: Any) -> str:
    choices = session.possible()
    rows = (
        [str(c.number), f"{escape(str(c.move))}<br>{code(c.before)}<br>⇒ {code(c.after)}"]
        for c in choices
    )
    return _folded(
        f"Moves: {len(choices)}, to be applied with s.apply(number)",
        table(["number", "move"], rows),
    )


def _distances(distances: Any) -> str:
    rows = [
        [escape(d["operator"]), f"{d['distance']:g}", "<br>".join(map(escape, d["reasons"]))]
        for d in distances["near"]
    ]
    return _folded(
        "Distance to each operator", table(["operator", "distance", "what separates"], rows)
    )


def _kernels(sections: Any) -> str:
    return _folded(
        "Kernels", "".join(f"<p>{code(kernel)}</p>" for kernel in sections["kernels"]["kernels"])
    )
