"""One network in this process, whose threads its environment says: optimized, beside what libraries make of it, and its error."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from math import prod
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

import bench
import einalg as ea
from bench.kernel_cases import Array
from bench.kernels import SECONDS, WRONG, alternately, copy, peak, rates, reading
from bench.models import MODELS, SMALL, TILED
from bench.rivals import Call, Maker, arrays_of, exported, of_module, reason, running, session
from codegen.targets.c.compiler import find_compiler
from derive.cost.model import arithmetic, arithmetic_of
from einalg.api import optimization
from einalg.api.backend import LocalBackend
from einalg.language.ir.dtypes import numpy_dtype
from einalg.language.ir.scope import Scope

OURS = "einalg"
SMALL_SECONDS = 0.2  # of runs in turns, of a small network


def measured(
    name: str,
    batch: int,
    threads: int,
    seconds: float,
    without: Sequence[str] = (),
    small: bool = False,
    trying: Callable[[str], Any] = lambda way: None,
) -> bench.Row:
    """A row of the table: what failed is told in it; times are milliseconds, the ratio that of the best library to ours.

    `trying` is told the name of a library that runs for the first time, and none after.
    """
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
    if not small and not told["failed"]:
        try:
            told |= again(name, batch, seconds)
        except Exception as error:  # the row has its other figures
            left_out["again"] = f"{type(error).__name__}: {reason(error)}"
    for way, call, result in running(ways(rival, inputs, threads), without, left_out, trying):
        calls[way], results[way] = call, result
    errors = errors_of(results, exact(rival, inputs), left_out)
    times = alternately(
        {way: calls[way] for way in errors}, threads, SMALL_SECONDS if small else SECONDS
    )
    if told.get("work") and (compiler := find_compiler()):
        read, size = reading(
            compiler,
            int(
                1e6 * max((kind["weights MB"] for kind in told["work"]["statements"]), default=0.0)
            ),
        )
        limits = alternately({"peak": peak(compiler), "copy": copy(), "read": read}, threads, 0.0)
        highest, copied = rates(limits, threads)
        told["work"] |= {
            "GFLOP/s": highest / 1e9,
            "GB/s": copied / 1e9,
            "cache GB/s": size * threads / limits["read"] / 1e9,
        }
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
        "work": work(network),
        "programs ms": [[s * 1e3 for s in part.seconds] for part in network.parts.values()],
        "opaque": [f"{node.operator}: {node.why}" for node in network.opaque],
    }
    return lambda: network(*inputs), told


def work(network: ea.Optimized) -> dict[str, Any]:
    """Operations of the sums as the network is written, the megabytes of its weights, inputs and outputs, and both of its statements.

    These are told by kind, each with the megabytes of weights that it reads and how many there are.
    """
    programs = [part.before for part in network.parts.values()]
    kinds = Counter(
        _kind(scope, network.graph.weights)
        for program in programs
        for _, scope in program.statements
    )
    statements = [
        {"count": count, "GFLOP": work / 1e9, "weights MB": held / 1e6}
        for (work, held), count in kinds.items()
        if work
    ]
    tensors = {name: tensor for program in programs for name, tensor in program.inputs.items()}
    outputs = [program[name] for program in programs for name in program.outputs]
    held = sum(prod(t.shape) * numpy_dtype(t.dtype).itemsize for t in (*tensors.values(), *outputs))
    return {
        "GFLOP": sum(map(arithmetic, programs)) / 1e9,
        "MB": held / 1e6,
        "statements": statements,
    }


def _kind(scope: Scope, weights: Collection[str]) -> tuple[int, int]:
    """Operations of the sums of a statement, and the bytes of the weights that it reads."""
    read = (tensor for name, tensor in scope.tensors.items() if name in weights)
    return arithmetic_of(scope), sum(
        prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize for tensor in read
    )


def again(name: str, batch: int, seconds: float) -> dict[str, float]:
    """What `reoptimized` tells in a fresh process, which finds what this one kept on disk; raises `RuntimeError` where it ends without that."""
    script = f"import json; from bench.models import measuring; print(json.dumps(measuring.reoptimized({name!r}, {batch}, {seconds})))"
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        errors="replace",
    )
    if ended.returncode:
        raise RuntimeError(
            f"ended with {ended.returncode}: {(ended.stderr.strip().splitlines() or ['nothing is told'])[-1]}"
        )
    return json.loads(ended.stdout.splitlines()[-1])


def reoptimized(name: str, batch: int, seconds: float) -> dict[str, float]:
    """The seconds of an optimization; of these, those in which the model is read, by torch.export for most, and those in which calls are timed."""
    module, inputs = MODELS[name](batch)
    told = {"again s": 0.0, "read s": 0.0, "timed s": 0.0}

    def counted(function: Callable[..., Any], what: str) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            began = perf_counter()
            found = function(*given, **named)
            told[what] += perf_counter() - began
            return found

        return call

    with (
        patch.object(optimization, "network", counted(optimization.network, "read s")),
        patch.object(LocalBackend, "seconds", counted(LocalBackend.seconds, "timed s")),
    ):
        counted(ea.optimize, "again s")(module, inputs, seconds=seconds)
    return told


def peak_megabytes() -> float:
    """The most memory that this process has had until now."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def ways(module: Any, inputs: tuple[Any, ...], threads: int) -> dict[str, Maker]:
    return {
        **of_module(module, inputs, threads),
        "onnxruntime": lambda: session(*exported(module, inputs), threads),
    }


