"""Weight folding: constant factors behind a layer move into its weights, as those of a batch norm.

There is no special case for any normalisation: what follows a product of data and weights is taken
apart as far as it is linear.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sympy

from derive.programs.passes.normalise import is_elementwise
from derive.programs.passes.subprogram import excerpt, is_proven, returned
from derive.rules.algebra import staging
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import EinalgError
from einalg.language.analysis.compile_time import compile_time_constants
from einalg.language.index.affine import Index
from einalg.language.index.convert import affine
from einalg.language.ir.body import Reduce, substitute, with_parts
from einalg.language.ir.dtype_inference import operation_dtype
from einalg.language.ir.dtypes import promote
from einalg.language.ir.program import Program, in_order, statement_tensor, substitute_tensors
from einalg.language.ir.scope import Scope
from einalg.language.ir.tensor import Access, Constant, Tensor
from einalg.language.ir.traversal import accesses


@dataclass(frozen=True)
class Linear:
    """`factor·x + constant + rest` with x a read; the first two depend on constants alone."""

    factor: Any
    constant: Any
    rest: Any

    def scaled(self, factor: Any) -> Linear:
        """Return it with all its terms multiplied by a constant factor."""
        return Linear(self.factor * factor, self.constant * factor, self.rest * factor)


class _Context:
    """The statements of a program, those that read each one, and the names of its constants.

    `used` are all its names. A folding changes two statements, and looks at no others.
    """

    def __init__(self, program: Program):
        self.outputs = program.outputs
        self.statements = dict(program.statements)
        self.used = {*program.names, *program.tensors}
        self.readers: dict[str, set[str]] = {name: set() for name in program.names}
        for reader, scope in program.statements:
            self._reads(reader, scope)
        self.constants = set(compile_time_constants(program))
        for name, tensor in program.tensors.items():
            if isinstance(tensor, Constant):
                self.constants.add(name)
        self._added: dict[str, list[str]] = {}  # statements before another one, by its name

    def change(self, statements: Sequence[tuple[str, Scope]]) -> None:
        """Replace statements; new ones come before the next one that was there."""
        new: list[str] = []
        for name, scope in statements:
            if name not in self.statements:
                new.append(name)
                self.used.add(name)
                self.readers[name] = set()
                if scope.tensors.keys() <= self.constants:
                    self.constants.add(name)
            else:
                self._added.setdefault(name, []).extend(new)
                new = []
                for read in self.statements[name].tensors.keys() & self.readers.keys():
                    self.readers[read].discard(name)
            self.statements[name] = scope
            self._reads(name, scope)

    def program(self, names: Sequence[str]) -> Program:
        """Return the program of the statements of these names and of those that came to them.

        Constants that weights read now come before these, wherever they stood.
        """
        statements: list[tuple[str, Scope]] = []
        for name in names:
            for label in (*self._added.get(name, ()), name):
                statements.append((label, self.statements[label]))
        return Program(in_order(statements), self.outputs)

    def _reads(self, reader: str, scope: Scope) -> None:
        for read in scope.tensors.keys() & self.readers.keys():
            self.readers[read].add(reader)


Place = tuple[Any, Linear]  # a part of a body, and what it is of the read


@dataclass(frozen=True)
class _Folding:
    """A factor behind the layer `name`: the parts of its `reader`'s body that are linear in it.

    Their factors are multiples of `factor`, as in `v/(1 + exp(-v))` with `v = 2*x + 1`.
    """

    name: str
    reader: str
    read: Access
    places: Sequence[Place]
    factor: Any

    def times(self, linear: Linear) -> Any:
        """Return which multiple of the factor a part has."""
        return sympy.cancel(linear.factor / self.factor)


def folded(program: Program, is_late: Callable[[], bool] = lambda: False) -> Program:
    """Return the program with every such factor in the weights of its layer, if that is proven.

    Nothing more is changed once it `is_late`.
    """
    context, is_changed = _Context(program), False
    for name in program.names:
        if is_late():
            break
        folding = _folding_at(context, name)
        if folding is not None:
            statements = _folded(context, folding)
            context.change(statements)
            is_changed |= bool(statements)
    if not is_changed:
        return program
    return context.program(program.names)


def _folding_at(context: _Context, name: str) -> _Folding | None:
    """Return what can be folded into the weights of a statement; None where there is nothing."""
    constants = context.constants
    if name in context.outputs or len(context.readers[name]) != 1:
        return None
    if not _is_product_with_weights(context.statements[name].body, constants):
        return None
    (reader,) = context.readers[name]
    after = context.statements[reader]
    reads = {access for access in accesses(after.body) if _reads(access, name)}
    if len(reads) != 1 or not is_elementwise(after):
        return None
    (read,) = reads
    if not _is_bare(read):
        return None
    places = _linear_places(after.body, read, constants)
    if not places:
        return None
    factor = _without_numbers(places[0][1].factor)
    folding = _Folding(name, reader, read, places, factor)
    if factor == 1 or not all(folding.times(linear).is_number for _, linear in places):
        return None
    return folding


def _without_numbers(factor: Any) -> Any:
    """Return the tensors of a factor: its numbers are as good behind the layer."""
    tensors = [part for part in sympy.Mul.make_args(factor) if not part.is_number]
    return sympy.Mul(*tensors) if tensors else factor


def _reads(access: Access, name: str) -> bool:
    return isinstance(access.tensor, Tensor) and access.tensor.name == name


def _folded(context: _Context, folding: _Folding) -> list[tuple[str, Scope]]:
    """Return the statements with a factor in the weights; none where that is not possible."""
    indices = context.statements[folding.name].indices
    inward = {}
    for subscript, index in zip(folding.read.subscripts, indices):
        inward[subscript.as_index()] = affine(index)
    factor = folding.factor
    used = {symbol for symbol in factor.free_symbols if isinstance(symbol, Index)}
    if not used <= inward.keys():
        return []
    factor = substitute(factor, inward)
    if not _holds(factor, context.statements[folding.name], context.constants):
        return []
    if _is_copied_along(factor, context.statements[folding.name], context.constants):
        return []
    try:
        return _rewritten(context, folding, factor)
    except EinalgError:
        return []


def _is_product_with_weights(body: Any, constants: Set[str]) -> bool:
    """Say whether a body sums products of a factor of constants alone and one of something else."""
    if not isinstance(body, Reduce) or body.op != "Sum":
        return False
    of_constants, of_data = False, False
    for factor in sympy.Mul.make_args(body.body):
        tensors = [access.tensor for access in accesses(factor)]
        names = {tensor.name for tensor in tensors if isinstance(tensor, Tensor)}
        of_constants |= bool(names) and names <= constants
        of_data |= not names <= constants
    return of_constants and of_data


def _is_copied_along(factor: Any, scope: Scope, constants: Set[str]) -> bool:
    """Say whether weights times a factor would have axes that the weights of a layer lack.

    What is one product then becomes one with a matrix of its own for each element of such an axis,
    as where the rows of a product are scaled that are no axis of its weights.
    """
    known: set[Any] = set()
    for part in sympy.Mul.make_args(scope.body.body):
        if _is_constant(part, constants):
            known |= part.free_symbols
    for iterator in scope.iterators:
        index = iterator.index
        if index in factor.free_symbols - known and iterator.high - iterator.low > 1:
            return True
    return False


def _holds(factor: Any, scope: Scope, constants: Set[str]) -> bool:
    """Tell whether the weights of a layer, times a factor, have a type as long as the layer's.

    A product of two numbers of one byte, or of 16 bits, may be none of that type.
    """
    parts = sympy.Mul.make_args(scope.body.body)
    ahead = [part for part in parts if _is_constant(part, constants)]
    dtype = operation_dtype([factor, *ahead])
    return promote(dtype, scope.dtype) == dtype


def _is_bare(access: Access) -> bool:
    """Say whether an access has different bare indices as subscripts, and no padding."""
    bare = [subscript.as_index() for subscript in access.subscripts]
    return access.base is access.tensor and None not in bare and len(set(bare)) == len(bare)


def _linear_places(body: Any, read: Access, constants: Set[str]) -> list[Place]:
    """Return the largest parts of a body that are linear in the read with constant factors.

    Together they hold all its reads; none are returned where something else reads it, too.
    """
    if body == read:
        return [(body, Linear(sympy.S.One, sympy.S.Zero, sympy.S.Zero))]
    if isinstance(body, Access):
        return []
    places: list[Place] = []
    holding = [part for part in body.args if read in set(accesses(part))]
    for part in holding:
        below = _linear_places(part, read, constants)
        if not below:
            return []
        places += below
    is_linear = len(holding) == 1 and [place for place, _ in places] == holding
    if is_linear and isinstance(body, (sympy.Add, sympy.Mul)):
        larger = _larger(body, places[0], constants)
        if larger is not None:
            return [(body, larger)]
    return places


def _larger(body: Any, place: Place, constants: Set[str]) -> Linear | None:
    """Return a sum or a product with a linear part; None where it is not linear itself."""
    holding, linear = place
    constant, rest = [], []
    for part in body.args:
        if part == holding:
            continue
        terms = constant if _is_constant(part, constants) else rest
        terms.append(part)
    if isinstance(body, sympy.Add):
        sums = sympy.Add(linear.constant, *constant), sympy.Add(linear.rest, *rest)
        return Linear(linear.factor, *sums)
    if rest:
        return None
    return linear.scaled(sympy.Mul(*constant))


def _is_constant(part: Any, constants: Set[str]) -> bool:
    """Say whether a part of a body reads constants alone, and binds no index."""
    for access in accesses(part):
        if not isinstance(access.tensor, Tensor) or access.tensor.name not in constants:
            return False
    return not part.atoms(Index) - part.free_symbols


def _rewritten(context: _Context, folding: _Folding, factor: Any) -> list[tuple[str, Scope]]:
    """Return the statements with `factor` in the weights; none where they are not proven equal."""
    name, reader, statements = folding.name, folding.reader, context.statements
    scaled = _scaled(statements[name], factor)
    weights = {}
    for label, tensor in scaled.tensors.items():
        if label in context.constants and tensor.role == "intermediate":
            weights[label] = Tensor(label, tensor.axes, tensor.dtype, "weight")
    staged = _with_staged_factors(substitute_tensors(scaled, weights))
    if staged is None:
        return []
    after = statements[reader]
    new_body = with_parts(after.body, _values(folding, after))
    new_reader = Scope(after.iterators, after.where, new_body)
    names = (name, reader)
    changed = excerpt(ChainMap({name: staged, reader: new_reader}, statements), names)
    if not is_proven(excerpt(statements, names), changed):
        return []
    intermediates = {label: statement_tensor(label, statements[label]) for label in weights}
    own = {name: substitute_tensors(staged, intermediates), reader: new_reader}
    flat = lifted(excerpt(ChainMap(own, statements), names), context.used)
    rows: list[tuple[str, Scope]] = []
    known = ChainMap(dict(flat.statements), statements)
    for label, scope in flat.statements:
        if label in names or label not in statements:
            rows.append((label, returned(scope, known)))
    return rows


def _values(folding: _Folding, scope: Scope) -> dict[Any, Any]:
    """Return what takes the places of the linear parts, where the read is scaled already."""
    first = folding.places[0][1]
    constant = sympy.expand(first.constant / folding.times(first))
    shifted = folding.read + _in_inner_scope(constant, scope)
    values = {}
    for place, linear in folding.places:
        times = folding.times(linear)
        difference = sympy.expand(linear.constant - times * constant)
        if difference.is_number:
            values[place] = times * shifted + difference + linear.rest
        else:
            other = _in_inner_scope(linear.constant, scope)
            values[place] = times * folding.read + other + linear.rest
    return values


def _scaled(scope: Scope, factor: Any) -> Scope:
    """Return a sum with all its terms multiplied by a factor."""
    body: Any = scope.body
    scaled = Reduce(body.op, body.iterators, body.where, body.body * factor)
    return Scope(scope.iterators, scope.where, scaled)


def _with_staged_factors(scope: Scope) -> Scope | None:
    """Return a sum with a product of constant factors computed in a scope of its own."""
    for args in staging.subterms(scope):
        if args.get("factors") is not None and args["reduction"] == 0:
            return staging.stage(scope, **args)
    return None


def _in_inner_scope(constant: Any, scope: Scope) -> Any:
    """Return a constant as an inner scope over its indices, where anything is computed."""
    if constant.is_number or isinstance(constant, Access):
        return constant
    iterators = [it for it in scope.iterators if it.index in constant.free_symbols]
    subscripts = tuple(affine(it.index) for it in iterators)
    return Access.of(Scope(iterators, (), constant), subscripts)
