"""One network in this process: optimized, beside libraries, and its error.

The number of threads is that of the environment.
"""

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
TOLD_COLUMNS = (
    *("search s", "again s", "read s", "timed s"),
    *("layers", "searched", "cached", "peak MB", "failed"),
)
SMALL_SECONDS = 0.2  # of runs in turns, of a small network


def measured(
    name: str,
    batch: int,
    threads: int,
    seconds: float,
    without: Sequence[str] = (),
    small: bool = False,
    trying: Callable[[str], Any] = lambda engine: None,
) -> bench.Row:
    """Return a row of the table, with what failed.

    Times are milliseconds, the ratio that of the best library to ours. `trying` is called with the
    name of a library before it runs for the first time, and with "" after.
    """
    warnings.simplefilter("ignore")
    models = MODELS
    if small:
        models = SMALL
    module, inputs = models[name](batch)
    rival = module
    if name in TILED and not small:
        rival = TILED[name](batch)[0]
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
    for engine, call, result in running(ways(rival, inputs, threads), without, left_out, trying):
        calls[engine], results[engine] = call, result
    errors = errors_of(results, exact(rival, inputs), left_out)
    time_limit = SECONDS
    if small:
        time_limit = SMALL_SECONDS
    times = alternately({engine: calls[engine] for engine in errors}, time_limit)
    if told.get("work"):
        told["work"] |= machine_limits(told["work"]["statements"], threads)
    return row((name, batch, threads), times, errors, told, left_out)


def machine_limits(statements: Sequence[bench.Row], threads: int) -> dict[str, float]:
    """Return the rates of products, of a copy, and of a cache that holds the largest weights."""
    compiler = find_compiler()
    if compiler is None:
        return {}
    largest = max((kind["weights MB"] for kind in statements), default=0.0)
    read, size = reading(compiler, int(1e6 * largest))
    limits = alternately({"peak": peak(compiler), "copy": copy(), "read": read}, 0.0)
    highest, copied = rates(limits, threads)
    return {
        "GFLOP/s": highest / 1e9,
        "GB/s": copied / 1e9,
        "cache GB/s": size * threads / limits["read"] / 1e9,
    }


def optimized(module: Any, inputs: tuple[Any, ...], seconds: float) -> tuple[Call, dict[str, Any]]:
    """Return a call of the optimized network, and what the optimization took."""
    began = perf_counter()
    network = ea.optimize(module, inputs, seconds=seconds)
    spent = perf_counter() - began
    network(*inputs)
    layers: list[Any] = []
    for part in network.parts.values():
        layers += part.layers
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
    """Return operations and megabytes of a network as it is written, and of its statements.

    The operations are those of sums; the megabytes those of weights, inputs and outputs.
    Statements are counted by kind, each with the megabytes of weights that it reads.
    """
    programs = [part.before for part in network.parts.values()]
    kinds: Counter[tuple[int, int]] = Counter()
    tensors: dict[str, Any] = {}
    outputs: list[Scope] = []
    for program in programs:
        kinds.update(_kind(scope, network.graph.weights) for _, scope in program.statements)
        tensors |= program.inputs
        outputs += [program[name] for name in program.outputs]
    statements: list[dict[str, Any]] = []
    for (operations, weight_bytes), count in kinds.items():
        if operations:
            kind = {"GFLOP": operations / 1e9, "weights MB": weight_bytes / 1e6}
            statements.append({"count": count, **kind})
    return {
        "GFLOP": sum(map(arithmetic, programs)) / 1e9,
        "MB": sum(map(_bytes, (*tensors.values(), *outputs))) / 1e6,
        "statements": statements,
    }


def _bytes(tensor: Any) -> int:
    return prod(tensor.shape) * numpy_dtype(tensor.dtype).itemsize


def _kind(scope: Scope, weights: Collection[str]) -> tuple[int, int]:
    """Return operations of the sums of a statement, and the bytes of the weights that it reads."""
    read = [tensor for name, tensor in scope.tensors.items() if name in weights]
    return arithmetic_of(scope), sum(map(_bytes, read))


def again(name: str, batch: int, seconds: float) -> dict[str, float]:
    """Return what `reoptimized` returns in a fresh process, with the cache of this one.

    Raises `RuntimeError` where the process ends without that.
    """
    arguments = f"{name!r}, {batch}, {seconds}"
    script = (
        "import json; from bench.models import measuring; "
        f"print(json.dumps(measuring.reoptimized({arguments})))"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        errors="replace",
    )
    if ended.returncode:
        lines = ended.stderr.strip().splitlines() or ["nothing is told"]
        raise RuntimeError(f"ended with {ended.returncode}: {lines[-1]}")
    return json.loads(ended.stdout.splitlines()[-1])


