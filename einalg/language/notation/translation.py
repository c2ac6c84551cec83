"""What to write for functions and signs of Python, NumPy and torch that the notation has not: the
same, with the operands that the text has (design §13).

The grammar tree of a text is translated into one of the notation, which is then written as text.
The tables of names are in `foreign_functions`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from difflib import get_close_matches
from string import ascii_lowercase
from typing import Any

from einalg.language.ir.functions import FUNCTIONS
from einalg.language.notation.foreign_functions import (
    AXIS_KEYWORDS,
    DEFAULTS,
    ELEMENTWISE,
    FOREIGN,
    LETTER_OF_KEYWORD,
    OF_WHOLE_TENSORS,
    ONE_SIDED,
    PRODUCTS,
    REDUCTIONS,
    SOFTMAX,
)
from einalg.language.notation.grammar import BINDERS, CONSTANTS

SHORTEST_MISSPELT = 4  # letters of a name that stands for another one
OTHER_BINDERS = {binder.lower(): binder for binder in BINDERS}
OTHER_BINDERS |= {"σ": "Sum", "π": "Prod"}  # as Σ and Π are in lower case


class Untranslatable(Exception):
    """There is no translation of a part of the text."""


def translated(
    node: ast.expr, statement: ast.AST, tensors: Mapping[str, Any], bound: Iterable[str]
) -> str | None:
    """Return what to write for a part of a statement, or for all of it where that has no indices on
    its left side; None where there is no such thing.

    `tensors` are known by name, `bound` are the names of the indices that the statement binds.
    """
    translator = _Translator(statement, tensors, bound)
    try:
        value: ast.AST = translator.visit(deepcopy(node))
    except Untranslatable:
        return None
    text = ast.unparse(value)
    if text == ast.unparse(node):
        return None
    return translator.with_left_side(text, node, statement)


def element(node: ast.Name, statement: ast.AST, tensors: Mapping[str, Any]) -> str:
    """Return a tensor with subscripts: the last indices of the left side, and else letters."""
    translator = _Translator(statement, tensors, ())
    access = ast.unparse(translator.element(ast.Name(node.id, ast.Load())))
    return translator.with_left_side(access, node, statement)


def unsliced(node: ast.Subscript, statement: ast.AST, bound: Iterable[str]) -> str:
    """Return what to write for an access with slices: an index for each, and what binds it."""
    translator = _Translator(statement, {}, bound)
    names = [n.id for n in ast.walk(node.slice) if isinstance(n, ast.Name)]
    unread = [name for name in translator.left if name not in names]
    entries, bindings = _entries(node.slice), []
    for place, entry in enumerate(entries):
        if not isinstance(entry, ast.Slice):
            continue
        index = unread.pop(0) if unread else translator.fresh()
        entries[place] = ast.Name(index, ast.Load())
        if not _is_whole_slice(entry):
            bounds = [ast.unparse(bound) for bound in (entry.lower, entry.upper) if bound]
            bindings.append(":".join([index, *bounds]))
    written = ast.unparse(ast.Subscript(node.value, _tuple(entries), ast.Load()))
    if not bindings:
        return written
    return f"{written}, and {' and '.join(bindings)} where that is bound"


def _left_side(statement: ast.AST) -> list[str] | None:
    """Return the indices on the left side of a statement; None where it has none."""
    target: Any = getattr(statement, "target", None)
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
    if not isinstance(target, ast.Subscript):
        return None
    names = []
    for entry in _entries(target.slice):
        first = entry.lower if isinstance(entry, ast.Slice) else entry
        if isinstance(first, ast.Name):
            names.append(first.id)
    return names


def _entries(key: ast.expr) -> list[ast.expr]:
    return list(key.elts) if isinstance(key, ast.Tuple) else [key]


class _Translator(ast.NodeTransformer):
    """Translates from the inside to the outside."""

    def __init__(self, statement: ast.AST, tensors: Mapping[str, Any], bound: Iterable[str]):
        self.tensors, self.bound = tensors, set(bound)
        self.left = _left_side(statement) or []
        names = [part.id for part in ast.walk(statement) if isinstance(part, ast.Name)]
        self.used = {*tensors, *self.bound, *names}

    def with_left_side(self, text: str, node: ast.expr, statement: ast.AST) -> str:
        """Return a text, with a left side where it is all of a statement that gives no indices."""
        target: Any = getattr(statement, "targets", [None])[0]
        if node is getattr(statement, "value", None) and isinstance(target, ast.Name):
            return f"{target.id}[{', '.join(self.left)}] = {text}"
        return text

    def fresh(self) -> str:
        """Return a letter that the statement does not use, from k on as products have it."""
        letters = "kjlmnpq" + ascii_lowercase
        name = next(letter for letter in letters if letter not in self.used)
        self.used.add(name)
        return name

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        if isinstance(node.op, ast.MatMult):
            return self.product([self.visit(node.left), self.visit(node.right)])
        self.generic_visit(node)
        if isinstance(node.op, ast.BitXor):
            node.op = ast.Pow()
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        self.generic_visit(node)
        return _filled(ELEMENTWISE["where"], {"a": node.test, "b": node.body, "c": node.orelse})

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        self.generic_visit(node)
        if not all(map(_is_condition, node.values)):
            raise Untranslatable
        joint = ast.BitAnd() if isinstance(node.op, ast.And) else ast.BitOr()
        total, *rest = node.values
        for value in rest:
            total = ast.BinOp(total, joint, value)
        return total

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        self.generic_visit(node)
        if isinstance(node.op, ast.Not):
            if not _is_condition(node.operand):
                raise Untranslatable
            node.op = ast.Invert()
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        base = node.value
        if isinstance(node.slice, ast.List):
            node.slice = _tuple(node.slice.elts)
        if isinstance(base, ast.Attribute) and base.attr in ("T", "mT"):
            turned = _tuple(_entries(node.slice)[::-1])
            return ast.Subscript(base.value, turned, ast.Load())
        self.generic_visit(node)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        """Return a range for `i in range(6)`."""
        self.generic_visit(node)
        if not isinstance(node.ops[0], ast.In):
            return node
        source: Any = node.comparators[0]
        is_range = isinstance(source, ast.Call) and getattr(source.func, "id", "") == "range"
        if not is_range or len(source.args) > 2:
            raise Untranslatable
        bounds = [*source.args, None]
        return ast.Slice(node.left, bounds[0], bounds[1])

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """Return a constant of a module, such as `np.pi`."""
        is_of_a_module = isinstance(node.value, ast.Name) and node.value.id not in self.tensors
        if not is_of_a_module or node.attr not in CONSTANTS:
            raise Untranslatable
        return ast.Name(node.attr, ast.Load())

    def visit_Call(self, node: ast.Call) -> Any:
        called = node.func
        special = self.special_call(node)
        if special is not None:
            return special
        if isinstance(called, ast.Subscript):
            return self.binder(node, called)
        if _is_padding(node):
            node.args = [self.visit(amount) for amount in node.args]
            return node
        name, operands = self.function_and_operands(called, node.args)
        keywords = {keyword.arg or "": keyword.value for keyword in node.keywords}
        if name in self.tensors:
            key = node.args[0] if len(node.args) == 1 else _tuple(node.args)
            return ast.Subscript(ast.Name(name, ast.Load()), key, ast.Load())
        comprehensions = (ast.GeneratorExp, ast.ListComp)
        if name in REDUCTIONS and operands and isinstance(operands[0], comprehensions):
            return self.comprehension(name, operands[0])
        operands = [self.visit(operand) for operand in operands]
        return self.call(_known_name(name), operands, keywords)

    def special_call(self, node: ast.Call) -> ast.expr | None:
        """Return what is written for calls that are no function of numbers: `Sum_j(...)` and
        `Sum(..., j)` for `Sum[j](...)`, `float("inf")` for `inf`, `int(i/2)` for `i//2`.
        """
        name = getattr(node.func, "id", "")
        if name == "range":
            return node
        first = node.args[0] if node.args else None
        if name == "float" and isinstance(first, ast.Constant) and isinstance(first.value, str):
            return ast.parse(first.value, mode="eval").body
        if name == "int" and isinstance(first, ast.BinOp) and isinstance(first.op, ast.Div):
            return ast.BinOp(self.visit(first.left), ast.FloorDiv(), self.visit(first.right))
        binder, _, indices = name.partition("_")
        binder = OTHER_BINDERS.get(binder.lower(), "")
        names = _names(indices.replace("_", "") and indices.split("_"))
        bodies = []
        for operand in node.args:
            if isinstance(operand, ast.Name) and operand.id not in self.tensors:
                names.append(operand)
            else:
                bodies.append(self.visit(operand))
        if not binder or not names or len(bodies) != 1:
            return None
        key = names[0] if len(names) == 1 else _tuple(names)
        bound = ast.Subscript(ast.Name(binder, ast.Load()), key, ast.Load())
        return ast.Call(bound, bodies, [])

    def function_and_operands(
        self, called: ast.expr, arguments: Sequence[ast.expr]
    ) -> tuple[str, list[ast.expr]]:
        """Return the name of a function, of a module or of an object, and what it is applied to."""
        if isinstance(called, ast.Name):
            return called.id, list(arguments)
        if not isinstance(called, ast.Attribute):
            raise Untranslatable
        root = called.value
        while isinstance(root, ast.Attribute):
            root = root.value
        is_of_a_module = isinstance(root, ast.Name) and root.id not in self.tensors
        if is_of_a_module:
            return called.attr, list(arguments)
        return called.attr, [called.value, *arguments]

    def binder(self, node: ast.Call, called: ast.Subscript) -> Any:
        """Return `Sum[...](...)` for the same in another spelling, such as `ea.Sum` and `sum`."""
        node.args = [self.visit(argument) for argument in node.args]
        name: str = getattr(called.value, "attr", getattr(called.value, "id", ""))
        binder = OTHER_BINDERS.get(name.lower())
        if binder is None:
            raise Untranslatable
        called.value = ast.Name(binder, ast.Load())
        return node

    def call(
        self, name: str, operands: list[ast.expr], keywords: Mapping[str, ast.expr]
    ) -> ast.expr:
        if name in PRODUCTS:
            return self.product(operands)
        if name in SOFTMAX:
            return self.softmax(name, operands, keywords)
        if name in ("max", "min") and not keywords and self.compares(operands):
            operands = [self.element(operand) for operand in operands]
            return _function(name.capitalize(), operands)
        if name in REDUCTIONS:
            return self.reduction(name, operands, keywords)
        operands = [self.element(operand) for operand in operands]
        if name in ELEMENTWISE:
            return self.elementwise(name, operands, keywords)
        if name in FUNCTIONS and not keywords:
            return _function(name, operands)
        raise Untranslatable

    def compares(self, operands: Sequence[ast.expr]) -> bool:
        """Return whether an extreme is one of elements, as `max(A[i], 0)` and, where the left side
        has the axes of `A`, `max(A, 0)`; else the second operand is an axis.
        """
        if len(operands) < 2:
            return False
        first = operands[0]
        if isinstance(first, ast.Name) and first.id in self.tensors:
            is_axis = isinstance(operands[1], ast.Constant)
            return not is_axis or self.tensors[first.id].rank == len(self.left)
        return True

    def elementwise(
        self, name: str, operands: list[ast.expr], keywords: Mapping[str, ast.expr]
    ) -> ast.expr:
        values: dict[str, ast.expr] = dict(zip("abc", operands))
        for keyword, value in keywords.items():
            values[LETTER_OF_KEYWORD.get(keyword, keyword)] = value
        for letter, text in DEFAULTS.get(name, {}).items():
            values.setdefault(letter, ast.parse(text, mode="eval").body)
        for template in (ELEMENTWISE[name], *ONE_SIDED.get(name, ())):
            if _letters(template) == values.keys():
                return _filled(template, values)
        raise Untranslatable

    def is_tensor(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.tensors

    def element(self, node: ast.expr) -> ast.expr:
        """Return an operand in which whole tensors are their elements at the indices of the left
        side.
        """
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and part.id in self.tensors:
                self.lengthen_left(self.tensors[part.id].rank)
        return _Elements(self.tensors, self.left).visit(node)

    def lengthen_left(self, rank: int) -> None:
        """Give the left side names for so many axes at least, in the order of the alphabet."""
        for letter in "ij" + ascii_lowercase:
            if len(self.left) >= rank:
                return
            if letter not in self.used:
                self.used.add(letter)
                self.left.append(letter)

    def comprehension(self, name: str, node: Any) -> ast.expr:
        """Return a reduction for `sum(A[i,j] for j in range(6))`."""
        indices: list[ast.expr] = []
        for generator in node.generators:
            if not isinstance(generator.target, ast.Name) or generator.ifs:
                raise Untranslatable
            index = ast.Name(generator.target.id, ast.Load())
            source: Any = generator.iter
            if isinstance(source, ast.Call) and getattr(source.func, "id", "") == "range":
                bounds = [*source.args, None]
                if len(source.args) > 2:
                    raise Untranslatable
                indices.append(ast.Slice(index, bounds[0], bounds[1]))
            else:
                indices.append(index)
        reduced = _Reduced(indices, self.visit(node.elt), None, None)
        return reduced.filled(REDUCTIONS[name])

    def reduction(
        self, name: str, operands: list[ast.expr], keywords: Mapping[str, ast.expr]
    ) -> ast.expr:
        axes = _axes(operands[1:2], keywords)
        if not operands or len(operands) > 2 or axes is None and len(operands) > 1:
            raise Untranslatable
        return self.reduced(operands[0], axes).filled(REDUCTIONS[name])

    def reduced(self, operand: ast.expr, axes: list[int] | None) -> _Reduced:
        """Return an operand with the indices that it is reduced over: of a whole tensor those of
        the axes, else those that nothing binds.
        """
        if isinstance(operand, ast.Name) and operand.id in self.tensors:
            return self.reduced_tensor(operand.id, axes)
        indices = self.free(operand)
        if not indices:
            indices = self.freed(operand)
        sizes = [self.size(operand, index) for index in indices]
        return _Reduced(_names(indices), operand, _product_of(sizes), None)

    def freed(self, operand: ast.expr) -> list[str]:
        """Give the slices of an operand, or its last subscript, an index of its own."""
        accesses = _accesses(operand)
        if not accesses:
            raise Untranslatable
        entries = _entries(accesses[-1].slice)
        places = [k for k, entry in enumerate(entries) if _is_whole_slice(entry)]
        indices = []
        for place in places or [len(entries) - 1]:
            indices.append(self.fresh())
            entries[place] = ast.Name(indices[-1], ast.Load())
        accesses[-1].slice = entries[0] if len(entries) == 1 else _tuple(entries)
        return indices

    def reduced_tensor(self, name: str, axes: list[int] | None) -> _Reduced:
        tensor = self.tensors[name]
        rank = tensor.rank
        reduced = set(range(rank)) if axes is None else {axis % rank for axis in axes if rank}
        self.lengthen_left(rank - len(reduced))
        remaining = iter(self.left)
        subscripts, indices = [], []
        for axis in range(rank):
            if axis in reduced:
                subscripts.append(self.fresh())
                indices.append(subscripts[-1])
            else:
                subscripts.append(next(remaining))
        size = _product_of([tensor.shape[axis] for axis in sorted(reduced)])
        return _Reduced(_names(indices), _access(name, subscripts), size, None)

    def free(self, operand: ast.expr) -> list[str]:
        """Return the names in subscripts that nothing binds, in order."""
        names: dict[str, None] = {}
        for part in _accesses(operand):
            for inner in ast.walk(part.slice):
                if isinstance(inner, ast.Name) and inner.id not in self.bound:
                    names[inner.id] = None
        return [name for name in names if name not in self.tensors]

    def size(self, operand: ast.expr, index: str) -> int | None:
        """Return the size of an axis over which an index runs alone."""
        for part in _accesses(operand):
            tensor = self.tensors.get(getattr(part.value, "id", ""))
            if tensor is None:  # also where it is padded, which has more elements
                continue
            for entry, size in zip(_entries(part.slice), tensor.shape):
                if isinstance(entry, ast.Name) and entry.id == index:
                    return size
        return None

    def softmax(
        self, name: str, operands: list[ast.expr], keywords: Mapping[str, ast.expr]
    ) -> ast.expr:
        """Return the exponential over the sum of all along an axis, the last one by default, of
        what has most axes in the operand.
        """
        if not operands:
            raise Untranslatable
        operand = self.element(operands[0])
        axes = _axes(operands[1:2], keywords) or [-1]
        subscripts = max((_entries(part.slice) for part in _accesses(operand)), key=len, default=[])
        if not -len(subscripts) <= axes[0] < len(subscripts):
            raise Untranslatable
        index = subscripts[axes[0]]
        if not isinstance(index, ast.Name):
            raise Untranslatable
        other = self.fresh()
        again = _Renamed({index.id: other}).visit(deepcopy(operand))
        return _Reduced(_names([other]), operand, None, again).filled(SOFTMAX[name])

    def product(self, operands: list[ast.expr]) -> ast.expr:
        """Return a matrix product, of matrices or vectors, as a sum of products."""
        if len(operands) != 2:
            raise Untranslatable
        one, two = operands
        if not self.is_tensor(one) or not self.is_tensor(two):
            factors = ast.BinOp(self.element(one), ast.Mult(), self.element(two))
            indices = self.free(factors)
            if not indices:
                raise Untranslatable
            return _Reduced(_names(indices), factors, None, None).filled("Sum(a)")
        first, second = (getattr(operand, "id", "") for operand in operands)
        ranks = self.tensors[first].rank, self.tensors[second].rank
        if 0 in ranks:
            raise Untranslatable
        batch = max(ranks) - 2 if min(ranks) > 1 else 0
        rows, columns = min(ranks[0] - 1, 1), min(ranks[1] - 1, 1)
        self.lengthen_left(batch + rows + columns)
        names = self.left[len(self.left) - batch - rows - columns :]
        shared, inner = names[:batch], self.fresh()
        ofs_one = [*shared[len(shared) - max(ranks[0] - 2, 0) :], *names[batch:][:rows], inner]
        ofs_two = [*shared[len(shared) - max(ranks[1] - 2, 0) :], inner]
        ofs_two += names[len(names) - columns :] if columns else []
        factors = ast.BinOp(_access(first, ofs_one), ast.Mult(), _access(second, ofs_two))
        return _Reduced(_names([inner]), factors, None, None).filled("Sum(a)")


class _Reduced:
    """An operand, the indices that it is reduced over, the number of their points if it is known,
    and the operand with other indices.
    """

    def __init__(
        self, indices: list[ast.expr], operand: ast.expr, size: int | None, again: ast.expr | None
    ):
        self.indices, self.operand, self.size, self.again = indices, operand, size, again

    def filled(self, template: str) -> ast.expr:
        """Return a row of `REDUCTIONS` for this operand."""
        values: dict[str, ast.expr] = {"a": self.operand}
        if self.again is not None:
            values["again"] = self.again
        if self.size is not None:
            values["size"] = ast.Constant(self.size)
        elif "size" in template:
            raise Untranslatable
        tree = ast.parse(template, mode="eval").body
        for part in ast.walk(tree):
            if isinstance(part, ast.Call) and getattr(part.func, "id", "") in BINDERS:
                key = self.indices[0] if len(self.indices) == 1 else _tuple(self.indices)
                part.func = ast.Subscript(part.func, key, ast.Load())
        return _Filling(values).visit(tree)


class _Elements(ast.NodeTransformer):
    """Gives whole tensors the last indices of the left side."""

    def __init__(self, tensors: Mapping[str, Any], left: Sequence[str]):
        self.tensors, self.left = tensors, left

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id not in self.tensors:
            return node
        return _access(node.id, self.left[len(self.left) - self.tensors[node.id].rank :])

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        return node

    def visit_Call(self, node: Any) -> Any:
        if _is_padding(node):
            access = self.visit(node.func.value)
            if not isinstance(node.func.value, ast.Name):
                raise Untranslatable
            return ast.Subscript(node, access.slice, ast.Load())
        node.args = [self.visit(argument) for argument in node.args]
        return node


class _Renamed(ast.NodeTransformer):
    """Gives indices other names."""

    def __init__(self, names: Mapping[str, str]):
        self.names = names

    def visit_Name(self, node: ast.Name) -> Any:
        return ast.Name(self.names.get(node.id, node.id), ast.Load())


class _Filling(ast.NodeTransformer):
    """Puts operands in the places of the letters of a template."""

    def __init__(self, values: Mapping[str, ast.expr]):
        self.values = values

    def visit_Call(self, node: ast.Call) -> Any:
        node.args = [self.visit(argument) for argument in node.args]
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        return deepcopy(self.values[node.id]) if node.id in self.values else node


def _filled(template: str, values: Mapping[str, ast.expr]) -> ast.expr:
    return _Filling(values).visit(ast.parse(template, mode="eval").body)


def _letters(template: str) -> set[str]:
    """Return the letters of a template that stand for operands."""
    names = {n.id for n in ast.walk(ast.parse(template)) if isinstance(n, ast.Name)}
    return names & set("abc")


def _function(name: str, operands: list[ast.expr]) -> ast.expr:
    return ast.Call(ast.Name(name, ast.Load()), operands, [])


def _access(name: str, indices: Sequence[str]) -> ast.expr:
    names = _names(indices)
    key = names[0] if len(names) == 1 else _tuple(names)
    return ast.Subscript(ast.Name(name, ast.Load()), key, ast.Load())


def _tuple(entries: Sequence[ast.expr]) -> ast.expr:
    return ast.Tuple(list(entries), ast.Load())


def _names(indices: Iterable[str]) -> list[ast.expr]:
    return [ast.Name(index, ast.Load()) for index in indices]


def _accesses(operand: ast.expr) -> list[ast.Subscript]:
    """Return all that is read with subscripts."""
    return [part for part in ast.walk(operand) if isinstance(part, ast.Subscript)]


def _is_padding(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "pad"


def _is_condition(node: ast.expr) -> bool:
    """Return whether a part of the text is a truth value, as a comparison is."""
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr))
    return isinstance(node, (ast.Compare, ast.Call))


def _is_whole_slice(entry: ast.expr) -> bool:
    return isinstance(entry, ast.Slice) and entry.lower is entry.upper is entry.step is None


def _axes(arguments: Sequence[ast.expr], keywords: Mapping[str, ast.expr]) -> list[int] | None:
    """Return the axes that a reduction names, by place or by keyword; None where it names none."""
    named = [keywords[keyword] for keyword in AXIS_KEYWORDS if keyword in keywords]
    for value in (*named, *arguments):
        try:
            axes = ast.literal_eval(value)
        except ValueError:
            continue
        return list(axes) if isinstance(axes, (tuple, list)) else [axes]
    return None


def _product_of(sizes: Iterable[int | None]) -> int | None:
    total = 1
    for size in sizes:
        if size is None:
            return None
        total *= size
    return total


def _known_name(name: str) -> str:
    """Return the name of a function that is spelt nearly so, in whatever case; else the name."""
    known = [*FUNCTIONS, *FOREIGN]
    if name in known or name in OF_WHOLE_TENSORS:
        return name
    for other in known:
        if other.lower() == name.lower():
            return other
    if len(name) < SHORTEST_MISSPELT:
        return name
    return next(iter(get_close_matches(name, known, 1, 0.8)), name)
