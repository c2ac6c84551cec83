"""Register tiles and vectors as C (design §10).

These are `lanes` loops, `vector` buffers, and the unrolled loops that name the rows of tiles.
Nothing is left to the compiler's own vectoriser: a register tile is one vector variable for each of
its rows, a `lanes` loop one vector statement. Vectors are those of the GNU C language, which gcc
and clang translate for any machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

from codegen.ir.nodes import Apply, Buf, For, Number, Ref, Statement, Store, Transpose, Value
from codegen.ir.substitute import substituted
from codegen.ir.types import bytes_of, computed
from codegen.targets.c.functions.lanes import (
    BOUNDS,
    COMPARISONS,
    lane_function,
    mask_type,
    vector_declaration,
    vector_type,
)
from codegen.targets.c.functions.names import C_TYPES
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

VECTOR_NAME = re.compile(r"[fiu]\d+x\d+u?")
# Keeps what is addressed in memory from being one with the sums, which would be in memory then too.
KEEP_IN_MEMORY = '__asm__("" : "+m"({}));'
# Keeps what is read in its register: each use of it might read memory again otherwise.
KEEP_IN_REGISTER = """\
#if defined(__{feature}__)
#define held_{bytes}(vector) __asm__("" : "+v"(vector))
#elif defined(__aarch64__) && {bytes} == 16
#define held_{bytes}(vector) __asm__("" : "+w"(vector))
#else
#define held_{bytes}(vector) (void)0
#endif"""
X86_FEATURES = {
    16: "SSE2",
    32: "AVX",
    64: "AVX512F",
}  # by the bytes of the registers that they have
OPERATORS = {"mul": "*", "add": "+", "div": "/"}
SHUFFLE_MACRO = """\
#ifdef __clang__
#define shuffled(a, b, places, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define shuffled(a, b, places, ...) __builtin_shuffle(a, b, (places){__VA_ARGS__})
#endif"""


class Scalars(Protocol):
    """The part of the printer of scalar statements that vectors need."""

    stores: Mapping[str, str]

    def names(self, kind: str, name: str) -> str: ...
    def line(self, text: str) -> None: ...
    def ref(self, ref: Ref) -> str: ...
    def operand(self, value: Value, dtype: str) -> str: ...
    def need(self, text: str) -> None: ...


def is_tile(buf: Buf) -> bool:
    return buf.space == "vector"


# Unrolled loops.


def unrolled_nest(loop: For) -> tuple[list[For], tuple[Statement, ...]] | None:
    """Return unrolled loops around nothing but `lanes` loops, and what is inside them.

    None where C unrolls them itself: no index of theirs names a row of a tile.
    """
    nest, body = [loop], loop.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind == "unroll":
        nest.append(body[0])
        body = body[0].body
    if not all(isinstance(s, For) and s.kind == "lanes" for s in body):
        return None
    named = _tile_indices(body)
    if loop.extent == 1 or any(inner.index in named for inner in nest):
        return nest, body
    return None


def _tile_indices(body: Sequence[Statement]) -> set[Index]:
    """Return the indices that name the rows of register tiles."""
    indices: set[Index] = set()
    for ref in references(body):
        if is_tile(ref.buf):
            indices |= _indices(ref)
    return indices


def _indices(ref: Ref) -> set[Index]:
    """Return the indices in the subscripts of a reference."""
    indices: set[Index] = set()
    for subscript in ref.subscripts:
        indices |= subscript.indices
    return indices


def unrolled_bodies(
    nest: Sequence[For], body: tuple[Statement, ...]
) -> Iterator[tuple[Statement, ...]]:
    """Yield the body of some loops of constant bounds, once for each step."""
    ranges = []
    for loop in nest:
        assert isinstance(loop.low, Affine)
        ranges.append(range(loop.low.const, loop.low.const + (loop.extent or 0)))
    for place in product(*ranges):
        values = {loop.index: affine(value) for loop, value in zip(nest, place)}
        yield tuple(substituted(statement, values) for statement in body)


def references(nodes: Sequence[Any]) -> Iterator[Ref]:
    """Yield the elements that statements and values of products read and write."""
    for node in nodes:
        if isinstance(node, Ref):
            yield node
        elif isinstance(node, Store):
            yield from references((node.ref, node.value))
        elif isinstance(node, Apply):
            yield from references(node.arguments)
        elif isinstance(node, For):
            yield from references(node.body)


