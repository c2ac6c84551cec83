"""`python -m bench.demo [--source] [--grid N] [--json PATH]`.

A 3×3 convolution layer on a photograph, derived to its best form, proven, checked, timed.

The photograph ships with Matplotlib. Its 8×8 patches are the channels (space-to-depth), as in the
stem of a vision network. The result comes first; `--source` shows the derivation and the kernels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import bench
import einalg as ea
from derive.results.candidates import format_kernels
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program, in_double
from einalg.runtime.measurement import Comparison, Measurement
from einalg.runtime.timing import MeasuringPolicy, measure
from einalg.text.tables import aligned
from einalg.text.terminal import COLUMNS, wrapped
from einalg.text.wording import AS_WRITTEN, counted

DERIVED, WRITTEN = "einalg, derived", f"einalg, {AS_WRITTEN}"
HEADS = ("", "ms", "median", "speed", "error")
POLICY = MeasuringPolicy(seconds_per_alternative=0.5)


def photograph(size: int) -> np.ndarray[Any, Any]:
    """The middle of the photograph: `(size, size, 3)` floats from 0 to 1."""
    from matplotlib import cbook
    from PIL import Image

    with Image.open(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)) as image:  # pyright: ignore[reportArgumentType]
        width, height = image.size
        left, top = (width - size) // 2, (height - size) // 2
        pixels = np.asarray(image.convert("RGB").crop((left, top, left + size, top + size)))
    return pixels.astype(np.float32) / 255


def layer(
    patch: int = 8, grid: int = 56, filters: int = 64
) -> tuple[Any, dict[str, np.ndarray[Any, Any]]]:
    """The expression of the layer and its arrays: NCHW, 3×3, stride 1, padding 1."""
    image = photograph(patch * grid)
    channels = (
        image.reshape(grid, patch, grid, patch, 3)
        .transpose(1, 3, 4, 0, 2)
        .reshape(1, patch * patch * 3, grid, grid)
    )
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((filters, channels.shape[1], 3, 3), dtype=np.float32) * np.sqrt(
        2 / (9 * channels.shape[1]), dtype=np.float32
    )
    conv = ea.parse(
        "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1] * K[f,c,r,s]",
        A=channels.shape,
        K=ea.tensor("K", weights.shape, role="weight"),
    )
    return conv, {"A": np.ascontiguousarray(channels), "K": weights}


def contestants(d: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> dict[str, Callable[[], Any]]:
    """Return the runs that are timed.

    With the weights known before: the derived program, the form as it is written, NumPy, and torch
    where it is installed.
    """
    best, written = (candidate.compile().bind(K=arrays["K"]) for candidate in (d.best, d.original))
    runs: dict[str, Callable[[], Any]] = {
        DERIVED: lambda: best(A=arrays["A"]),
        WRITTEN: lambda: written(A=arrays["A"]),
        "NumPy, one product": lambda: _numpy(arrays["A"], arrays["K"]),
    }
    try:
        import torch
    except ImportError:
        return runs
    image, kernel = torch.from_numpy(arrays["A"]), torch.from_numpy(arrays["K"])

    def run_torch() -> Any:
        with torch.inference_mode():
            return torch.nn.functional.conv2d(image, kernel, padding=1).numpy()

    threads = counted(torch.get_num_threads(), "thread")
    return {**runs, f"torch {torch.__version__.partition('+')[0]}, {threads}": run_torch}


def _numpy(image: np.ndarray[Any, Any], kernel: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Gather the windows of an image as a matrix, and multiply once."""
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.tensordot(kernel, windows[0], axes=([1, 2, 3], [0, 3, 4]))[None]


def result(measured: Mapping[str, Measurement], errors: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines that tell how fast each way is, the fastest first."""
    rows = []
    for name, figures in sorted(measured.items(), key=lambda item: item[1].seconds):
        speed = "1x"
        if name != WRITTEN:
            speed = Comparison(figures, measured[WRITTEN]).range
        times = (f"{figures.seconds * 1e3:.3f}", f"{figures.median * 1e3:.3f}")
        rows.append((name, *times, speed, f"{errors[name]:.0e}"))
    yield aligned([HEADS, *rows], str.rjust)
    yield f"speed: how many times as fast as the convolution {AS_WRITTEN}"
    if any(figures.busy for figures in measured.values()):
        yield "the machine is busy with other work: measure again when it is quiet"


def derivation(d: Any) -> Iterator[str]:
    """Yield the lines that tell what was derived, and that it is equal."""
    yield f"{counted(len(d.best.moves), 'move')}, {d.best.verdict}"
    for move in d.best.moves:
        yield f"  {move.rule}"
    yield "the kernels that it became"
    yield from format_kernels(d.best.kernels)


def sources(candidate: Any) -> str:
    """Return the kernels of a candidate as text.

    Of the generated operators, which are long, their lines are counted; the eOperators are shown
    whole.
    """
    compiled = candidate.compile()
    parts = [str(compiled)]
    for kernel in compiled.kernels:
        source = kernel.source or ""
        if kernel.is_eop:
            parts.append(source)
        elif source:
            parts.append(
                f"{kernel.output} is {len(source.splitlines())} lines of C; "
                "candidate.source('c') has them"
            )
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.demo", description="A 3×3 layer on a photograph, made faster."
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--source", action="store_true", help="show the derivation and the kernels too"
    )
    parser.add_argument(
        "--grid",
        type=int,
        default=56,
        help="height and width of the layer's input, in patches (default: 56)",
    )
    options = parser.parse_args()
    conv, arrays = layer(grid=options.grid)
    print(f"a 3x3 layer on a photograph: A {arrays['A'].shape}, K {arrays['K'].shape}, float32")
    print(wrapped(str(conv), COLUMNS), end="\n\n", flush=True)
    d = ea.derive(conv)
    runs = contestants(d, arrays)
    expected = execute(in_double(as_program(conv)), arrays)["O"]
    errors: dict[str, float] = {}
    for name, run in runs.items():
        errors[name] = float(np.abs(run() - expected).max() / np.abs(expected).max())
    measured = measure(runs, POLICY)
    for line in (*result(measured, errors), "", *derivation(d)):
        print(wrapped(line, COLUMNS))
    if options.source:
        print(f"\nthe derivation\n{d.explain()}\n\nits kernels\n{sources(d.best)}")
    else:
        print("\n--source shows each step and the generated C")
    if options.json:
        record = {
            "machine": bench.machine(),
            "case": str(conv),
            "verdict": d.best.verdict,
            "milliseconds": {name: figures.seconds * 1e3 for name, figures in measured.items()},
            "busy": [name for name, figures in measured.items() if figures.busy],
            "errors": errors,
        }
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
