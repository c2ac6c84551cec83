"""Epilogues of contractions: what is computed from a tile before it is stored."""

from __future__ import annotations

from dataclasses import replace

from codegen.kernels.contraction.problem import Contraction
from codegen.kernels.epilogue import read_each_result_once
from einalg.language.ir.scope import Scope


def contraction_with_epilogue(contraction: Contraction, name: str, scope: Scope) -> Contraction | None:
    """A contraction that stores the statement `name = scope`, which reads its results; None where each is not read for one element.

    >>> import einalg as ea
    >>> from codegen.kernels.contraction.problem import contraction_of
    >>> from einalg.language.ir.kernel import Kernel, View
    >>> p = ea.parse("T[i,j] += A[i,k]*B[k,j]\\nO[j,i] = Max(T[i,j] + C[j], 0)", A=(4, 5), B=(5, 8), C=(8,))
    >>> a, b = (View(n, 0, {"b": (), "m": ((4, s),), "n": ((8, t),), "k": ((5, u),)}) for n, s, t, u in (("A", 5, 0, 1), ("B", 0, 1, 8)))
    >>> t = View("T", 0, {"b": (), "m": ((4, 8),), "n": ((8, 1),)})
    >>> c = contraction_of(Kernel("matmul", {}, ("A", "B"), "T", views=(a, b, t)), p["T"], "f32")
    >>> d = contraction_with_epilogue(c, "O", p["O"])
    >>> d.columns[0].target, d.columns[0].beside, [operand.buf.name for operand in d.beside], d.target.buf.name
    (4, (1,), ['C'], 'O')
    """
    groups = (contraction.batch, contraction.rows, contraction.columns)
    found = read_each_result_once(
        [axis for group in groups for axis in group],
        contraction.target,
        contraction.dtype,
        name,
        scope,
    )
    if found is None:
        return None
    pieces = iter(found.pieces)
    batch, rows, columns = (
        tuple(piece for _ in group for piece in next(pieces)) for group in groups
    )
    whole = {axis.index for axis in (*rows, *columns)}
    windows = tuple(window for window in contraction.windows if window.position in whole)
    if contraction.is_bare and windows != contraction.windows:
        return None  # what is left out for an axis that is cut
    bare = contraction.bare and contraction_with_epilogue(contraction.bare, name, scope)
    axes = {"batch": batch, "rows": rows, "columns": columns}
    return replace(
        contraction,
        target=found.target,
        **axes,
        epilogue=found.epilogue,
        windows=windows,
        bare=bare,
    )
