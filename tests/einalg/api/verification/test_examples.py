"""The calls on which a model is compared take a small part of the time, however slow it is."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from einalg.api.verification import examples
from einalg.frontends.special_inputs import SPECIAL


@pytest.mark.parametrize(
    ("seconds", "each", "special"),
    [
        (0.0, 0.01, len(SPECIAL)),  # whatever time there is, a quick model is compared on all
        (60.0, 0.1, len(SPECIAL)),
        (60.0, 1.0, 3),
        (60.0, 2.0, 2),
        (400.0, 2.0, len(SPECIAL)),
        (60.0, 100.0, 2),  # a NaN and an infinity at least
    ],
)
def test_special_calls_take_a_share_of_the_time(
    seconds: float, each: float, special: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [5.0]
    monkeypatch.setattr(examples, "perf_counter", lambda: now[0])
    network: Any = SimpleNamespace(original=object(), itself=object())
    names = []
    for example in examples.examples_of(network, seconds):
        names.append(example.name)
        now[0] += each
    assert names == [examples.GIVEN, *list(SPECIAL)[:special]]
