"""`einalg.Session`: derivation by hand, with a widget in Jupyter."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from typing import Any

from derive.interactive.session import DerivationSession
from derive.rewriting.moves import Rule
from einalg.api.backend import LocalBackend
from einalg.api.derivation import derive
from einalg.api.interactive.panel import SessionPanel
from einalg.api.interactive.show import bundle
from einalg.boundary import public
from einalg.language.ir.program import as_program
from einalg.language.notation.text_arguments import reads_text


@public
class Session(DerivationSession):
    __doc__ = DerivationSession.__doc__

    @reads_text("expr")
    def __init__(
        self,
        expr: Any,
        rules: Iterable[Rule | str] | Rule | str = (),
        backend: Any = None,
        search: Callable[..., Any] | None = None,
        **tensors: Any,
    ):
        if backend is None:
            backend = LocalBackend()
        if search is None:
            search = derive
        super().__init__(as_program(expr), rules, backend, search)

    @cached_property
    def panel(self) -> SessionPanel:
        """The contents and actions of the widget, without one."""
        return SessionPanel(self)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return bundle(self)
