"""Programs: ordered named statements (design §2).

Nested scopes and named statements are two spellings of one thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sympy import Basic

from einalg.boundary import public
from einalg.errors import NotationError, UseError
from einalg.language.conversion import HALVES, converted, is_of_type
from einalg.language.index.affine import Index
from einalg.language.index.iterator import LoopIndex
from einalg.language.ir.body import where_text
from einalg.language.ir.dtypes import is_float
from einalg.language.ir.printing.latex import latex
from einalg.language.ir.printing.text import text
from einalg.language.ir.scope import (
    Scope,
    add_tensor,
    all_scopes,
    numbers_of_sizes,
    scope_at_sizes,
)
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import map_accesses, rebased
from einalg.language.node import Node
from einalg.language.refusals import NoArray
from einalg.options import shown


@public
class Program(Node, NoArray, Basic):
    """Statements `name = scope`, each reading inputs and earlier statements; `outputs` names the
    results.

    By default the results are the statements that no other reads. Raises `NotationError` for no
    statement, a name that is given twice, and a read of what is not there yet.

    >>> import einalg as ea
    >>> p = ea.parse("T[i] = A[i] + 1\\nO[i] = T[i]*T[i]", A=(4,))
    >>> p.outputs, p["T"].shape
    (('O',), (4,))
    """

    __slots__ = ("statements", "outputs", "_tensors", "_scopes", "_text")
    _fields = ("statements", "outputs")

    def __new__(cls, statements: Iterable[Any], outputs: Iterable[Any] = ()) -> Program:
        pairs = _pairs(statements)
        names = [name for name, _ in pairs]
        if not pairs:
            raise NotationError(
                "a program needs at least one statement\n  e.g. Program([('O', scope)])"
            )
        for name, count in Counter(names).items():
            if count > 1:
                raise NotationError(
                    f"{name} is assigned twice\n  give the second statement a name of its own"
                )
        node = cls._build(pairs, _names(outputs) or _unread(pairs))
        node._tensors, node._scopes, node._text = None, dict(pairs), None
        for output in node.outputs:
            if output not in node._scopes:
                raise NotationError(
                    f"output {output} is not a statement\n  the statements are {', '.join(names)}"
                )
        _check_order(node)
        return node

    @classmethod
    def with_text(cls, statements: Iterable[Any], outputs: Iterable[Any], text: str) -> Program:
        """Return a program whose text is known, so that nothing is read to print it."""
        node = cls(statements, outputs)
        node._text = text
        return node

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the statements, in order."""
        return tuple(name for name, _ in self.statements)

    def __getitem__(self, name: str) -> Scope:
        if isinstance(name, str) and name in self._scopes:
            return self._scopes[name]
        raise NotationError(
            f"the program has no statement {shown(name)}\n"
            f"  the statements are {', '.join(self.names)}"
        )

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The inputs, weights and constants that are read, by name, in order of first use."""
        if self._tensors is None:
            by_name: dict[str, Tensor] = {}
            for _, scope in self.statements:
                for name, tensor in scope.tensors.items():
                    if tensor.role != "intermediate":
                        by_name.setdefault(name, tensor)
            self._tensors = by_name
        return self._tensors

    @property
    def inputs(self) -> dict[str, Tensor]:
        """The tensors that need an array: all but the constants."""
        return {name: t for name, t in self.tensors.items() if not isinstance(t, Constant)}

    @property
    def constants(self) -> dict[str, Constant]:
        """The tensors whose values are part of the program."""
        return {name: t for name, t in self.tensors.items() if isinstance(t, Constant)}

    @property
    def free_symbols(self) -> set[Any]:
        """The empty set: a program is closed."""
        return set()

    @property
    def result(self) -> Scope:
        """The scope of the only output."""
        if len(self.outputs) != 1:
            raise NotationError(
                f"the program has {len(self.outputs)} outputs: {', '.join(self.outputs)}\n"
                f"  name one: program['{self.outputs[0]}']"
            )
        return self[self.outputs[0]]

    @property
    def sizes(self) -> dict[str, Any]:
        """The symbolic sizes of all statements, by name, sorted."""
        sizes: dict[str, Any] = {}
        for _, scope in self.statements:
            sizes.update(scope.sizes)
        return dict(sorted(sizes.items()))

    def at(self, **sizes: int) -> Program:
        """Return the program with numbers in the places of symbolic sizes; those that are left out
        stay. Raises as `Scope.at` does.
        """
        values = numbers_of_sizes(self.sizes, sizes)
        if not values:
            return self
        statements = [(name, scope_at_sizes(scope, values)) for name, scope in self.statements]
        return Program(statements, self.outputs)

    def replaced(self, name: str, scope: Scope) -> Program:
        """Return the program with one statement's scope replaced."""
        return Program(((k, scope if k == name else s) for k, s in self.statements), self.outputs)

    def _sympystr(self, printer: Any) -> str:
        lines = []
        for name, scope in self.statements:
            if scope.where:
                lines.append(f"{name} = {printer._print(scope)}")
            else:
                ranges = ", ".join(map(str, scope.iterators)) or "()"
                lines.append(
                    f"{name}[{ranges}] = {printer._print(scope.body)}{where_text((), printer)}"
                )
        if self.outputs != _unread(self.statements):
            lines.append(", ".join(self.outputs))
        return "\n".join(lines)

    def __str__(self) -> str:
        if self._text is not None:
            return self._text
        return text(self)

    __repr__ = __str__

    def __iter__(self) -> Any:
        return iter(self.statements)

    def _repr_latex_(self) -> str:
        rows = []
        for name, scope in self.statements:
            rows.append(rf"{latex(statement_tensor(name, scope))} &= {latex(scope)}")
        return rf"$\displaystyle \begin{{aligned}}{(chr(92) * 2).join(rows)}\end{{aligned}}$"

    def tree(self) -> str:
        """Every statement as an indented tree."""
        return "\n".join(f"{name} =\n{scope.tree()}" for name, scope in self.statements)


