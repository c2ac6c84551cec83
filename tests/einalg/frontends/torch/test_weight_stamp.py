"""Stamps of weights: whatever writes to an element is seen, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einalg.frontends.torch.capture.weight_stamp import WeightStamp

torch = pytest.importorskip("torch")

WRITES: list[Callable[[Any, tuple[int, ...]], Any]] = [
    lambda weight, place: weight.data[place].add_(1),
    lambda weight, place: weight.data[place].neg_(),
    lambda weight, place: weight.detach().numpy().__setitem__(place, 5),
    lambda weight, place: weight.data.mul_(2),
]


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.permutations(range(4)),
    st.booleans(),
    st.sampled_from(WRITES),
    st.data(),
)
def test_every_write_is_seen(
    sizes: list[int], order: list[int], is_part: bool, write: Any, data: Any
) -> None:
    """Of tensors with any order of axes, and of parts of larger ones."""
    weight = torch.arange(1.0, 1.0 + torch.Size(sizes).numel()).reshape(sizes)
    weight = weight.permute([axis for axis in order if axis < len(sizes)])
    if is_part:
        weight = torch.stack([weight, weight], -1)[..., 1]
    stamp = WeightStamp.of(weight)
    assert stamp.suits(weight) and not stamp.suits(weight.clone())
    write(weight, tuple(data.draw(st.integers(0, size - 1)) for size in weight.shape))
    assert not stamp.suits(weight)
    assert WeightStamp.of(weight).suits(weight)


def test_what_has_no_bytes_has_a_stamp() -> None:
    for tensor in (torch.zeros(0, 3), torch.zeros(2, device="meta")):
        assert WeightStamp.of(tensor).suits(tensor)