def exact(module: Any, inputs: tuple[Any, ...]) -> list[Array]:
    """The network's results in double precision, one example after the other so that memory suffices."""
    double = deepcopy(module).double()
    with torch.inference_mode():
        rows = [arrays_of(double(*parts)) for parts in zip(*(x.double().split(1) for x in inputs))]
    return [np.concatenate(parts) for parts in zip(*rows)]


def errors_of(
    results: dict[str, Callable[[], list[Array]]], expected: list[Array], left_out: dict[str, str]
) -> dict[str, float]:
    """The largest deviation of each way, relative to the largest element of that result; a way that fails now is left out."""
    errors: dict[str, float] = {}
    for way, result in results.items():
        try:
            errors[way] = max(
                relative(found, wanted) for found, wanted in zip(result(), expected, strict=True)
            )
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
    return float(
        np.abs(found - wanted).max(initial=0.0)
        / max(np.abs(wanted).max(initial=0.0), np.finfo(np.float32).tiny)
    )


def row(
    key: tuple[str, int, int],
    times: dict[str, float],
    errors: dict[str, float],
    told: dict[str, Any],
    left_out: dict[str, str],
) -> dict[str, Any]:
    """What is shown, and under `more` what explains it. A library with other values does not count; where ours has them, there is no ratio."""
    milliseconds = {way: seconds * 1e3 for way, seconds in times.items()}
    others = {
        way: spent for way, spent in milliseconds.items() if way != OURS and errors[way] < WRONG
    }  # not of NaN either
    best = min(others, key=lambda way: others[way], default="")
    if not told["failed"] and OURS in left_out:
        told["failed"] = left_out.pop(OURS)
    if OURS in errors and not errors[OURS] < WRONG:
        told["failed"] = f"other values: error {errors[OURS]:.1e}"
    counts = best and OURS in milliseconds and not told["failed"]
    shown = dict(zip(("model", "batch", "threads"), key)) | {"ms": milliseconds, "best": best}
    shown |= {
        "ratio": others[best] / milliseconds[OURS] if counts else "",
        "error": errors.get(OURS, ""),
    }
    shown |= {
        name: told.get(name, "")
        for name in (
            "search s",
            "again s",
            "read s",
            "timed s",
            "layers",
            "searched",
            "cached",
            "peak MB",
            "failed",
        )
    }
    rest = {
        "programs ms": told.get("programs ms", []),
        "opaque": told.get("opaque", []),
        "work": told.get("work", {}),
    }
    return {**shown, "more": {**rest, "errors": errors, "left out": left_out}}
