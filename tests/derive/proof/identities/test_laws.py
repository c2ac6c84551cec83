"""Known laws are proved, those that the prover was not built on too, and no wrong one is."""

from __future__ import annotations

import pytest

import einalg as ea
from derive.proof.exact.compare import compare_exactly
from derive.proof.identities.compare import shown_equal
from einalg.language.ir.program import as_program, inlined
from tests.helpers.laws.held_out import HELD_OUT
from tests.helpers.laws.known import FAMILIES, KNOWN
from tests.helpers.laws.law import Law
from tests.helpers.laws.wrong import WRONG

PROVED_SHARE = 0.9


def test_the_tables_are_large_enough() -> None:
    assert len(KNOWN) >= 120 and len(HELD_OUT) >= 40 and len(WRONG) >= 60
    for family, rows in FAMILIES.items():
        assert len(rows) >= 4, family


@pytest.mark.parametrize("law", KNOWN, ids=str)
def test_a_known_law_is_proved(law: Law) -> None:
    proof = ea.prove(*law.sides())
    assert proof.verdict == "proved" and proof.error_probability == 0, proof


def test_laws_that_were_held_out_are_proved() -> None:
    tested = []
    for law in HELD_OUT:
        proof = ea.prove(*law.sides())
        assert proof.verdict != "different", (law, proof)
        if proof.verdict != "proved":
            tested.append(str(law))
    assert len(tested) <= (1 - PROVED_SHARE) * len(HELD_OUT), tested


@pytest.mark.parametrize("law", WRONG, ids=str)
def test_a_wrong_law_is_not_proved(law: Law) -> None:
    one, two = [inlined(as_program(side)) for side in law.sides()]
    assert shown_equal(one, two) is None
    assert not compare_exactly(one, two).equal


@pytest.mark.nightly
@pytest.mark.parametrize("law", WRONG, ids=str)
def test_a_wrong_law_has_another_verdict(law: Law) -> None:
    assert ea.prove(*law.sides()).verdict != "proved"
