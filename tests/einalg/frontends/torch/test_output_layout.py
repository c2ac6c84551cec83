"""Results laid out as the tensors of a trace: any order of axes, and views of other results."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einalg.frontends.torch.output_layout import layout_restorer

torch = pytest.importorskip("torch")


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.permutations(range(4)),
    st.lists(st.sampled_from(["flat", "part", "turned", "apart", "same"]), max_size=3),
    st.booleans(),
)
def test_values_and_memory_are_those_of_the_trace(
    sizes: list[int], order: list[int], others: list[str], is_last: bool
) -> None:
    whole = torch.randn(sizes).permute([axis for axis in order if axis < len(sizes)])
    views: dict[str, Any] = {
        "flat": whole.as_strided([whole.numel()], [1]),
        "part": whole[-1],
        "turned": whole.transpose(0, -1),
        "apart": whole + 1,
        "same": whole.detach(),
    }
    examples = [views[name] for name in others]
    examples.insert(len(examples) if is_last else 0, whole)
    results = [example.clone(memory_format=torch.contiguous_format) for example in examples]
    restore = layout_restorer(examples)
    restored = results if restore is None else restore(results)
    for result, example in zip(restored, examples, strict=True):
        assert torch.equal(result, example)
        if example.numel() > 1:
            sizes_and_strides = zip(example.shape, example.stride(), result.stride())
            assert all(one == other for size, one, other in sizes_and_strides if size > 1)
    shared = [[_memory(one) == _memory(other) for one in examples] for other in examples]
    assert [[_memory(one) == _memory(other) for one in restored] for other in restored] == shared


HOLES: dict[str, Any] = {
    "every second": lambda x: x[..., ::2],
    "a part of channels last": lambda x: x.permute(0, 3, 1, 2)[:, :, 1:, :2],
    "repeated": lambda x: x[:1, :, :, None].expand(3, -1, -1, 2, -1),
    "windows": lambda x: x.unfold(1, 2, 1),
    "a column": lambda x: x[0, 1, :, 2],
    "one element, repeated": lambda x: x[0, 0, 0, 0].expand(3, 2),
}


@pytest.mark.parametrize("name", HOLES)
def test_results_that_are_not_all_of_their_memory(name: str) -> None:
    """Or have elements that are several times in one place."""
    example = HOLES[name](torch.randn(2, 3, 4, 5))
    restore = layout_restorer([example])
    assert restore is not None
    (result,) = restore([example.contiguous()])
    assert torch.equal(result, example) and result.stride() == example.stride()


def _memory(tensor: Any) -> int:
    return tensor.untyped_storage().data_ptr()
