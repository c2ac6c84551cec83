"""Parser of the text notation: a subset of Python's grammar, read with `ast` (design §4)."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, NamedTuple

from sympy import Expr

from einalg.boundary import public, warn
from einalg.errors import NotationError, RepeatedTermWarning
from einalg.language.analysis.validate import check_scope
from einalg.language.index.affine import Index
from einalg.language.index.size import (
    Size,
    as_extent,
    by_name,
    check_names,
    largest,
    sizes_in,
)
from einalg.language.ir.body import Reduce
from einalg.language.ir.program import Program, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope, all_scopes
from einalg.language.ir.tensor import Indexable, Tensor, unpadded
from einalg.language.ir.traversal import accesses, reductions
from einalg.language.node import forget_evaluations
from einalg.language.notation.expression_parser import ExpressionParser
from einalg.language.notation.range_inference import build_scope
from einalg.language.notation.source import SourceText, repaired

# The name of a statement, and of what is subscripted or padded.
STATEMENT_NAME = re.compile(r"\s*[^\W\d]\w*")
READ_NAME = re.compile(r"[^\W\d]\w*(?=[\[.])")
ParsedLines = dict[Any, tuple[list[str], Scope]]  # by the line without the names of tensors
STATEMENT = "write NAME[indices] = body, NAME[indices] += body or NAME = L[...](...)"


@public
def parse(text: str, /, **tensors: Any) -> Any:
    """Read an expression or a program from text; `tensors` gives the shape, or the tensor, for each
    free name; those that the text does not name are left aside, so that several texts can share
    them.

    One statement or expression gives a scope, several lines a program, whose outputs are the
    statements that no other reads, or those that a last line names: `h, c`. Raises `NotationError`
    with a caret under the place, or `RangeError` where the ranges do not fit.

    >>> parse("O[n,f] += A[n,c] * K[f,c]", A=(8, 3), K=(4, 3)).shape
    (8, 4)
    """
    forget_evaluations()
    source = SourceText(text)
    known, sizes = {}, {}
    for name, value in tensors.items():
        if isinstance(value, Size):
            sizes[name] = value
        else:
            known[name] = _as_tensor(name, value)
    try:
        return _StatementParser(source, known, sizes=sizes).module(source.module())
    except RecursionError:
        raise NotationError(
            "the expression is nested too deeply to be read\n  name the inner parts: T[i] = ..."
        ) from None


def parse_lines(lines: Iterable[str], tensors: Mapping[str, Tensor]) -> list[tuple[str, Scope]]:
    """Read the statements of a program that may be longer than a text that is read at once: one in
    each line.

    >>> parse_lines(["T[i] = A[i]*2", "O[i] = T[i] + A[i]"], {"A": Tensor("A", (4,))})
    [('T', L[i:4](2*A[i])), ('O', L[i:4](A[i] + T[i]))]
    """
    forget_evaluations()
    reader, statements = _StatementParser(SourceText(""), dict(tensors)), list[tuple[str, Scope]]()
    for line in lines:
        try:
            statements += reader.line(line)
        except RecursionError:
            raise NotationError(
                "a statement is nested too deeply to be read\n  name the inner parts: T[i] = ..."
            ) from None
    return statements


def line_reader() -> Callable[[str, Mapping[str, Tensor]], Scope]:
    """Return what reads the statements of a program one by one, in any order, each with the tensors
    that it reads.

    >>> line_reader()("O[i] = T[i] + A[i]", {"T": Tensor("T", (4,)), "A": Tensor("A", (4,))})
    L[i:4](A[i] + T[i])
    """
    parsed: ParsedLines = {}

    def read(line: str, tensors: Mapping[str, Tensor]) -> Scope:
        ((_, scope),) = _StatementParser(SourceText(""), dict(tensors), parsed).line(line)
        return scope

    return read


def parse_value(text: str) -> Any:
    """Read an index form or a condition from text; every name is an index.

    >>> parse_value("2*h + r - 1")
    2*h + r - 1
    """
    source = SourceText(text)
    body = source.module().body
    if len(body) != 1 or not isinstance(body[0], ast.Expr):
        raise NotationError(f"{text!r} is not one index form or condition\n  e.g. 2*h + r - 1")
    try:
        reader = ExpressionParser(source, {}, body[0])
        reader.bound |= {word.id for word in reader.words}
        return reader.value(body[0].value)
    except RecursionError:
        raise NotationError(
            "the index form is nested too deeply to be read\n  shorten it"
        ) from None


def _as_tensor(name: str, value: Any) -> Any:
    if isinstance(value, Indexable):
        return value
    shape = value
    is_word = isinstance(value, str) and value.isidentifier()
    if isinstance(value, int) or is_word or as_extent(value) is not None:
        shape = (value,)
    return Tensor(name, shape)


def _sizes(tensor: Any) -> Iterable[Size]:
    return unpadded(tensor).sizes.values()


class _StatementParser:
    """Reads statement by statement; each one's result is a tensor for the next."""

    def __init__(
        self,
        source: SourceText,
        tensors: dict[str, Any],
        parsed: ParsedLines | None = None,
        sizes: Mapping[str, Size] = MappingProxyType({}),
    ):
        self.source, self.tensors = source, tensors
        self.sizes = dict(sizes)
        in_shapes = [size for tensor in tensors.values() for size in _sizes(tensor)]
        if in_shapes:
            check_names([*in_shapes, *self.sizes.values()])
        self.sizes.update(by_name(in_shapes))
        self.scopes: dict[str, Scope] = {}
        self.names_read: set[str] = set()
        self.below: Sequence[ast.stmt] = ()  # statements that are not read yet
        self.parsed: ParsedLines = {}
        if parsed is not None:
            self.parsed = parsed

    def module(self, module: ast.Module) -> Any:
        """Read a text: a scope, or a program."""
        if not module.body:
            raise NotationError("the text is empty\n  write a statement, e.g. O[i] += A[i,j]*x[j]")
        *rest, last = module.body
        if not rest and isinstance(last, ast.Expr) and not isinstance(last.value, ast.Compare):
            return self.expression(last)
        outputs = _names(last)
        if outputs is not None:
            return self.with_outputs(self.statements(rest), last, outputs)
        statements = self.statements(module.body)
        if len(statements) == 1:
            return statements[0][1]
        # A read counts that SymPy leaves out, as in `0*T[i]`: the text has it.
        return Program(statements, [name for name, _ in statements if name not in self.names_read])

    def statements(self, nodes: Sequence[ast.stmt]) -> list[tuple[str, Scope]]:
        """Read statements, each of which may read those before it."""
        statements: list[tuple[str, Scope]] = []
        for number, node in enumerate(nodes, 1):
            self.below = nodes[number:]
            statements.append(self.statement(node))
        return statements

    def line(self, text: str) -> list[tuple[str, Scope]]:
        """Read the statements of a line; lines that differ in the names of tensors alone, as those
        of equal layers do, are parsed once.
        """
        name, reads, key = self.signature(text)
        if name not in self.tensors and key in self.parsed:
            names, scope = self.parsed[key]
            renamed = {old: self.tensors[new] for old, new in zip(names, reads) if old != new}
            return [self.define(name, substitute_tensors(scope, renamed))]
        self.source = SourceText(text)
        statements = [self.statement(node) for node in self.source.module().body]
        if len(statements) == 1 and statements[0][0] == name:
            self.parsed[key] = reads, statements[0][1]
        return statements

    def signature(self, text: str) -> tuple[str, list[str], Any]:
        """Return the name that a line assigns, the names of the tensors that it reads, and the line
        with numbers for these and with their kinds, e.g. `"[i] = #0[i]*2"`.
        """
        name, rest = "", text
        match = STATEMENT_NAME.match(text)
        if match:
            name, rest = match[0].strip(), text[match.end() :]
        numbers: dict[str, int] = {}

        def number(match: re.Match[str]) -> str:
            if match[0] not in self.tensors:
                return match[0]
            return f"#{numbers.setdefault(match[0], len(numbers))}"

        rest = READ_NAME.sub(number, rest)
        return name, list(numbers), (rest, *map(self.kind, numbers))

    def kind(self, name: str) -> Any:
        """Return all of a tensor but its name, and the points at which it has values."""
        scope = self.scopes.get(name)
        if scope is None or not scope.where:
            return self.tensors[name].kind, None
        return self.tensors[name].kind, (scope.iterators, scope.where)

    def statement(self, node: ast.stmt) -> tuple[str, Scope]:
        """Read a statement, which the next ones may read."""
        target, name = self.left_side(node)
        unread = [name, *_assigned_names(self.below)]
        reader = ExpressionParser(self.source, self.tensors, node, self.sizes, unread)
        if isinstance(target, ast.Subscript):
            scope = self.assigned(reader, node, target)
        else:
            scope = self.named(reader, node, name)
        self.names_read |= reader.names_read
        for inner in all_scopes(scope):
            if any(read in self.scopes and self.scopes[read].where for read in inner.tensors):
                reader.guard(node, check_scope, inner, self.scopes)
        return self.define(name, scope)

    def define(self, name: str, scope: Scope) -> tuple[str, Scope]:
        """Let the next statements read a scope by its name."""
        self.tensors[name], self.scopes[name] = statement_tensor(name, scope), scope
        self.sizes.update(self.tensors[name].sizes)
        return name, scope

    def with_outputs(
        self, statements: list[tuple[str, Scope]], node: ast.stmt, outputs: list[str]
    ) -> Program:
        unknown = [name for name in outputs if name not in self.scopes]
        if unknown:
            known = ", ".join(self.scopes) or "none"
            raise self.source.error(
                node,
                f"the last line names the results, but there is no statement {unknown[0]}\n"
                f"  the statements: {known}",
            )
        if len(set(outputs)) < len(outputs):
            raise self.source.error(node, "the last line names a result twice\n  name each once")
        return Program(statements, outputs)

    def expression(self, node: ast.Expr) -> Scope:
        reader = ExpressionParser(self.source, self.tensors, node, self.sizes)
        value = reader.value(node.value)
        if not isinstance(value, Scope):
            raise self.source.error(
                node, "this is not a whole expression\n  write O[i, ...] = ..., or L[i, ...](...)"
            )
        return value

    def left_side(self, node: ast.stmt) -> tuple[ast.expr, str]:
        """Return what a statement assigns to, and the name that it gives."""
        target = self.target(node)
        name = target.value if isinstance(target, ast.Subscript) else target
        if not isinstance(name, ast.Name) or (name is target and not isinstance(node, ast.Assign)):
            raise self.source.error(target, f"this cannot stand on the left side\n  {STATEMENT}")
        if name.id in self.tensors:
            raise self.source.error(
                name,
                f"{name.id} is already the name of an input or of an earlier statement\n"
                f"  choose another name: {name.id}1",
            )
        return target, name.id

    def target(self, node: ast.stmt) -> ast.expr:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare):
            instead = repaired(self.source.segment(node), 0)
            remedy = STATEMENT if instead is None else f"write {instead}"
            raise self.source.error(node, f"this compares, and a statement assigns\n  {remedy}")
        if isinstance(node, ast.Expr):
            raise self.source.error(
                node,
                "a program is made of statements, and this has no name\n  name it: T = L[...](...)",
            )
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            return node.targets[0]
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            return node.target
        raise self.source.error(node, f"this is not a statement of the notation\n  {STATEMENT}")

    def named(self, reader: ExpressionParser, node: Any, name: str) -> Scope:
        """Read `name = scope`."""
        scope = reader.value(node.value)
        if not isinstance(scope, Scope):
            loose = _unbound([scope], set()) if isinstance(scope, Expr) else []
            indices = ", ".join(map(_name, loose)) or "i:1"
            raise self.source.error(
                node.value,
                "only a scope can be named without indices\n"
                f"  write {name}[{indices}] = {ast.unparse(node.value)}",
            )
        return scope

    def assigned(self, reader: ExpressionParser, node: Any, target: ast.Subscript) -> Scope:
        """Read `name[indices] = body` or `name[indices] += body`."""
        iterators = reader.iterators(target.slice)
        body = reader.body(node.value)
        loose = _unbound([body, *reader.written.here], {it.index for it in iterators})
        is_summed = bool(loose) and isinstance(node, ast.AugAssign)
        if is_summed:
            body = reader.guard(node, Reduce, "Sum", [(index,) for index in loose], None, body)
            reader.written.leave([], body)
        elif loose:
            ranges = ", ".join([*map(str, iterators), loose[0].name])
            message = (
                f"index {loose[0]} is on the right only\n"
                f"  use += to sum over it, or add it to the left: [{ranges}]"
            )
            raise self.source.error(reader.place(loose[0]), message)
        scope = reader.guard(node, build_scope, iterators, body, None, reader.written)
        if is_summed and isinstance(scope.body, Reduce):
            self.warn_of_repeated_terms(node, target, scope.body)
        return scope

    def warn_of_repeated_terms(
        self, node: ast.AugAssign, target: ast.Subscript, total: Reduce
    ) -> None:
        """Warn of terms that read a tensor, but at the same place for every value of an index that
        is summed over, as a bias beside a product does.
        """
        terms = _terms(node.value, tensors=self.tensors, summed=_names_of(total))
        extents = {it.index.name: it.extent for it in total.iterators}
        for term in terms:
            unused = [name for name in extents if name not in term.summed]
            repeats = "*".join(map(str, [extents[name] for name in unused]))
            is_repeated = any(largest(extents[name]) > 1 for name in unused)
            if not sizes_in(extents.values()):
                repeats = prod(extents[name] for name in unused)
                is_repeated = repeats > 1
            if term.sign == "-" or not term.reads or not is_repeated:
                continue
            text = self.source.segment(term.node)
            each = " and ".join(unused)
            whole = self.source.segment(node.value)
            left = self.source.segment(target)
            message = (
                f"{text} is added {repeats} times, once for each {each}\n"
                f"  write {left} = {_summed_apart(terms, self.source)}\n"
                f"  or, if that is meant, {left} = Sum[{', '.join(extents)}]({whole})"
            )
            place = self.source.placed(NotationError(message), term.node)
            warn(str(place), RepeatedTermWarning)


