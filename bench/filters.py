"""How fast filters of images run: as written, as derived, and in OpenCV and torch.

python -m bench.filters [--json PATH] [--only WORD] [--size N]

Box, Gaussian, dilation and erosion of a square float32 image, inside of its border, on one thread.
All take turns; medians and shortest times are shown. OpenCV also writes the border, which is less
than a tenth more points.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import bench
import einalg as ea
from einalg.runtime.timing import MeasuringPolicy, measure

WINDOWS = (5, 9, 15, 21, 31)
WRITTEN, DERIVED = "as written", "derived"
POLICY = MeasuringPolicy(seconds_per_alternative=0.4)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Filter:
    """A filter by its text, what it reads, and how libraries do it, border included."""

    name: str
    text: str
    arrays: Mapping[str, Array]
    rivals: Mapping[str, Callable[[], Any]]


def gaussian(taps: int) -> Array:
    """Return the weights of a Gaussian as OpenCV makes them."""
    import cv2

    return cv2.getGaussianKernel(taps, 0, cv2.CV_32F)[:, 0].copy()


def filters(size: int) -> Iterator[Filter]:
    """Yield each kind of filter in each window; the image has `size` by `size` elements."""
    import cv2
    import torch

    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    image = np.random.default_rng(0).random((size, size), np.float32)
    tensor = torch.from_numpy(image)[None, None]
    for taps in WINDOWS:
        head = f"O[i:{size - taps + 1},j:{size - taps + 1}] = "
        window, read = f"[r:{taps},s:{taps}]", "A[i+r,j+s]"
        square = np.ones((taps, taps), np.uint8)
        weights = gaussian(taps)
        kernel = torch.from_numpy(np.outer(weights, weights))[None, None]
        yield Filter(
            f"box {taps}x{taps}",
            f"{head}Sum{window}({read})",
            {"A": image},
            {
                "OpenCV": lambda t=taps: cv2.boxFilter(image, -1, (t, t), normalize=False),
                "torch": lambda t=taps: torch.nn.functional.avg_pool2d(
                    tensor, t, 1, divisor_override=1
                ),
            },
        )
        yield Filter(
            f"Gaussian {taps}x{taps}",
            f"{head}Sum{window}(a[r]*a[s]*{read})",
            {"A": image, "a": weights},
            {
                "OpenCV": lambda t=taps: cv2.GaussianBlur(image, (t, t), 0),
                "torch": lambda k=kernel: torch.nn.functional.conv2d(tensor, k),
            },
        )
        yield Filter(
            f"dilation {taps}x{taps}",
            f"{head}Max{window}({read})",
            {"A": image},
            {
                "OpenCV": lambda s=square: cv2.dilate(image, s),
                "torch": lambda t=taps: torch.nn.functional.max_pool2d(tensor, t, 1),
            },
        )
        yield Filter(
            f"erosion {taps}x{taps}",
            f"{head}Min{window}({read})",
            {"A": image},
            {
                "OpenCV": lambda s=square: cv2.erode(image, s),
                "torch": lambda t=taps: -torch.nn.functional.max_pool2d(-tensor, t, 1),
            },
        )


def measured_filter(case: Filter) -> bench.Row:
    """Return the times of a filter; the derived one is proved, and compared with that as written.

    Raises `ValueError` where their results differ, or OpenCV's does inside of the border.
    """
    shapes = {name: array.shape for name, array in case.arrays.items()}
    derivation = ea.derive(ea.parse(case.text, **shapes))
    derived, written = derivation.best.compile(), derivation.original.compile()
    result, expected = derived(**case.arrays), written(**case.arrays)
    height, width = expected.shape
    top = (case.arrays["A"].shape[0] - height) // 2
    inside = slice(top, top + height), slice(top, top + width)
    for other in (result, case.rivals["OpenCV"]()[inside]):
        if not np.allclose(other, expected, rtol=1e-4, atol=1e-4):
            raise ValueError(f"{case.name}: the results differ")
    calls: dict[str, Callable[[], Any]] = {
        WRITTEN: written.repeated(**case.arrays),
        DERIVED: derived.repeated(**case.arrays),
        **case.rivals,
    }
    times = measure(calls, POLICY)
    row: dict[str, Any] = {"filter": case.name, "verdict": derivation.best.verdict}
    for name, figures in times.items():
        row[f"{name}, us"] = figures.median * 1e6
        row[f"{name}, least us"] = figures.seconds * 1e6
    ours = times[DERIVED].seconds
    row["of as written"] = times[WRITTEN].seconds / ours
    row["of OpenCV"] = times["OpenCV"].seconds / ours
    row["of torch"] = times["torch"].seconds / ours
    row["kernels"] = ", ".join(kernel.op for kernel in derivation.best.kernels)
    return row


def main() -> None:
    parser = bench.options("How fast do filters of images run?")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="only filters with this word in their name"
    )
    parser.add_argument("--size", type=int, default=300, help="of the image (default: 300)")
    chosen = parser.parse_args()
    cases = (case for case in filters(chosen.size) if chosen.only in case.name)
    name = f"filters of a {chosen.size}x{chosen.size} image"
    bench.report({name: map(measured_filter, cases)}, chosen.json)


if __name__ == "__main__":
    main()
