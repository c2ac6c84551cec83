"""One network in this process, whose threads its environment says: optimized, beside what libraries make of it, and its error."""

from __future__ import annotations

import resource
import sys
import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from time import perf_counter
from typing import Any

import numpy as np
import torch

import bench
import einalg as ea
from bench.kernel_cases import Array
from bench.kernels import SECONDS, WRONG, alternately
from bench.models import MODELS, SMALL, TILED
from bench.rivals import Call, Maker, arrays_of, exported, of_module, reason, running, session

OURS = "einalg"
SMALL_SECONDS = 0.2  # of runs in turns, of a small network


def measured(name: str, batch: int, threads: int, seconds: float, without: Sequence[str] = (), small: bool = False) -> bench.Row:
    """A row of the table: what failed is told in it; times are milliseconds, the ratio that of the best library to ours."""
    warnings.simplefilter("ignore")
    module, inputs = (SMALL if small else MODELS)[name](batch)
    rival = TILED[name](batch)[0] if name in TILED and not small else module
    calls: dict[str, Call] = {}
    results: dict[str, Callable[[], list[Array]]] = {}
    told: dict[str, Any] = {"failed": ""}
    try:
        calls[OURS], told = optimized(module, inputs, seconds)
        results[OURS] = lambda: arrays_of(calls[OURS]())
    except Exception as error:  # the libraries are measured all the same
        told["failed"] = f"{type(error).__name__}: {reason(error)}"
    left_out: dict[str, str] = {}
    for way, call, result in running(ways(rival, inputs, threads), without, left_out):
        calls[way], results[way] = call, result
    errors = errors_of(results, exact(rival, inputs), left_out)
    times = alternately({way: calls[way] for way in errors}, threads, SMALL_SECONDS if small else SECONDS)
    return row((name, batch, threads), times, errors, told, left_out)


def optimized(module: Any, inputs: tuple[Any, ...], seconds: float) -> tuple[Call, dict[str, Any]]:
    """A call of the optimized network, and what the optimization took."""
    began = perf_counter()
    network = ea.optimize(module, inputs, seconds=seconds)
    spent = perf_counter() - began
    network(*inputs)
    layers = [layer for part in network.parts.values() for layer in part.layers]
    told = {
        "failed": "",
        "search s": spent,
        "layers": len(layers),
        "searched": sum(layer.candidate is not None and not layer.stored for layer in layers),
        "cached": sum(layer.stored for layer in layers),
        "peak MB": peak_megabytes(),
        "programs ms": [[s * 1e3 for s in part.seconds] for part in network.parts.values()],
        "opaque": [f"{node.operator}: {node.why}" for node in network.opaque],
    }
    return lambda: network(*inputs), told


def peak_megabytes() -> float:
    """The most memory that this process has had until now."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def ways(module: Any, inputs: tuple[Any, ...], threads: int) -> dict[str, Maker]:
    return {**of_module(module, inputs, threads), "onnxruntime": lambda: session(*exported(module, inputs), threads)}


def exact(module: Any, inputs: tuple[Any, ...]) -> list[Array]:
    """The network's results in double precision, one example after the other so that memory suffices."""
    double = deepcopy(module).double()
    with torch.inference_mode():
        rows = [arrays_of(double(*parts)) for parts in zip(*(x.double().split(1) for x in inputs))]
    return [np.concatenate(parts) for parts in zip(*rows)]


def errors_of(results: dict[str, Callable[[], list[Array]]], expected: list[Array], left_out: dict[str, str]) -> dict[str, float]:
    """The largest deviation of each way, relative to the largest element of that result; a way that fails now is left out."""
    errors: dict[str, float] = {}
    for way, result in results.items():
        try:
            errors[way] = max(relative(found, wanted) for found, wanted in zip(result(), expected, strict=True))
        except Exception as error:  # whatever a library raises
            left_out[way] = f"{type(error).__name__}: {reason(error)}"
    return errors


def relative(found: Array, wanted: Array) -> float:
    """`inf` for other shapes.

    >>> relative(np.array([1.0, 3.0]), np.array([1.0, 4.0])), relative(np.ones(2), np.ones(3))
    (0.25, inf)
    """
    if found.shape != wanted.shape:
        return float("inf")
    return float(np.abs(found - wanted).max(initial=0.0) / max(np.abs(wanted).max(initial=0.0), np.finfo(np.float32).tiny))


def row(
    key: tuple[str, int, int], times: dict[str, float], errors: dict[str, float], told: dict[str, Any], left_out: dict[str, str]
) -> dict[str, Any]:
    """What is shown, and under `more` what explains it. A library with other values does not count; where ours has them, there is no ratio."""
    milliseconds = {way: seconds * 1e3 for way, seconds in times.items()}
    others = {way: spent for way, spent in milliseconds.items() if way != OURS and errors[way] < WRONG}  # not of NaN either
    best = min(others, key=lambda way: others[way], default="")
    if not told["failed"] and OURS in left_out:
        told["failed"] = left_out.pop(OURS)
    if OURS in errors and not errors[OURS] < WRONG:
        told["failed"] = f"other values: error {errors[OURS]:.1e}"
    counts = best and OURS in milliseconds and not told["failed"]
    shown = dict(zip(("model", "batch", "threads"), key)) | {"ms": milliseconds, "best": best}
    shown |= {"ratio": others[best] / milliseconds[OURS] if counts else "", "error": errors.get(OURS, "")}
    shown |= {name: told.get(name, "") for name in ("search s", "layers", "searched", "cached", "peak MB", "failed")}
    rest = {name: told.get(name, []) for name in ("programs ms", "opaque")}
    return {**shown, "more": {**rest, "errors": errors, "left out": left_out}}
