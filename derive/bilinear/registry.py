"""Factorisations by name: Strassen's, and those that a user registers."""

from __future__ import annotations

from derive.bilinear.factorisation import Factorisation
from derive.bilinear.strassen import STRASSEN
from einalg.errors import RuleError

_KNOWN: dict[str, Factorisation] = {STRASSEN.name: STRASSEN}


def register(factorisation: Factorisation) -> Factorisation:
    """Make a factorisation known by its name, so that moves can name it.

    Raises `RuleError` where another one has that name.
    """
    known = _KNOWN.setdefault(factorisation.name, factorisation)
    if known != factorisation:
        raise RuleError(
            f"another factorisation is called {factorisation.name}\n"
            "  give this one a name of its own"
        )
    return known


def registered() -> tuple[Factorisation, ...]:
    """Return all factorisations that are known by name."""
    return tuple(_KNOWN.values())


def named(name: str) -> Factorisation:
    """Return the factorisation of a name; `RuleError` where there is none.

    >>> named("strassen").rank
    7
    """
    if name not in _KNOWN:
        raise RuleError(
            f"there is no factorisation {name!r}; known: {', '.join(_KNOWN)}\n"
            "  register it: derive.bilinear.register(factorisation)"
        )
    return _KNOWN[name]
