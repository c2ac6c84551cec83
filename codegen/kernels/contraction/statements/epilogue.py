"""Epilogues of contractions: what is computed from a tile before it is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from codegen.kernels.contraction.problem import Contraction, with_needed_results
from codegen.kernels.epilogue import EpilogueRead, read_each_result_once
from codegen.kernels.strided_axes import StridedAxis
from einalg.language.ir.scope import Scope

Read = Callable[..., EpilogueRead | None]


def contraction_with_epilogue(
    contraction: Contraction,
    name: str,
    scope: Scope,
    read: Read = read_each_result_once,
    leaves_gaps: bool = False,
) -> Contraction | None:
    """Return a contraction that stores the statement `name = scope`, which reads its results.

    None where each result is not read for exactly one element, or the contraction has an epilogue.
    `read_some_results` asks the same of a contraction that computes some of the results. With
    `leaves_gaps`, anything may be stored where the statement has no value.

    >>> import einalg as ea
    >>> from codegen.kernels.contraction.problem import contraction_of
    >>> from einalg.language.ir.kernel import Kernel, View
    >>> text = "T[i,j] += A[i,k]*B[k,j]\\nO[j,i] = Max(T[i,j] + C[j], 0)"
    >>> p = ea.parse(text, A=(4, 5), B=(5, 8), C=(8,))
    >>> a = View("A", 0, {"b": (), "m": ((4, 5),), "n": ((8, 0),), "k": ((5, 1),)})
    >>> b = View("B", 0, {"b": (), "m": ((4, 0),), "n": ((8, 1),), "k": ((5, 8),)})
    >>> t = View("T", 0, {"b": (), "m": ((4, 8),), "n": ((8, 1),)})
    >>> kernel = Kernel("matmul", {}, ("A", "B"), "T", views=(a, b, t))
    >>> c = contraction_with_epilogue(contraction_of(kernel, p["T"], "f32"), "O", p["O"])
    >>> c.columns[0].target, c.columns[0].epilogue_steps, c.target.buf.name
    (4, (1,), 'O')
    """
    c = contraction
    if c.epilogue is not None:
        return None
    axes = (*c.batch, *c.rows, *c.columns)
    plain = scope
    if leaves_gaps:
        plain = Scope(scope.iterators, (), scope.body)
    reading = read(axes, c.target, c.dtype, name, plain)
    if reading is None:
        return None
    pieces = iter(reading.pieces)
    batch = _cut_axes(c.batch, pieces)
    rows = _cut_axes(c.rows, pieces)
    columns = _cut_axes(c.columns, pieces)
    whole = {axis.index for axis in (*rows, *columns)}
    windows = tuple(window for window in c.windows if window.position in whole)
    if c.is_bare and windows != c.windows:
        return None  # what is left out for an axis that is cut
    kept = whole.union(axis.index for axis in (*batch, *c.depth))
    if not c.range_indices <= kept:
        return None
    joined = replace(
        c,
        target=reading.target,
        batch=batch,
        rows=rows,
        columns=columns,
        epilogue=reading.epilogue,
        windows=windows,
        needed=(),
        bare=c.bare and contraction_with_epilogue(c.bare, name, scope, read, leaves_gaps),
    )
    return with_needed_results(joined, scope)


def _cut_axes(
    axes: Sequence[StridedAxis], pieces: Iterator[Sequence[StridedAxis]]
) -> tuple[StridedAxis, ...]:
    """Return a group with each axis replaced by its next pieces."""
    results: list[StridedAxis] = []
    for _ in axes:
        results += next(pieces)
    return tuple(results)
