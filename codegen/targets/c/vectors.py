"""Register tiles and vectors as C: `lanes` loops, `vector` buffers, and the unrolled loops that name their rows (design §10).

Nothing is left to the compiler's own vectoriser: a register tile is one vector variable for each of its rows, a `lanes` loop one
vector statement. Vectors are those of the GNU C language, which gcc and clang translate for any machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Protocol

from codegen.ir.nodes import Apply, Buf, For, Number, Ref, Statement, Store, Transpose, Value
from codegen.ir.scalar import computed
from codegen.targets.c.helpers import C_TYPES
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine
from einalg.language.ir.dtypes import numpy_dtype

VECTOR_NAME = re.compile(r"[fiu]\d+x\d+u?")
KEEP_IN_MEMORY = '__asm__("" : "+m"({}));'  # keeps what is addressed in memory from being one with the sums, which then were in memory too
OPERATORS = {"mul": "*", "add": "+"}
KEEP_IN_REGISTER = """\
#if defined(__{feature}__)
#define held_{bytes}(vector) __asm__("" : "+v"(vector))
#elif defined(__aarch64__) && {bytes} == 16
#define held_{bytes}(vector) __asm__("" : "+w"(vector))
#else
#define held_{bytes}(vector) (void)0
#endif"""  # what is read stays in its register: else each use of it may read memory again
X86_FEATURES = {16: "SSE2", 32: "AVX", 64: "AVX512F"}  # bytes, and what an x86 needs for them


class Scalars(Protocol):
    """What the printer of scalar statements does for this one."""

    def names(self, kind: str, name: str) -> str: ...
    def line(self, text: str) -> None: ...
    def ref(self, ref: Ref) -> str: ...
    def operand(self, value: Value, dtype: str) -> str: ...
    def need(self, text: str) -> None: ...


def is_tile(buf: Buf) -> bool:
    return buf.space == "vector"


def unrolled_nest(loop: For) -> tuple[list[For], tuple[Statement, ...]] | None:
    """Loops around `lanes` loops alone that are to be written out, and what is inside; None where C unrolls them itself."""
    nest, body = [loop], loop.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind == "unroll":
        nest.append(body[0])
        body = body[0].body
    if not all(isinstance(s, For) and s.kind == "lanes" for s in body):
        return None
    named = {
        index
        for ref in references(body)
        if is_tile(ref.buf)
        for s in ref.subscripts
        for index in s.indices
    }
    return (nest, body) if loop.extent == 1 or any(inner.index in named for inner in nest) else None


def unrolled_bodies(
    nest: Sequence[For], body: tuple[Statement, ...]
) -> Iterator[tuple[Statement, ...]]:
    """The body of some loops of constant bounds, once for each step."""
    for place in product(
        *(
            range(loop.low.const, loop.low.const + (loop.extent or 0))
            for loop in nest
            if isinstance(loop.low, Affine)
        )
    ):
        values = {loop.index: affine(value) for loop, value in zip(nest, place)}
        yield tuple(substituted(statement, values) for statement in body)


def substituted(node: Any, values: Mapping[Index, Affine]) -> Any:
    """A statement or value with numbers for some indices."""
    if isinstance(node, Ref):
        return Ref(node.buf, tuple(s.substitute(values) for s in node.subscripts))
    if isinstance(node, Apply):
        return Apply(node.op, tuple(substituted(a, values) for a in node.arguments), node.dtype)
    if isinstance(node, Store):
        return Store(substituted(node.ref, values), node.op, substituted(node.value, values))
    if isinstance(node, For):
        assert isinstance(node.low, Affine) and isinstance(node.high, Affine)
        inner = tuple(substituted(s, values) for s in node.body)
        return replace(
            node, low=node.low.substitute(values), high=node.high.substitute(values), body=inner
        )
    assert isinstance(node, Number)
    return node


def references(nodes: Sequence[Any]) -> Iterator[Ref]:
    """The elements that statements and values of products read and write."""
    for node in nodes:
        if isinstance(node, Ref):
            yield node
        elif isinstance(node, Store):
            yield from references((node.ref, node.value))
        elif isinstance(node, Apply):
            yield from references(node.arguments)
        elif isinstance(node, For):
            yield from references(node.body)


def vector_type(dtype: str, width: int) -> str:
    """The C type of `width` elements side by side.

    >>> vector_type("f32", 16)
    'f32x16'
    """
    return f"{computed(dtype)}x{width}"


def vector_declaration(dtype: str, width: int) -> str:
    """The C types of a vector: in a register, and anywhere in memory."""
    name, c, size = (
        vector_type(dtype, width),
        C_TYPES[computed(dtype)],
        numpy_dtype(computed(dtype)).itemsize,
    )
    return (
        f"typedef {c} {name} __attribute__((vector_size({width * size})));\n"
        f"typedef {c} {name}u __attribute__((vector_size({width * size}), aligned({size}), may_alias));"
    )


