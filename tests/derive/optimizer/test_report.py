"""What a report says of a layer that stays as it is, in text and in Jupyter alike."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from derive.optimizer.report import Report


def reported(**layer):
    layer = {"names": ["O"], "weights": [], **layer}
    unchanged = SimpleNamespace(text="O[i] = A[i] < 1", candidate=None, **layer)
    part = SimpleNamespace(seconds=(2e-3, 1e-3), verdict="proved", error=0.0, layers=[unchanged], changes=(), workspace=3 << 20)
    return Report(SimpleNamespace(parts={0: part}, opaque=[SimpleNamespace(operator="<sort>", why="no order")], seconds=1.0, times=None))


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (dict(original=None), "it was not searched"),
        (dict(original=1e-3), "what was found for it is not faster in the whole"),
    ],
)
def test_why_a_layer_stays_as_it_is(layer, said):
    report = reported(**layer)
    assert f"stays as it is: {said}" in str(report) and f"<td>stays as it is: {said}</td>" in report._repr_html_()


def test_the_memory_between_kernels_is_told():
    assert "proved, largest error 0.0e+00, 3.0 MiB between kernels" in str(reported(original=None))


def test_texts_are_escaped():
    html = reported(original=None)._repr_html_()
    assert "A[i] &lt; 1" in html and "&lt;sort&gt;" in html


def test_equal_layers_are_counted():
    assert "  O (once): " in str(reported(original=None))
    assert "  C0 (2 times): " in str(reported(original=None, names=["C0", "C1"]))
    found = reported(original=None, names=["C0", "C1"], weights=["stem_weight", *(f"w{k}" for k in range(6))])
    assert "  C0 (2 times, with stem_weight, w0, w1, w2, …): " in str(found) and "<td>stem_weight, w0, w1, w2, …</td>" in found._repr_html_()
    assert str(reported(original=None)).startswith("1 program, 1 opaque call; ")
