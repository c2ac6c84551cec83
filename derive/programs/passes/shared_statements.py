"""Equal statements as one: what a network computes several times is computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from derive.programs.passes.normalise import fused
from einalg.language.analysis.canonical import key
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Tensor


def shared(program: Program, is_late: Callable[[], bool] = lambda: False) -> Program:
    """Return a flat program without equal statements, but for outputs.

    What then has one reader becomes a part of it, unless it `is_late`. Merge after fusing, not
    before: what is computed by the way, where it is read, would be stored instead.

    >>> import einalg as ea
    >>> text = "S[i] = Max(0, A[i])\\nT[k] = Max(0, A[k])\\nO[i,j] = S[i]*T[j]"
    >>> print(shared(ea.parse(text, A=(3,))))
    S[i:3] = Max(0, A[i])
    O[i:3, j:3] = S[i]*S[j]
    """
    firsts: dict[Hashable, Tensor] = {}
    replaced: dict[str, Tensor] = {}
    statements: list[tuple[str, Scope]] = []
    for name, statement in program.statements:
        scope = substitute_tensors(statement, replaced)
        tensor = statement_tensor(name, scope)
        first = firsts.setdefault((key(scope), tensor.axes, tensor.dtype), tensor)
        if first is tensor or name in program.outputs:
            statements.append((name, scope))
        else:
            replaced[name] = first
    if not replaced:
        return program
    return fused(Program(statements, program.outputs), is_late=is_late)[0]
