"""The `main.c` of an exported project: it checks the function on stored arrays, and times it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from codegen.export.c_file import ExportedFunction
from codegen.export.call_plan import Buffer, Data
from codegen.export.numbers import Array, Blob, are_small, array_definition, declaration
from codegen.export.types import value_type

ELEMENTS = {"f16": "(double)half_value({})", "f32": "(double){}", "bf16": "(double){}", "f64": "{}"}
HEAD = """\
/* Check @NAME@ on stored inputs, and time it.

   The expected outputs were computed by einalg's reference in double precision. The exit status is
   0 where every output is as near to them as is allowed, else 1. */
#include "@NAME@.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ALLOWED @ALLOWED@ /* of the largest element of an output */
#ifndef SECONDS
#define SECONDS 0.2 /* that calls are repeated to time one */
#endif
"""
HALF_VALUE = """\
/* The number of which these are the bits in half precision. */
static float half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
  float size = ldexpf((float)(fraction | 0x400), exponent - 25);
  if (exponent == 0) size = ldexpf((float)fraction, -24);
  if (exponent == 31) size = fraction ? NAN : INFINITY;
  return bits & 0x8000 ? -size : size;
}
"""
CONVERSIONS = {"f16": HALF_VALUE}
FLOAT_DIFFERENCE = """\
/* The largest difference of two arrays, each relative to the larger of `scale` and the expected
   number. NaN equals NaN. */
