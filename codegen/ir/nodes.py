"""The loop IR: a small immutable tree that schedules write and printers read (design §10).

Index arithmetic is `einalg.language.index.affine` itself; loop variables are its indices.
Subscripts count from 0. Scalar values carry the type in which they are computed. A node says
nothing about a target: `kind` and `space` are names that a printer maps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import cache
from hashlib import sha256
from typing import Any

from einalg.language.index.affine import Affine, Index
from einalg.language.index.constraint import Constraint

# Of fields that hold no parts of a node, as they are written.
_PLAIN_TYPES = frozenset(
    ("str", "int", "bool", "int | float | Fraction", "tuple[int, ...]", "tuple[int, int]")
)


@dataclass(frozen=True, slots=True)
class Buf:
    """An array of `shape` elements of `dtype` in row-major order.

    `space` says where it lives: `global`, `shared` (by the threads of a block), `local` (an array
    of one thread), `reg` (a register, or a row so short that compilers keep it in registers), or
    `vector`: a register for each row of the last axis, whose other subscripts are constants once
    `unroll` loops are written out. `matrix_a`, `matrix_b` and `accumulator` are the fragments of a
    tensor core, which a warp holds together: the last two axes are those of one matrix. A buffer of
    one axis with the name of another one is the flat view of its memory.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    space: str = "global"


@dataclass(frozen=True, slots=True)
class Ref:
    """One element of a buffer: a value where it is read, a place where it is written."""

    buf: Buf
    subscripts: tuple[Affine, ...]

    @property
    def dtype(self) -> str:
        return self.buf.dtype


@dataclass(frozen=True, slots=True)
class Number:
    """A constant: an int, a bool, a float or a `Fraction`, exactly."""

    value: int | float | Fraction
    dtype: str


@dataclass(frozen=True, slots=True)
class IndexNumber:
    """Index arithmetic in the place of a number."""

    form: Affine
    dtype: str = "i64"


@dataclass(frozen=True, slots=True)
class Predicate:
    """Whether all of some conditions on indices hold."""

    conditions: tuple[Constraint, ...]
    dtype: str = "bool"


@dataclass(frozen=True, slots=True)
class Apply:
    """A scalar function, computed in `dtype`.

    As in `add mul div neg max min select lt eq and not cast exp …`.
    """

    op: str
    arguments: tuple[Value, ...]
    dtype: str


Value = Ref | Number | IndexNumber | Predicate | Apply


@dataclass(frozen=True, slots=True)
class MinMax:
    """The `max` or `min` of index expressions: a loop bound that depends on outer loops."""

    op: str
    of: tuple[Affine | MinMax, ...]


Bound = Affine | MinMax


@dataclass(frozen=True, slots=True)
class Alloc:
    """Declare a buffer for the statements that follow it in the same body."""

    buf: Buf


@dataclass(frozen=True, slots=True)
class Store:
    """`ref op value`, where op is `= += *= max min`."""

    ref: Ref
    op: str
    value: Value


@dataclass(frozen=True, slots=True)
class For:
    """Run `body` for `low <= index < high`.

    `range` encloses all values that the index takes in any run of the loop. `kind` says how it
    runs: `seq`, `unroll`, `rolled` (never written out: what steps share is read again, not kept in
    registers), `vec` (steps side by side in vector registers), `par` (shared by threads), `block`,
    `thread`, `warp` (the threads of a warp take each step together), or `lanes`: from 0 to a
    constant, the steps of every statement in one vector register, or as many of its elements.
    """

    index: Index
    low: Bound
    high: Bound
    range: tuple[int, int]
    body: tuple[Statement, ...]
    kind: str = "seq"

    @property
    def extent(self) -> int | None:
        """Return the number of steps; None where it depends on outer loops."""
        if isinstance(self.low, Affine) and isinstance(self.high, Affine):
            steps = self.high - self.low
            if not steps.terms:
                return max(0, steps.const)
        return None


@dataclass(frozen=True, slots=True)
class If:
    """Run `then` where `test` holds, else `orelse`."""

    test: Value
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...] = ()


