"""NumPy interpreter: the values of `einalg.language.interpreters.reference`, for real sizes,
through NumPy.

Every scope is evaluated once, as an array over its box, inner scopes first. An access with affine
subscripts is a strided view without a copy; `//`, `%` and reads that a condition excludes are
looked up. Bodies are evaluated by broadcasting, sums of products by matrix products, and what would
not fit in `memory` is cut into blocks.

Differences from the reference: an output of integers has 64 bits and wraps round, while all before
it are exact, an array of int64 or of Python's integers; a quotient of integers is float64, and so
is an integer expression that meets an infinity; division by zero gives an infinity or NaN where
Python raises; sums are reassociated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from einalg.errors import ShapeError
from einalg.language.interpreters.numpy.arithmetic import FLOAT, Arithmetic, Array, is_exact
from einalg.language.interpreters.numpy.arrays import ArrayStore, BoxedArray
from einalg.language.interpreters.numpy.body import Evaluator
from einalg.language.ir.program import Program, as_program
from einalg.language.ir.scope import all_scopes
from einalg.language.ir.tensor import Constant, Padded, Tensor
from einalg.language.ir.traversal import accesses

__all__ = ["FLOAT", "MEMORY", "Arithmetic", "execute", "run"]

MEMORY = 32 * 2**20  # bytes of every temporary array: caches hold them, and a part is brief


def execute(
    expr: Any,
    arrays: Mapping[str, Any],
    *,
    arithmetic: Arithmetic = FLOAT,
    memory: int = MEMORY,
    between_blocks: Callable[[], None] | None = None,
) -> dict[str, Array]:
    """Return the outputs of a scope or program, by name, on arrays given by name (a scope's output
    is named `O`).

    Shapes are those of the tensors, in elements; entries of `arrays` that the expression does not
    read are ignored. With `FLOAT`, where some input is a float, inputs are taken in the declared
    types of the tensors (f16 and bf16 are computed in float32), and an output has the dtype of its
    scope; if all inputs are integers, integers are computed as such and fractions in float64.
    `PrimeField` computes modulo a prime. `memory`, in bytes, bounds every temporary array as far as
    cutting the loops can; it does not count the values of scopes and of padded tensors themselves.
    `between_blocks` is called before each part that fits, and may end the evaluation by raising.
    Raises `ShapeError` for a missing or misshapen array.

    >>> import einalg as ea
    >>> execute(ea.parse("O[i] += A[i,j]", A=(2, 3)), {"A": np.arange(6).reshape(2, 3)})
    {'O': array([ 3, 12])}
    """
    program = as_program(expr)
    inputs = program.inputs
    arguments = {name: _argument(tensor, arrays) for name, tensor in inputs.items()}
    store, exact = ArrayStore(arithmetic), is_exact(arguments)
    loaded = arithmetic.load(arguments, {name: tensor.dtype for name, tensor in inputs.items()})
    for name, tensor in program.constants.items():
        loaded[name] = _constant(tensor, arithmetic, exact)
    for name, tensor in program.tensors.items():
        store.tensors[name] = BoxedArray(loaded[name], tensor.box)
    results = {}
    with np.errstate(all="ignore"):
        _run(program, store, Evaluator(store, arithmetic, memory, between_blocks))
        for name in program.outputs:
            values = store.tensors[name].values
            results[name] = arithmetic.finish(values, program[name].dtype, exact)
    return _separate(results, list(arguments.values()))


def run(expr: Any, /, **arrays: Any) -> Any:
    """Like `einalg.evaluate`, vectorised: an array, or a dict of them for a program of several
    outputs.

    Raises `ShapeError` for a missing, surplus or misshapen array.

    >>> import einalg as ea
    >>> run(ea.parse("O[i] += A[i,j]", A=(2, 3)), A=[[1, 2, 3], [4, 5, 6]])
    array([ 6, 15])
    """
    program = as_program(expr)
    surplus = sorted(set(arrays) - set(program.inputs))
    if surplus:
        raise ShapeError(
            f"{surplus[0]} is not an input of the expression; the inputs are "
            f"{', '.join(program.inputs) or 'none'}\n  leave it out"
        )
    results = execute(program, arrays)
    if len(results) == 1:
        return results[program.outputs[0]]
    return results


def _argument(tensor: Tensor, arrays: Mapping[str, Any]) -> Array:
    if tensor.name not in arrays:
        raise ShapeError(
            f"no array is given for {tensor.name}, of shape {tensor.shape}\n"
            f"  pass {tensor.name}=array"
        )
    array = np.asarray(arrays[tensor.name])
    if array.shape != tensor.shape:
        raise ShapeError(
            f"{tensor.name} has shape {tensor.shape}, but an array of shape {array.shape} is "
            f"given\n"
            "  pass another, or reshape it"
        )
    return array


def _constant(tensor: Constant, arithmetic: Arithmetic, exact: bool) -> Array:
    """Return a constant as the arithmetic computes with it: in its declared type where some input
    is a float.
    """
    dtype = None if tensor.values else np.int64
    values = np.array(list(map(arithmetic.number, tensor.values)), dtype).reshape(tensor.shape)
    return arithmetic.finish(values, tensor.dtype, exact)


def _run(program: Program, store: ArrayStore, evaluator: Evaluator) -> None:
    last = _last_reads(program)
    for name, statement in program.statements:
        for scope in all_scopes(statement):
            if scope not in store.scopes:
                store.scopes[scope] = evaluator.scope(scope)
        store.tensors[name] = store.scopes[statement]
        store.forget(last.get(name, ()))


def _last_reads(program: Program) -> dict[str, list[Any]]:
    """Return by statement what no later one reads: tensors by name, but for outputs, padded views,
    and scopes.
    """
    readers: dict[Any, str] = {}
    for name, statement in program.statements:
        for scope in all_scopes(statement):
            readers[scope] = name
            for base in {access.base for access in accesses(scope.body)}:
                while isinstance(base, Padded):
                    readers[base], base = name, base.base
                readers[base.name if isinstance(base, Tensor) else base] = name
    last: dict[str, list[Any]] = {}
    for base, name in readers.items():
        if base not in program.outputs:
            last.setdefault(name, []).append(base)
    return last


def _separate(results: Mapping[str, Array], inputs: list[Array]) -> dict[str, Array]:
    """Return outputs that can be written to, and share no memory with an input or each other."""
    separate: dict[str, Array] = {}
    for name, result in results.items():
        others = (*inputs, *separate.values())
        if not result.flags.writeable or any(np.may_share_memory(result, a) for a in others):
            result = result.copy()
        separate[name] = result
    return separate