static double difference_{dtype}(const {kind} *result, const {kind} *expected, size_t count,
                              double scale) {{
  double largest = 0.0;
  for (size_t k = 0; k < count; ++k) {{
    const double a = {a}, b = {b};
    if (a == b || (a != a && b != b)) continue;
    const double size = fabs(b) > scale && isfinite(b) ? fabs(b) : scale;
    const double difference = fabs(a - b) / size;
    if (!(difference < INFINITY)) return INFINITY;
    if (difference > largest) largest = difference;
  }}
  return largest;
}}
"""
INTEGER_DIFFERENCE = """\
/* The largest difference of two arrays. */
static double difference_{dtype}(const {kind} *result, const {kind} *expected, size_t count,
                              double scale) {{
  double largest = 0.0;
  for (size_t k = 0; k < count; ++k) {{
    if (result[k] == expected[k]) continue;
    const double difference = fabs((double)result[k] - (double)expected[k]) / scale;
    if (difference > largest) largest = difference;
    if (largest == 0.0) largest = 1.0; /* too little for a double */
  }}
  return largest;
}}
"""


ALLOCATED = """\
/* Memory that is filled with bytes of no meaning, so that nothing is right by chance. */
static void *allocated(size_t bytes) {
  void *const memory = malloc(bytes ? bytes : 1);
  if (!memory) {
    fprintf(stderr, "no memory is left for %zu bytes\\n", bytes);
    exit(2);
  }
  return memset(memory, 0xff, bytes);
}
"""
SECONDS = """\
static double seconds(void) {
  struct timespec now;
  timespec_get(&now, TIME_UTC);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
"""
IS_WRONG = """\
/* Return 1 where a difference is more than is allowed, and say how large it is. */
static int is_wrong(const char *name, double difference) {
  printf("%s: the largest difference is %.2e (%.2e is allowed)\\n", name, difference, ALLOWED);
  return !(difference <= ALLOWED);
}
"""


def difference_functions(dtypes: Sequence[str]) -> Iterator[str]:
    """Yield the functions in C that compare arrays of some types, and that report differences."""
    for dtype in dict.fromkeys(dtypes):
        yield CONVERSIONS.get(dtype, "")
        template = INTEGER_DIFFERENCE
        if dtype in ELEMENTS:
            template = FLOAT_DIFFERENCE
        element = ELEMENTS.get(dtype, "{}")
        yield template.format(
            dtype=dtype,
            kind=value_type(dtype),
            a=element.format("result[k]"),
            b=element.format("expected[k]"),
        )
    yield IS_WRONG


@dataclass(frozen=True)
class Check:
    """Example inputs of a function, and what it must give for them.

    `inputs` and `outputs` are in the function's order. Each output may differ by `allowed`,
    relative to its `scale`.
    """

    inputs: tuple[Array, ...] = field(repr=False)
    outputs: tuple[Array, ...] = field(repr=False)
    allowed: float
    scales: tuple[float, ...]


@dataclass(frozen=True)
class CheckProgram:
    """The program that calls an exported function on the arrays of a check."""

    function: ExportedFunction
    check: Check

    @property
    def inputs(self) -> list[Data]:
        return self._stored("input", self.function.plan.inputs, self.check.inputs)

    @property
    def outputs(self) -> list[Data]:
        return self._stored("expected", self.function.plan.outputs, self.check.outputs)

    def _stored(
        self, prefix: str, buffers: Sequence[Buffer], arrays: Sequence[Array]
    ) -> list[Data]:
        stored: list[Data] = []
        for buffer, array in zip(buffers, arrays, strict=True):
            named = Buffer(f"{prefix}_{buffer.name}", buffer.shape, buffer.dtype)
            stored.append(Data(named, array))
        return stored

    @property
    def blob(self) -> Blob | None:
        """The arrays that are too large for C text, in a file of bytes."""
        if are_small(self.stored):
            return None
        return Blob("main_data", self.stored)

    @property
    def stored(self) -> tuple[Data, ...]:
        """The arrays that the program has in it: not those without elements."""
        return tuple(data for data in (*self.inputs, *self.outputs) if data.buffer.elements)

    def text(self) -> str:
        """Return the file."""
        head = HEAD.replace("@NAME@", self.function.name)
        head = head.replace("@ALLOWED@", repr(self.check.allowed))
        parts = [
            head,
            *self._declarations(),
            "",
            *self._functions(),
            *self._main(),
            *self._definitions(),
        ]
        return "\n".join(parts)

    def _declarations(self) -> Iterator[str]:
        if self.blob is not None:
            yield self.blob.declaration()
            return
        yield "/* The arrays stand at the end of this file. */"
        for data in self.stored:
            yield f"{declaration(data)};"

    def _definitions(self) -> Iterator[str]:
        if self.blob is None:
            for data in self.stored:
                yield f"\n{array_definition(data)}"
        yield ""

    def _functions(self) -> Iterator[str]:
        yield ALLOCATED
        yield SECONDS
        yield from difference_functions([data.buffer.dtype for data in self.outputs])

    def _main(self) -> Iterator[str]:
        function = self.function
        yield "int main(void) {"
        if self.blob is not None:
            yield from (f"  {line}" for line in self.blob.variables())
        # Copies on the heap: tools that watch memory see what lies outside of them.
        for data, buffer in zip(self.inputs, function.plan.inputs, strict=True):
            yield from _copied_input(data.buffer.name, buffer)
        for buffer in function.plan.outputs:
            kind = value_type(buffer.dtype)
            yield f"  {kind} *const {buffer.name} = allocated({buffer.bytes});"
        yield f"  void *const workspace = allocated({function.name}_workspace_size());"
        yield ""
        arguments = [buffer.name for buffer in (*function.plan.inputs, *function.plan.outputs)]
        call = f"{function.name}({', '.join([*arguments, 'workspace'])});"
        yield f"  {call}"
        yield "  int wrong = 0;"
        for data, buffer, scale in zip(
            self.outputs, function.plan.outputs, self.check.scales, strict=True
        ):
            expected = data.buffer.name if buffer.elements else "NULL"
            arguments = [buffer.name, expected, str(buffer.elements), repr(scale)]
            difference = f"difference_{buffer.dtype}({', '.join(arguments)})"
            yield f'  wrong |= is_wrong("{buffer.name}", {difference});'
        yield f"""
  double least = INFINITY;
  long calls = 1; /* so many that a clock can tell their time */
  const double began = seconds();
  do {{
    const double before = seconds();
    for (long call = 0; call < calls; ++call) {call}
    const double spent = seconds() - before;
    if (spent < 1e-3)
      calls *= 2;
    else if (spent / (double)calls < least)
      least = spent / (double)calls;
  }} while (seconds() < began + SECONDS || isinf(least));
  printf("a call takes %.3f microseconds at least\\n", 1e6 * least);
"""
        for name in self._allocated():
            yield f"  free({name});"
        yield "  return wrong;"
        yield "}"

    def _allocated(self) -> Iterator[str]:
        for buffer in self.function.plan.inputs:
            if buffer.shape:
                yield buffer.name
        for buffer in self.function.plan.outputs:
            yield buffer.name
        yield "workspace"


def _copied_input(stored: str, buffer: Buffer) -> Iterator[str]:
    """Yield the lines that make an argument of a stored array."""
    name, kind = buffer.name, value_type(buffer.dtype)
    if not buffer.shape:
        yield f"  const {kind} {name} = {stored}[0];"
        return
    yield f"  {kind} *const {name} = allocated({buffer.bytes});"
    if buffer.bytes:
        yield f"  memcpy({name}, {stored}, {buffer.bytes});"
