"""The widget of a session, for JupyterLab, Notebook 7 and what else runs anywidget."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from einalg.api.interactive.panel import SessionPanel
from einalg.display.html import asset


def widget(panel: SessionPanel) -> Any:
    """A widget that shows the sections of a panel, each a trait, and hands on the messages of its
    buttons.

    Raises `ImportError` where anywidget is not installed (`einalg[notebook]`).
    """
    return _kind()(panel)


@cache
def _kind() -> Any:
    """The class, made when it is first needed: it derives from one of a package that may be
    missing.
    """
    import anywidget
    import traitlets

    class SessionWidget(anywidget.AnyWidget):
        _esm = asset("tree.js") + asset("session_sections.js") + asset("widget.js")
        _css = asset("style.css")
        version = traitlets.Int(0).tag(sync=True)
        program = traitlets.Dict().tag(sync=True)
        steps = traitlets.List().tag(sync=True)
        aim = traitlets.Dict().tag(sync=True)
        part = traitlets.Dict().tag(sync=True)
        rules = traitlets.List().tag(sync=True)
        distances = traitlets.Dict().tag(sync=True)
        kernels = traitlets.Dict().tag(sync=True)
        search = traitlets.Dict().tag(sync=True)
        export = traitlets.Dict().tag(sync=True)
        message = traitlets.Dict().tag(sync=True)

        def __init__(self, panel: SessionPanel):
            super().__init__(**panel.sections)
            self.panel = panel
            panel.listeners.append(self._show)
            self.on_msg(self._act)

        def _show(self, changed: Mapping[str, Any]) -> None:
            with self.hold_sync():
                for name, value in changed.items():
                    setattr(self, name, value)

        def _act(self, _: Any, content: Any, __: Any) -> None:
            """A message of a button, answered once it is done."""
            try:
                if isinstance(content, Mapping):
                    self.panel.handle(content)
            finally:
                self.send({"done": True})

    return SessionWidget