def transpose_function(dtype: str, width: int) -> str:
    """The C function that transposes a square of `width` x `width` elements: in each step, halves of blocks change places.

    >>> [line for line in transpose_function("f32", 2).splitlines() if "shuffled" in line]
    ['  { const f32x2 a = v0, b = v1; v0 = shuffled(a, b, places, 0, 2); v1 = shuffled(a, b, places, 1, 3); }']
    """
    kind, element = vector_type(dtype, width), C_TYPES[computed(dtype)]
    mask = f"int{8 * numpy_dtype(computed(dtype)).itemsize}_t"
    lines = [
        f"static inline __attribute__((always_inline)) void turn_{kind}(const {element} *from, int64_t step, int rows, {element} *to) {{",
        f"  typedef {mask} places __attribute__((vector_size(sizeof({kind}))));",
        f"  {kind} {', '.join(f'v{k} = {{0}}' for k in range(width))};",
        *(f"  if (rows > {k}) v{k} = *({kind}u *)&from[{k} * step];" for k in range(width)),
    ]
    distance = 1
    while distance < width:
        low = ", ".join(str(k if not k & distance else width + k - distance) for k in range(width))
        high = ", ".join(str(k + distance if not k & distance else width + k) for k in range(width))
        for k in (k for k in range(width) if not k & distance):
            one, two = f"v{k}", f"v{k + distance}"
            lines.append(
                f"  {{ const {kind} a = {one}, b = {two}; {one} = shuffled(a, b, places, {low}); {two} = shuffled(a, b, places, {high}); }}"
            )
        distance *= 2
    return "\n".join(
        [*lines, *(f"  *({kind}u *)&to[{k * width}] = v{k};" for k in range(width)), "}"]
    )


SHUFFLE_MACRO = """\
#ifdef __clang__
#define shuffled(a, b, places, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define shuffled(a, b, places, ...) __builtin_shuffle(a, b, (places){__VA_ARGS__})
#endif"""


class Vectors:
    """Prints the statements of a `lanes` loop, each as one vector statement, with temporaries where memory is not in order."""

    def __init__(self, scalars: Scalars):
        self.scalars = scalars

    def tile(self, buf: Buf) -> None:
        """Declare a register tile."""
        rows = [
            self.scalars.names("reg", "_".join(map(str, (buf.name, *place))))
            for place in product(*map(range, buf.shape[:-1]))
        ]
        self.scalars.line(f"{self._type(buf.dtype, buf.shape[-1])} {', '.join(rows)};")

    def turn(self, turn: Transpose) -> None:
        """Transpose a square of elements."""
        dtype = turn.source.dtype
        kind = self._type(dtype, turn.size)
        self.scalars.need(
            f"{vector_declaration(dtype, turn.size)}\n{SHUFFLE_MACRO}\n{transpose_function(dtype, turn.size)}"
        )
        self.scalars.line(
            f"turn_{kind}(&{self.scalars.ref(turn.source)}, {turn.step}, {turn.rows}, &{self.scalars.ref(turn.target)});"
        )

    def loop(self, loop: For) -> None:
        assert loop.extent is not None and isinstance(loop.low, Affine) and not loop.low.terms
        tiles = [ref.buf.shape[-1] for ref in references(loop.body) if is_tile(ref.buf)]
        lanes = _VectorLoop(
            self,
            loop.index,
            loop.extent,
            tiles[0] if tiles else 1 << (loop.extent - 1).bit_length(),
        )
        for statement in loop.body:
            assert isinstance(statement, Store)
            lanes.put(statement)

    def _type(self, dtype: str, width: int) -> str:
        self.scalars.need(vector_declaration(dtype, width))
        return vector_type(dtype, width)