# The text at the head of a file.


def element_size(dtype: str) -> int:
    """Return the bytes of an element in the type in which it is computed."""
    return bytes_of(computed(dtype))


def transpose_function(dtype: str, width: int) -> str:
    """Return the C function that transposes a square of `width` × `width` elements.

    In each step, halves of blocks change places.

    >>> lines = transpose_function("f32", 2).splitlines()
    >>> for part in next(line for line in lines if "shuffled" in line).strip("{ }").split("; "):
    ...     print(part)
    const f32x2 a = v0, b = v1
    v0 = shuffled(a, b, places, 0, 2)
    v1 = shuffled(a, b, places, 1, 3);
    """
    kind, element = vector_type(computed(dtype), width), C_TYPES[computed(dtype)]
    arguments = f"const {element} *from, int64_t step, int rows, {element} *to, int64_t to_step"
    attributes = "__attribute__((always_inline))"
    mask = f"typedef int{8 * element_size(dtype)}_t places"
    rows = ", ".join(f"v{k} = {{0}}" for k in range(width))
    lines = [
        f"static inline {attributes} void turn_{kind}({arguments}) {{",
        f"  {mask} __attribute__((vector_size(sizeof({kind})), unused));",
        f"  {kind} {rows};",
    ]
    for k in range(width):
        lines.append(f"  if (rows > {k}) v{k} = *({kind}u *)&from[{k} * step];")
    distance = 1
    while distance < width:
        lines += _exchanges(kind, width, distance)
        distance *= 2
    for k in range(width):
        lines.append(f"  *({kind}u *)&to[{k} * to_step] = v{k};")
    return "\n".join([*lines, "}"])


def _exchanges(kind: str, width: int, distance: int) -> Iterator[str]:
    """Yield one step of a transposition: rows at a distance exchange blocks of so many elements."""
    low, high = [], []
    for k in range(width):
        if k & distance:
            low.append(width + k - distance)
            high.append(width + k)
        else:
            low.append(k)
            high.append(k + distance)
    firsts, seconds = ", ".join(map(str, low)), ", ".join(map(str, high))
    for k in range(width):
        if not k & distance:
            one, two = f"v{k}", f"v{k + distance}"
            yield (
                f"  {{ const {kind} a = {one}, b = {two};"
                f" {one} = shuffled(a, b, places, {firsts});"
                f" {two} = shuffled(a, b, places, {seconds}); }}"
            )


# Statements.


class Vectors:
    """Prints the statements of a `lanes` loop, each as one vector statement.

    Where memory is not in order, elements pass through a temporary vector.
    """

    def __init__(self, scalars: Scalars):
        self.scalars = scalars

    def tile(self, buf: Buf) -> None:
        """Declare a register tile."""
        rows = []
        for place in product(*map(range, buf.shape[:-1])):
            rows.append(self.scalars.names("reg", _row_name(buf, place)))
        self.scalars.line(f"{self.type(buf.dtype, buf.shape[-1])} {', '.join(rows)};")

    def turn(self, turn: Transpose) -> None:
        """Transpose a square of elements."""
        dtype, size, ref = turn.source.dtype, turn.size, self.scalars.ref
        declared = vector_declaration(computed(dtype), size)
        self.scalars.need(f"{declared}\n{SHUFFLE_MACRO}\n{transpose_function(dtype, size)}")
        source, target = f"&{ref(turn.source)}", f"&{ref(turn.target)}"
        name = f"turn_{self.type(dtype, size)}"
        self.scalars.line(
            f"{name}({source}, {turn.step}, {turn.rows}, {target}, {turn.target_step});"
        )

    def loop(self, loop: For) -> None:
        """Print a `lanes` loop."""
        assert loop.extent is not None and isinstance(loop.low, Affine) and not loop.low.terms
        width = 1 << (loop.extent - 1).bit_length()
        for ref in references(loop.body):
            if is_tile(ref.buf):
                width = ref.buf.shape[-1]
                break
        lanes = _VectorLoop(self, self.scalars, loop.index, loop.extent, width)
        for statement in loop.body:
            assert isinstance(statement, Store)
            lanes.put(statement)

    def type(self, dtype: str, width: int) -> str:
        """Return the C type of a vector, which the file then declares."""
        self.scalars.need(vector_declaration(computed(dtype), width))
        return vector_type(computed(dtype), width)


