"""Equal atoms are one object, as long as it lives."""

from __future__ import annotations

import gc
from typing import Any

from derive.proof.identities.forms.entries import substituted_poly
from derive.proof.identities.forms.polynomials.atoms import Exp, OpaqueFunction, of_index
from derive.proof.identities.forms.polynomials.laurent import Atom, Poly, number, of_atom
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from tests.helpers.interrupts import functions_entered


def test_no_python_code_runs_where_atoms_die() -> None:
    """A proof makes and forgets thousands, and may be interrupted anywhere."""
    atoms: list[Any] = []
    for _ in range(2):  # at first, what other tests left is forgotten
        atoms.clear()
        gc.collect()
        before = len(Atom._known)
        atoms += [Exp(number(1000 + k)) for k in range(3)]
    assert Exp(number(1000)) is atoms[0] and len(Atom._known) == before + 3
    assert functions_entered(atoms.clear) == []
    assert len(Atom._known) == before


def test_an_index_is_replaced_once_in_each_atom() -> None:
    """As often as the last one occurs here, no computer could write it."""

    def nested(index: Index) -> Poly:
        value = of_index(affine(index))
        for _ in range(60):
            value = of_atom(OpaqueFunction("f", (value, value)))
        return value

    i, j = Index("i"), Index("j")
    assert substituted_poly(nested(i), {i: affine(j)}) == nested(j)
