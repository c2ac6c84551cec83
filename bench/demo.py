"""`python -m bench.demo`.

A 3×3 convolution layer on a photograph, derived to its best form, proven, checked, timed.

The photograph ships with Matplotlib. Its 8×8 patches are the channels (space-to-depth), as in the
stem of a vision network.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import bench
import einalg as ea
from bench.kernels import alternately
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import as_program, in_double


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

    With the weights known before: the derived program, the direct form, NumPy, and torch where it
    is installed.
    """
    best, direct = (candidate.compile().bind(K=arrays["K"]) for candidate in (d.best, d.original))
    found: dict[str, Callable[[], Any]] = {
        "einalg, derived": lambda: best(A=arrays["A"]),
        "einalg, the direct form": lambda: direct(A=arrays["A"]),
        "NumPy (im2col by sliding windows, one BLAS call)": lambda: _numpy(
            arrays["A"], arrays["K"]
        ),
    }
    try:
        import torch
    except ImportError:
        return found
    image, kernel = torch.from_numpy(arrays["A"]), torch.from_numpy(arrays["K"])

    def run_torch() -> Any:
        with torch.inference_mode():
            return torch.nn.functional.conv2d(image, kernel, padding=1).numpy()

    return {**found, f"torch {torch.__version__}, {torch.get_num_threads()} threads": run_torch}


def _numpy(image: np.ndarray[Any, Any], kernel: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.tensordot(kernel, windows[0], axes=([1, 2, 3], [0, 3, 4]))[None]


def kernels(candidate: Any) -> str:
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
        prog="python -m bench.demo", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument(
        "--grid",
        type=int,
        default=56,
        help="height and width of the layer's input, in patches (default: 56)",
    )
    options = parser.parse_args()
    conv, arrays = layer(grid=options.grid)
    print(f"a 3x3 layer on a photograph: A {arrays['A'].shape}, K {arrays['K'].shape}, float32\n")
    d = ea.derive(conv)
    print(f"{d}\n\nthe derivation\n{d.explain()}\n\nits kernels\n{kernels(d.best)}\n")
    runs = contestants(d, arrays)
    expected = execute(in_double(as_program(conv)), arrays)["O"]
    errors = {
        name: float(np.abs(run() - expected).max() / np.abs(expected).max())
        for name, run in runs.items()
    }
    seconds = alternately(runs, os.cpu_count() or 1)
    own = seconds["einalg, derived"]
    print(
        f"verdict: {d.best.verdict}; largest error against double precision: "
        f"{errors['einalg, derived']:.1e} of the largest element\n"
    )
    print(f"{'median, in turns':52} {'ms':>8} {'ratio':>7} {'error':>9}")
    for name, time in sorted(seconds.items(), key=lambda item: item[1]):
        print(f"{name:52} {time * 1e3:8.3f} {time / own:6.2f}x {errors[name]:9.1e}")
    if options.json:
        record = {
            "machine": bench.machine(),
            "case": str(conv),
            "verdict": d.best.verdict,
            "milliseconds": {k: v * 1e3 for k, v in seconds.items()},
            "errors": errors,
        }
        options.json.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