def statement_tensor(name: str, scope: Scope) -> Tensor:
    """Return the tensor that later statements read."""
    return Tensor(name, scope.box, scope.dtype, "intermediate")


def _pairs(statements: Any) -> tuple[tuple[str, Scope], ...]:
    """Return the statements of a program as names with scopes; `NotationError` for what is none."""
    try:
        pairs = tuple((str(name), scope) for name, scope in statements)
    except (TypeError, ValueError):
        pairs = (("", None),)
    if not all(isinstance(scope, Scope) for _, scope in pairs):
        raise NotationError(
            "a program is made of names with their scopes\n  e.g. Program([('O', scope)])"
        )
    return pairs


def _names(outputs: Any) -> tuple[str, ...]:
    try:
        return tuple(map(str, outputs))
    except TypeError:
        raise NotationError(
            f"outputs are names of statements in a list, not {shown(outputs)}\n"
            "  e.g. Program([('O', scope)], ['O'])"
        ) from None


def as_program(expression: Any, name: str = "O") -> Program:
    """Return a scope as a program of one statement; a program as it is. `UseError` for one with
    symbolic sizes.
    """
    program = as_symbolic_program(expression, name)
    sizes = program.sizes
    if sizes:
        examples = ", ".join(f"{size.name}={size.smallest}" for size in sizes.values())
        raise UseError(
            f"the expression has symbolic sizes: {', '.join(sizes)}\n"
            f"  give them numbers: .at({examples})"
        )
    return program


def as_symbolic_program(expression: Any, name: str = "O") -> Program:
    """Return a scope as a program of one statement; a program as it is, with its symbolic sizes.
    A tensor stands for all its elements.

    >>> import einalg as ea
    >>> as_symbolic_program(ea.tensor("A", ("N", 4)))
    O[i:N, j:4] = A[i, j]
    """
    if isinstance(expression, Tensor):
        expression = whole_tensor(expression)
    if isinstance(expression, Program):
        return expression
    if isinstance(expression, Scope):
        while name in expression.tensors:
            name += "_"
        return Program([(name, expression)])
    remedy = "e.g. ea.L[i](A[i])"
    if isinstance(expression, str):
        remedy = "read it with ea.parse(text, A=(4, 5))"
    raise NotationError(
        "expected a tensor expression (a scope or a program), not "
        f"{type(expression).__name__}\n"
        f"  {remedy}"
    )


def whole_tensor(tensor: Tensor) -> Scope:
    """Return the scope of all elements of a tensor.

    >>> import einalg as ea
    >>> whole_tensor(ea.tensor("A", ("i", 4)))
    L[j:i, k:4](A[j, k])
    """
    sizes = tensor.sizes
    names = [*"ijklmnpq", *(f"i{number}" for number in range(tensor.rank + len(sizes)))]
    indices = [Index(name) for name in names if name not in sizes][: tensor.rank]
    iterators = [LoopIndex(index, low, high) for index, (low, high) in zip(indices, tensor.box)]
    return Scope(iterators, (), Access(tensor, indices))


def require_names(unnamed: Sequence[Any], inputs: Iterable[str]) -> None:
    """Raise `UseError` for arrays that are given without the names of their tensors."""
    if unnamed:
        usage = ", ".join(f"{name}=…" for name in inputs) or "none: there is no input"
        raise UseError(f"arrays are given by name\n  write {usage}")


def inlined(program: Program, output: str | None = None, *, in_order: bool = True) -> Scope:
    """Return one statement as a single nested scope: every read of a named statement reads its
    scope instead.

    Without `in_order`, terms and factors stay in the order in which the statement has them: an
    equal scope, which is made in less time and printed otherwise.
    """
    known: dict[str, Scope] = {}
    for name, scope in program.statements:
        known[name] = substitute_tensors(scope, known, in_order=in_order)
    if output:
        return known[output]
    if len(program.outputs) == 1:
        return known[program.outputs[0]]
    return program.result