class _VectorLoop:
    """One `lanes` loop: `extent` steps in vectors of `width` elements."""

    def __init__(self, vectors: Vectors, index: Index, extent: int, width: int):
        self.scalars, self.type = vectors.scalars, vectors._type
        self.index, self.extent, self.width = index, extent, width

    def put(self, put: Store) -> None:
        dtype = computed(put.ref.dtype)
        if self.is_copy(put):
            return self.scalars.line(
                f"__builtin_memcpy(&{self.first(put.ref)}, &{self.first(put.value)}, {self.extent * numpy_dtype(dtype).itemsize});"
            )
        before: list[str] = []
        value = self.value(put.value, dtype, before)
        target = self.place(put.ref)
        if target is not None:
            lines = [*before, f"{target} {put.op} {value};", *self.holding(put, target)]
        else:
            assert put.op == "="
            lines = [
                *before,
                f"{self.type(dtype, self.width)} whole = {value};",
                KEEP_IN_MEMORY.format("whole"),
                self.store(put.ref, dtype),
            ]
        for line in lines if len(lines) == 1 else ("{", *lines, "}"):
            self.scalars.line(line)

    def holding(self, put: Store, target: str) -> list[str]:
        """What keeps a vector that was read in its register."""
        size = self.width * numpy_dtype(computed(put.ref.dtype)).itemsize
        if (
            not is_tile(put.ref.buf)
            or not isinstance(put.value, Ref)
            or put.op != "="
            or size not in X86_FEATURES
        ):
            return []
        self.scalars.need(KEEP_IN_REGISTER.format(feature=X86_FEATURES[size], bytes=size))
        return [f"held_{size}({target});"]

    def is_copy(self, put: Store) -> bool:
        """Whether some bytes move as they are, and fewer than a vector has."""
        refs = (put.ref, put.value)
        moved = [
            ref
            for ref in refs
            if isinstance(ref, Ref)
            and not is_tile(ref.buf)
            and self.is_vector(ref)
            and self.in_order(ref)
        ]
        return (
            len(moved) == 2
            and put.op == "="
            and moved[0].dtype == moved[1].dtype
            and self.extent != self.width
        )

    def value(self, value: Value, dtype: str, before: list[str]) -> str:
        """The C text of a vector."""
        if not self.is_vector(value):
            zero = f"({self.type(dtype, self.width)}){{0}}"
            return (
                zero
                if isinstance(value, Number) and value.value == 0
                else f"{zero} + {self.scalars.operand(value, dtype)}"
            )
        if isinstance(value, Ref):
            return self.place(value) or self.load(value, dtype, before)
        assert isinstance(value, Apply) and value.op in OPERATORS
        return f" {OPERATORS[value.op]} ".join(self.part(a, dtype, before) for a in value.arguments)

    def part(self, value: Value, dtype: str, before: list[str]) -> str:
        text = (
            self.value(value, dtype, before)
            if self.is_vector(value)
            else self.scalars.operand(value, dtype)
        )
        return f"({text})" if isinstance(value, Apply) else text

    def is_vector(self, value: Value) -> bool:
        return any(self.index in s.indices for ref in references((value,)) for s in ref.subscripts)

    def place(self, ref: Ref) -> str | None:
        """A vector variable, or memory that holds a whole vector in order."""
        if is_tile(ref.buf):
            return self.scalars.names(
                "reg", "_".join([ref.buf.name, *(str(s.const) for s in ref.subscripts[:-1])])
            )
        if self.extent != self.width or not self.in_order(ref):
            return None
        return f"*({self.type(ref.dtype, self.width)}u *)&{self.first(ref)}"

    def load(self, ref: Ref, dtype: str, before: list[str]) -> str:
        """A vector that is put together first."""
        name = f"part{len(before)}"
        kind = self.type(dtype, self.width)
        if self.in_order(ref):
            size = self.extent * numpy_dtype(dtype).itemsize
            before.append(
                f"{kind} {name} = {{0}}; __builtin_memcpy(&{name}, &{self.first(ref)}, {size}); {KEEP_IN_MEMORY.format(name)}"
            )
        else:
            before.append(
                f"{kind} {name} = {{0}}; {self.each(f'{name}[{self.name}] = {self.scalars.operand(ref, dtype)};')} {KEEP_IN_MEMORY.format(name)}"
            )
        return name

    def store(self, ref: Ref, dtype: str) -> str:
        """The elements of the vector `whole`, one after the other or as bytes."""
        if self.in_order(ref):
            return f"__builtin_memcpy(&{self.first(ref)}, &whole, {self.extent * numpy_dtype(dtype).itemsize});"
        element = f"whole[{self.name}]"
        return self.each(
            f"{self.scalars.ref(ref)} = {f'store_half({element})' if ref.dtype == 'f16' else element};"
        )

    def each(self, text: str) -> str:
        return f"for (int {self.name} = 0; {self.name} < {self.extent}; ++{self.name}) {text}"

    @property
    def name(self) -> str:
        return self.scalars.names("index", self.index.name)

    def in_order(self, ref: Ref) -> bool:
        """Whether the elements of a reference are neighbours in memory, in the type in which they are computed."""
        *outer, last = ref.subscripts
        alone = self.index not in (last - affine(self.index)).indices and not any(
            self.index in s.indices for s in outer
        )
        return alone and C_TYPES[ref.dtype] == C_TYPES[computed(ref.dtype)]

    def first(self, ref: Value) -> str:
        return self.scalars.ref(substituted(ref, {self.index: affine(0)}))
