"""Which of two ways to run a kernel is faster here, measured once and kept (design §10)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from codegen.arguments import sample
from codegen.c_printer import c_source, entry_name
from codegen.calls import caller
from codegen.compiler import Compiler
from codegen.ir import Function
from einalg.access import Tensor
from einalg.cache import Shelf, hashed
from einalg.dtypes import numpy_dtype
from einalg.scope import Scope

Run = Callable[[Mapping[str, np.ndarray[Any, Any]]], None]
CHOICES = Shelf("choices", ".txt", "measured choices")
SECONDS, LEAST_ROUNDS, MOST_ROUNDS = 0.03, 3, 30
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def generated_is_faster(function: Function, library: Run, scope: Scope, compiler: Compiler, timeout: float) -> bool:
    """Whether a generated function beats a library's call, both on random inputs; `CodegenError` where it does not compile."""
    source = c_source([function])
    key = hashed(compiler.key(source), np.__version__, *(os.environ.get(name, "") for name in THREADS))
    known = CHOICES.read(key)
    if known is None:
        entry = getattr(compiler.load(source, timeout), entry_name(0))
        names = [b.name for b in (*function.inputs, function.output)]
        known = b"generated" if _faster(caller(entry, names), library, _buffers(function, scope)) else b"library"
        CHOICES.store(key, known)
    return known == b"generated"


def _buffers(function: Function, scope: Scope) -> dict[str, np.ndarray[Any, Any]]:
    arrays = sample({name: Tensor(name, t.axes, t.dtype) for name, t in scope.tensors.items()})
    return {**arrays, function.output.name: np.empty(scope.shape, numpy_dtype(scope.dtype))}


def _faster(one: Run, other: Run, buffers: Mapping[str, np.ndarray[Any, Any]]) -> bool:
    """Whether the first of two calls takes less time at its best, in turns."""
    spent: tuple[list[float], list[float]] = ([], [])
    began, rounds = perf_counter(), 0
    while rounds < LEAST_ROUNDS or (rounds < MOST_ROUNDS and perf_counter() - began < SECONDS):
        rounds += 1
        for run, times in zip((one, other), spent):
            start = perf_counter()
            run(buffers)
            times.append(perf_counter() - start)
    return min(spent[0][1:]) < min(spent[1][1:])