class _Term(NamedTuple):
    """A term of a sum in a text: its sign, the names of the indices that it is summed over, and
    whether it reads a tensor.
    """

    sign: str
    node: ast.expr
    summed: frozenset[str]
    reads: bool


def _terms(
    node: ast.expr, tensors: Mapping[str, Any], summed: frozenset[str], sign: str = "+"
) -> list[_Term]:
    """Return the terms of a sum; one for anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        right_sign = sign
        if isinstance(node.op, ast.Sub):
            right_sign = "-" if sign == "+" else "+"
        left = _terms(node.left, tensors, summed, sign)
        return left + _terms(node.right, tensors, summed, right_sign)
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return [_Term(sign, node, summed & names, not names.isdisjoint(tensors))]


def _names_of(total: Reduce) -> frozenset[str]:
    return frozenset(it.index.name for it in total.iterators)


def _summed_apart(terms: list[_Term], source: SourceText) -> str:
    """Return a sum in which every term is summed over its own indices alone."""
    groups: dict[frozenset[str], str] = {}
    for term in terms:
        before = groups.get(term.summed, "")
        sign = f" {term.sign} " if before else term.sign.replace("+", "")
        groups[term.summed] = f"{before}{sign}{source.segment(term.node)}"
    text = ""
    for names, group in groups.items():
        part = group
        if names:
            part = f"Sum[{', '.join(sorted(names))}]({group})"
        if text and part.startswith("-"):
            text += f" - {part[1:]}"
        else:
            text += f" + {part}" if text else part
    return text


def _assigned_names(nodes: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements give."""
    for node in nodes:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            named = target.value if isinstance(target, ast.Subscript) else target
            if isinstance(named, ast.Name):
                yield named.id


def _names(node: ast.stmt) -> list[str] | None:
    """Return the names of a line that consists of names, or None."""
    if not isinstance(node, ast.Expr):
        return None
    parts = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
    names = []
    for part in parts:
        if not isinstance(part, ast.Name):
            return None
        names.append(part.id)
    return names or None


def _unbound(bodies: list[Any], bound: set[Index]) -> list[Index]:
    """Return the free indices of some bodies in order of first occurrence in their subscripts."""
    free: set[Any] = set()
    for body in bodies:
        free |= {i for i in body.free_symbols if isinstance(i, Index) and not i.is_size} - bound
    ordered: dict[Index, None] = {}
    elsewhere = set(free)
    for body in bodies:
        for access in accesses(body):
            for form in access.subscripts:
                ordered.update(dict.fromkeys(sorted(form.indices & free, key=_name)))
        for reduction in reductions(body):
            elsewhere.difference_update(set(reduction.indices) - bound)
    elsewhere.difference_update(ordered)
    return [*ordered, *sorted(elsewhere, key=_name)]


def _name(index: Index) -> str:
    return index.name
