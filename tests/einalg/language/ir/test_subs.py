"""SymPy's `subs` on bodies means free indices: what is bound inside keeps its names, and captures
nothing.
"""

from __future__ import annotations

import einalg as ea

i, j, k, s = ea.indices("i j k s")
A, B = ea.tensor("A", (8, 8)), ea.tensor("B", (8,))


def test_free_indices() -> None:
    body = ea.Sum[k:8](A[i, k] * B[k])
    assert body.subs(i, 2 * j + 1) == ea.Sum[k:8](A[2 * j + 1, k] * B[k])
    assert body.body.subs(k, 7 - k) == A[i, 7 - k] * B[7 - k]


def test_the_index_of_a_reduction_is_not_meant() -> None:
    body = B[k] * ea.Sum[k:8](A[i, k])
    assert body.subs(k, k + 1) == B[k + 1] * ea.Sum[k:8](A[i, k])


def test_what_comes_in_is_not_captured() -> None:
    found = ea.Sum[k:8](A[i, k]).subs(i, k)
    assert found.free_symbols == {k} and ea.L[k:8](found) == ea.L[k:8](ea.Sum[s:8](A[k, s]))


def test_a_scope_is_closed() -> None:
    inner = ea.L[i:8, s:8](ea.Sum[k:8](A[i, k] * B[s]))
    body = inner[i, s] * B[s]
    assert body.subs(s, 7 - s) == inner[i, 7 - s] * B[7 - s]


def test_conditions_and_powers_are_reached() -> None:
    body = ea.Sum[k:8](A[i, k], where=k <= i) ** 2 / B[i]
    assert body.subs(i, 7 - j) == ea.Sum[k:8](A[7 - j, k], where=k <= 7 - j) ** 2 / B[7 - j]