def _row_name(buf: Buf, place: Sequence[int]) -> str:
    """Return the variable of a row of a register tile: `acc_0_3`."""
    return "_".join([buf.name, *map(str, place)])


@dataclass(frozen=True)
class _VectorLoop:
    """One `lanes` loop: `extent` steps in vectors of `width` elements."""

    vectors: Vectors
    scalars: Scalars
    index: Index
    extent: int
    width: int

    def put(self, put: Store) -> None:
        """Print an assignment."""
        dtype = computed(put.ref.dtype)
        if self.is_short_copy(put):
            target, source = self.first(put.ref), self.first(put.value)
            return self.scalars.line(f"{self.copied_bytes(target, source, dtype)};")
        lines: list[str] = []  # temporaries, then the assignment
        value = self.value(put.value, dtype, lines)
        target = None
        if not self.is_rounded(put.ref):
            target = self.place(put.ref)
        if target is not None and put.op in BOUNDS:
            lines.append(f"{target} = {self.function(put.op, dtype)}({value}, {target});")
        elif target is not None:
            lines.append(f"{target} {put.op} {value};")
            lines += self.kept_in_register(put, target)
        else:
            assert put.op == "="
            lines.append(f"{self.vectors.type(dtype, self.width)} whole = {value};")
            lines += [KEEP_IN_MEMORY.format("whole"), self.store(put.ref, dtype)]
        if len(lines) > 1:
            lines = ["{", *lines, "}"]
        for line in lines:
            self.scalars.line(line)

    def copied_bytes(self, target: str, source: str, dtype: str) -> str:
        """Return the call that copies the elements of the loop."""
        return f"__builtin_memcpy(&{target}, &{source}, {self.extent * element_size(dtype)})"

    def kept_in_register(self, put: Store, target: str) -> list[str]:
        """Return the line that keeps a row of a tile in its register after it was read."""
        size = self.width * element_size(put.ref.dtype)
        value = put.value
        if isinstance(value, Apply) and value.op == "neg":
            (value,) = value.arguments
        if not isinstance(value, Ref) or put.op != "=" or not is_tile(put.ref.buf):
            return []
        if size not in X86_FEATURES:
            return []
        self.scalars.need(KEEP_IN_REGISTER.format(feature=X86_FEATURES[size], bytes=size))
        return [f"held_{size}({target});"]

    def is_short_copy(self, put: Store) -> bool:
        """Return whether bytes move as they are, fewer than a vector has."""
        if put.op != "=" or self.extent == self.width or not isinstance(put.value, Ref):
            return False
        if put.ref.dtype != put.value.dtype:
            return False
        return self.is_row(put.ref) and self.is_row(put.value)

    def is_row(self, ref: Ref) -> bool:
        """Return whether the steps of the loop visit neighbours in memory."""
        return not is_tile(ref.buf) and self.is_vector(ref) and self.in_order(ref)

    def value(self, value: Value, dtype: str, before: list[str]) -> str:
        """Return the C text of a vector; lines that it needs are added to those `before` it."""
        if not self.is_vector(value):
            zero = f"({self.vectors.type(dtype, self.width)}){{0}}"
            if isinstance(value, Number) and value.value == 0:
                return zero
            return f"{zero} + {self.scalars.operand(value, dtype)}"
        if isinstance(value, Ref):
            return self.place(value) or self.load(value, dtype, before)
        assert isinstance(value, Apply)
        return self.application(value, dtype, before)

    def application(self, value: Apply, dtype: str, before: list[str]) -> str:
        """Return the C text of a function of vectors."""
        if value.op in OPERATORS:
            operands = [self.operand(a, dtype, before) for a in value.arguments]
            return f" {OPERATORS[value.op]} ".join(operands)
        if value.op == "neg":
            return f"-{self.operand(value.arguments[0], dtype, before)}"
        if value.op == "ipow":
            base, exponent = value.arguments
            assert isinstance(exponent, Number)
            return " * ".join([self.operand(base, dtype, before)] * int(exponent.value))
        if value.op in BOUNDS:
            return self.extreme(value, dtype, before)
        if value.op == "select":
            test, *cases = value.arguments
            texts = [self.mask(test, dtype, before), *(self.value(c, dtype, before) for c in cases)]
            return f"{self.function('chosen', dtype)}({', '.join(texts)})"
        texts = [self.value(a, dtype, before) for a in value.arguments]
        return f"{self.function(value.op, dtype)}({', '.join(texts)})"

    def function(self, name: str, dtype: str) -> str:
        """Return the name of a function of vectors, which the file then has."""
        self.scalars.need(lane_function(name, dtype, self.width))
        return f"{name}_{vector_type(dtype, self.width)}"

    def extreme(self, value: Apply, dtype: str, before: list[str]) -> str:
        """Return a maximum or minimum, of two at a time; a number is no NaN."""
        first, *others = value.arguments
        text, is_number = self.value(first, dtype, before), isinstance(first, Number)
        for other in others:
            name = value.op
            if is_number:
                name = BOUNDS[value.op]
            text = f"{self.function(name, dtype)}({text}, {self.value(other, dtype, before)})"
            is_number = False
        return text

    def mask(self, test: Value, dtype: str, before: list[str]) -> str:
        """Return the C text of a comparison of vectors."""
        assert isinstance(test, Apply) and test.op in COMPARISONS
        left, right = (self.value(a, dtype, before) for a in test.arguments)
        mask = self.vectors.type(mask_type(dtype), self.width)
        return f"({mask})(({left}) {COMPARISONS[test.op]} ({right}))"

    def operand(self, value: Value, dtype: str, before: list[str]) -> str:
        """Return a vector, or a number for all its elements, as an operand of an operator."""
        if self.is_vector(value):
            text = self.value(value, dtype, before)
        else:
            text = self.scalars.operand(value, dtype)
        if isinstance(value, Apply):
            return f"({text})"
        return text

    def is_vector(self, value: Value) -> bool:
        """Return whether a value differs from one step of the loop to the next."""
        return any(self.index in _indices(ref) for ref in references((value,)))

    def place(self, ref: Ref) -> str | None:
        """Return a vector variable, or memory that holds a whole vector in order; else None."""
        if is_tile(ref.buf):
            place = [subscript.const for subscript in ref.subscripts[:-1]]
            return self.scalars.names("reg", _row_name(ref.buf, place))
        if self.extent != self.width or not self.in_order(ref):
            return None
        return f"*({self.vectors.type(ref.dtype, self.width)}u *)&{self.first(ref)}"

    def load(self, ref: Ref, dtype: str, before: list[str]) -> str:
        """Return the name of a vector that lines `before` put together from its elements."""
        name = f"part{len(before)}"
        if self.in_order(ref):
            filled = f"{self.copied_bytes(name, self.first(ref), dtype)};"
        else:
            element = self.scalars.operand(ref, dtype)
            filled = self.each(f"{name}[{self.name}] = {element};")
        declared = f"{self.vectors.type(dtype, self.width)} {name} = {{0}};"
        before.append(f"{declared} {filled} {KEEP_IN_MEMORY.format(name)}")
        return name

    def store(self, ref: Ref, dtype: str) -> str:
        """Return what writes the elements of the vector `whole`, one by one or as bytes."""
        if self.in_order(ref) and not self.is_rounded(ref):
            return f"{self.copied_bytes(self.first(ref), 'whole', dtype)};"
        element = f"whole[{self.name}]"
        if self.is_rounded(ref):
            element = f"{self.scalars.stores[ref.dtype]}({element})"
        return self.each(f"{self.scalars.ref(ref)} = {element};")

    def is_rounded(self, ref: Ref) -> bool:
        """Return whether elements of memory are rounded where they are stored."""
        return not is_tile(ref.buf) and ref.dtype in self.scalars.stores

    def each(self, text: str) -> str:
        """Return a loop over the elements."""
        name = self.name
        return f"for (int {name} = 0; {name} < {self.extent}; ++{name}) {text}"

    @property
    def name(self) -> str:
        return self.scalars.names("index", self.index.name)

    def in_order(self, ref: Ref) -> bool:
        """Return whether elements are neighbours in memory, in the type they are computed in."""
        *outer, last = ref.subscripts
        if self.index in (last - affine(self.index)).indices:
            return False
        if any(self.index in subscript.indices for subscript in outer):
            return False
        return C_TYPES[ref.dtype] == C_TYPES[computed(ref.dtype)]

    def first(self, ref: Value) -> str:
        """Return the element at the first step of the loop."""
        return self.scalars.ref(substituted(ref, {self.index: affine(0)}))
