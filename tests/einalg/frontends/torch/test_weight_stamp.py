"""Stamps of weights: another tensor, another place and another layout are seen, and writes to the
elements where these are not compared by their bytes.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einalg.frontends.torch.capture.weight_stamp import WeightStamp, bytes_spanned

torch = pytest.importorskip("torch")


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4), st.permutations(range(4)), st.booleans()
)
def test_what_makes_a_weight_another_one(sizes: list[int], order: list[int], is_part: bool) -> None:
    """Of tensors with any order of axes, and of parts of larger ones."""
    weight = torch.arange(1.0, 1.0 + torch.Size(sizes).numel()).reshape(sizes)
    weight = weight.permute([axis for axis in order if axis < len(sizes)])
    if is_part:
        weight = torch.stack([weight, weight], -1)[..., 1]
    stamp = WeightStamp.of(weight)
    assert stamp.suits(weight) and not stamp.suits(weight.clone()) and not stamp.suits(weight[:])
    weight.data += 1
    assert stamp.suits(weight)
    weight.data = weight.data.clone()
    assert not stamp.suits(weight)
    assert WeightStamp.of(weight).suits(weight)


def test_another_layout_of_the_same_memory() -> None:
    weight = torch.arange(9.0).reshape(3, 3)
    stamp = WeightStamp.of(weight)
    weight.data = weight.data.t()
    assert not stamp.suits(weight)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (4, 0)])
def test_the_bytes_of_a_tensor(shape: tuple[int, ...]) -> None:
    """From the first element to the last one, whatever lies between."""
    whole = torch.zeros(2, *shape)
    assert bytes_spanned(whole[1]) == 4 * whole[1].numel()
    apart: Any = torch.zeros(*shape, 3)[..., 0]
    assert bytes_spanned(apart) == max(0, 4 * (3 * apart.numel() - 2))


def test_writes_to_what_has_no_bytes_are_counted() -> None:
    tensor = torch.zeros(2, device="meta")
    stamp = WeightStamp.of(tensor)
    assert bytes_spanned(tensor) == 0 and stamp.suits(tensor)
    tensor += 1
    assert not stamp.suits(tensor)