def reoptimized(name: str, batch: int, seconds: float) -> dict[str, float]:
    """Return the seconds of an optimization.

    Of these, `read s` are those in which the model is read, by torch.export for most, and `timed s`
    those in which calls are timed.
    """
    module, inputs = MODELS[name](batch)
    told = {"again s": 0.0, "read s": 0.0, "timed s": 0.0}

    def counted(function: Callable[..., Any], what: str) -> Callable[..., Any]:
        def call(*arrays: Any, **named: Any) -> Any:
            began = perf_counter()
            result = function(*arrays, **named)
            told[what] += perf_counter() - began
            return result

        return call

    with (
        patch.object(optimization, "network", counted(optimization.network, "read s")),
        patch.object(LocalBackend, "measure", counted(LocalBackend.measure, "timed s")),
    ):
        counted(ea.optimize, "again s")(module, inputs, seconds=seconds)
    return told


def peak_megabytes() -> float:
    """Return the most memory that this process has had until now."""
    unit = 1024
    if sys.platform == "darwin":
        unit = 1
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def ways(module: Any, inputs: tuple[Any, ...], threads: int) -> dict[str, Maker]:
    return {
        **of_module(module, inputs, threads),
        "onnxruntime": lambda: session(*exported(module, inputs), threads),
    }


def exact(module: Any, inputs: tuple[Any, ...]) -> list[Array]:
    """Return the results in double precision, example by example so that memory suffices."""
    double = deepcopy(module).double()
    with torch.inference_mode():
        rows = [arrays_of(double(*parts)) for parts in zip(*(x.double().split(1) for x in inputs))]
    return [np.concatenate(parts) for parts in zip(*rows)]


def errors_of(
    results: dict[str, Callable[[], list[Array]]], expected: list[Array], left_out: dict[str, str]
) -> dict[str, float]:
    """Return the largest deviation of each library, relative to the largest element.

    One that fails now is left out.
    """
    errors: dict[str, float] = {}
    for engine, result in results.items():
        try:
            errors[engine] = max(
                relative(array, wanted) for array, wanted in zip(result(), expected, strict=True)
            )
        except Exception as error:  # whatever a library raises
            left_out[engine] = f"{type(error).__name__}: {reason(error)}"
    return errors


def relative(computed: Array, wanted: Array) -> float:
    """Return the largest deviation, relative to the largest element; `inf` for other shapes.

    >>> relative(np.array([1.0, 3.0]), np.array([1.0, 4.0])), relative(np.ones(2), np.ones(3))
    (0.25, inf)
    """
    if computed.shape != wanted.shape:
        return float("inf")
    return float(
        np.abs(computed - wanted).max(initial=0.0)
        / max(np.abs(wanted).max(initial=0.0), np.finfo(np.float32).tiny)
    )


def row(
    key: tuple[str, int, int],
    times: dict[str, float],
    errors: dict[str, float],
    told: dict[str, Any],
    left_out: dict[str, str],
) -> dict[str, Any]:
    """Return the columns of a table, with details under `more`.

    A library with other values does not count; where ours has them, there is no ratio.
    """
    milliseconds = {engine: seconds * 1e3 for engine, seconds in times.items()}
    others = [
        engine for engine in times if engine != OURS and errors[engine] < WRONG
    ]  # not of NaN either
    best = min(others, key=lambda engine: times[engine], default="")
    if not told["failed"] and OURS in left_out:
        told["failed"] = left_out.pop(OURS)
    if OURS in errors and not errors[OURS] < WRONG:
        told["failed"] = f"other values: error {errors[OURS]:.1e}"
    ratio: float | str = ""
    if best and OURS in times and not told["failed"]:
        ratio = milliseconds[best] / milliseconds[OURS]
    shown = dict(zip(("model", "batch", "threads"), key)) | {"ms": milliseconds, "best": best}
    shown |= {"ratio": ratio, "error": errors.get(OURS, "")}
    shown |= {name: told.get(name, "") for name in TOLD_COLUMNS}
    rest = {
        "programs ms": told.get("programs ms", []),
        "opaque": told.get("opaque", []),
        "work": told.get("work", {}),
    }
    return {**shown, "more": {**rest, "errors": errors, "left out": left_out}}