@dataclass(frozen=True, slots=True)
class Sync:
    """Wait for the other threads of the `block`, or of the `warp`.

    Schedules write none: `codegen.targets.cuda.text.barriers` infers them.
    """

    scope: str = "block"


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Have the cache of a level ask for an element that is used soon, to be written where `write`.

    It may lie past the end of its buffer.
    """

    ref: Ref
    write: bool = False
    level: int = 1


@dataclass(frozen=True, slots=True)
class Transpose:
    """Transpose a square of `size` x `size` elements.

    `rows` rows of it are read from `source` on, `step` elements apart. Its columns, filled up with
    zeros, are written from `target` on, `target_step` elements apart.
    """

    source: Ref
    step: int
    rows: int
    size: int
    target: Ref
    target_step: int


@dataclass(frozen=True, slots=True)
class Outlined:
    """Statements as a function of their own.

    Compilers then give all registers to them, and all to the statements around them.
    """

    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class WarpReduce:
    """Combine the values of `lanes` neighbouring threads of a block by `+= *= max min`.

    Each of them gets the result. `ref` is private to a thread. `lanes` is a power of 2, at most a
    warp.
    """

    ref: Ref
    op: str
    lanes: int


@dataclass(frozen=True, slots=True)
class FragmentFill:
    """Set every element of a fragment, which is given by its leading subscripts."""

    fragment: Ref
    value: Number


@dataclass(frozen=True, slots=True)
class FragmentLoad:
    """Read a fragment from the matrix that begins at `source`.

    It is read row after row of its buffer, or column after column where `turned`.
    """

    fragment: Ref
    source: Ref
    turned: bool = False


@dataclass(frozen=True, slots=True)
class FragmentMma:
    """Add the product of two fragments to a third one."""

    sums: Ref
    left: Ref
    right: Ref


@dataclass(frozen=True, slots=True)
class FragmentStore:
    """Write a fragment to the matrix that begins at `target`."""

    target: Ref
    fragment: Ref


Statement = (
    Alloc
    | Store
    | For
    | If
    | Sync
    | Prefetch
    | Transpose
    | Outlined
    | WarpReduce
    | FragmentFill
    | FragmentLoad
    | FragmentMma
    | FragmentStore
)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Function:
    """One kernel: it reads `inputs` and writes every element of `output`.

    The output overlaps none of the inputs. `packs` compute some of these from compile-time
    constants.
    """

    name: str
    inputs: tuple[Buf, ...]
    output: Buf
    body: tuple[Statement, ...]
    comment: str = ""
    packs: tuple[Function, ...] = ()


def children(node: Any) -> list[Any]:
    """Return the IR nodes and index expressions directly below a node."""
    found = []
    for name in _names_of_parts(type(node)):
        value = getattr(node, name)
        if isinstance(value, tuple):
            found += [part for part in value if _is_part(type(part))]
        elif _is_part(type(value)):
            found.append(value)
    return found


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _names_of_parts(kind: type) -> tuple[str, ...]:
    """Return the fields of a kind that may hold parts of a node."""
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind) if field.type not in _PLAIN_TYPES)
    return ()


@cache
def _is_part(kind: type) -> bool:
    return issubclass(kind, (Affine, Constraint, Index)) or is_dataclass(kind)


def walk(node: Any) -> Iterator[Any]:
    """Yield a node and everything below it, outer before inner."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        below = children(node)
        below.reverse()
        waiting += below


def value_parts(value: Value) -> Iterator[Value]:
    """Yield a value and all that it is computed from, without subscripts; larger parts first."""
    yield value
    if isinstance(value, Apply):
        for argument in value.arguments:
            yield from value_parts(argument)


def text(node: Any) -> str:
    """Return a node spelled out in full, equal exactly for equal nodes.

    >>> text(Store(Ref(Buf("O", (4,), "f32"), (Affine(2),)), "=", Number(1, "f32")))
    "Store(Ref(Buf('O', (4,), 'f32', 'global'), (2,)), '=', Number(1, 'f32'))"
    """
    if isinstance(node, tuple):
        return "(" + "".join(f"{text(part)}," for part in node) + ")"
    if is_dataclass(node):
        parts = [text(getattr(node, name)) for name in _names(type(node))]
        return f"{type(node).__name__}({', '.join(parts)})"
    if isinstance(node, (Affine, Constraint, Index)):
        return str(node)
    return repr(node)


def content_hash(node: Any) -> str:
    """Return the key of a node in every cache: 64 hexadecimal digits."""
    return sha256(text(node).encode()).hexdigest()