def substitute_tensors(scope: Scope, values: Mapping[str, Any], *, in_order: bool = True) -> Scope:
    """Replace tensors by name, at any depth, by other readables of the same box; `in_order` as in
    `inlined`.
    """

    def change(access: Access) -> Access:
        base = access.tensor
        if isinstance(base, Scope):
            return access
        value = values.get(base.name, base)
        if value is base:
            return access
        return rebased(access, value)

    if not values:
        return scope
    return substitute_accesses(scope, change, in_order=in_order)


def substitute_accesses(
    scope: Scope, change: Callable[[Access], Access], *, in_order: bool = True
) -> Scope:
    """Replace accesses at any depth; one of a scope is asked for with that scope changed already.
    `in_order` as in `inlined`.
    """
    memo: dict[Scope, Scope] = {}  # not by identity: a scope may be spelled twice

    def changed(access: Access) -> Access:
        inner = memo.get(access.tensor)
        if inner is not None and inner is not access.tensor:
            access = rebased(access, inner)
        return change(access)

    for node in all_scopes(scope):
        body = map_accesses(node.body, changed, in_order=in_order)
        memo[node] = node
        if body is not node.body:
            memo[node] = Scope(node.iterators, node.where, body)
    return memo[scope]


def in_order(statements: Iterable[tuple[str, Scope]]) -> list[tuple[str, Scope]]:
    """Return statements in an order in which each comes after those that it reads.

    None is moved further forward than others need it.
    """
    scopes = dict(statements)
    ordered: dict[str, Scope] = {}
    for name in scopes:
        pending = [name]
        while pending:
            last = pending[-1]
            read = scopes[last].tensors
            missing = [name for name in read if name in scopes and name not in ordered]
            if last in ordered or not missing:
                ordered[last] = scopes[last]
                pending.pop()
            pending += missing
    return list(ordered.items())


def as_stored(scope: Scope) -> Scope:
    """Return a scope whose elements are rounded to its type where that has 16 bits.

    So the values of a statement are, once they are stored; read in place, they are the same.

    >>> import einalg as ea
    >>> as_stored(ea.parse("O[i] = 2*A[i]", A=ea.tensor("A", (4,), "f16")))
    L[i:4](f16(2*A[i]))
    """
    if scope.dtype not in HALVES or is_of_type(scope.body, scope.dtype):
        return scope
    return Scope(scope.iterators, scope.where, converted(scope.body, scope.dtype))


def _unread(pairs: tuple[tuple[str, Scope], ...]) -> tuple[str, ...]:
    """Return the names of the statements that no other reads."""
    read: set[str] = set()
    for _, scope in pairs:
        for name, tensor in scope.tensors.items():
            if tensor.role == "intermediate":
                read.add(name)
    return tuple(name for name, _ in pairs if name not in read)


def _check_order(program: Program) -> None:
    """Check that every statement reads inputs and statements before it."""
    known: dict[str, Tensor] = {}
    inputs: dict[str, Tensor] = {}
    names = set(program.names)
    for name, scope in program.statements:
        for used, tensor in scope.tensors.items():
            if tensor.role == "intermediate":
                _check_read(name, tensor, known.get(used))
                continue
            add_tensor(inputs, tensor)
            if used in names:
                raise NotationError(
                    f"{used} is an input of statement {name} and also the name of a "
                    "statement\n"
                    "  rename one of them"
                )
        known[name] = statement_tensor(name, scope)


def _check_read(name: str, tensor: Tensor, assigned: Tensor | None) -> None:
    """Check a read of a statement; `assigned` is its tensor, None where it comes later."""
    if assigned is None:
        raise NotationError(
            f"statement {name} reads {tensor.name} before it is assigned\n"
            f"  write the statement {tensor.name} first"
        )
    if assigned != tensor:
        raise NotationError(
            f"statement {name} reads {tensor.name} with another shape or dtype than it has\n"
            f"  read it as it is: shape {assigned.shape}, dtype {assigned.dtype}"
        )


def in_double(program: Program) -> Program:
    """Return the same program with its floating-point tensors, and so everything computed from
    them, in double precision. Statements of 16 bits are rounded to their type.
    """
    wide = {name: as_double(tensor) for name, tensor in program.tensors.items()}
    statements = []
    for name, scope in program.statements:
        widened = substitute_tensors(as_stored(scope), wide)
        statements.append((name, widened))
        wide[name] = statement_tensor(name, widened)
    return Program(statements, program.outputs)


def as_double(tensor: Tensor) -> Tensor:
    """Return a floating-point tensor in double precision; any other as it is."""
    if not is_float(tensor.dtype):
        return tensor
    if isinstance(tensor, Constant):
        return tensor.as_dtype("f64")
    return Tensor(tensor.name, tensor.axes, "f64", tensor.role)
