"""The `main.cu` of an exported CUDA project: it checks the function on stored arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codegen.export.call_plan import Buffer, Data
from codegen.export.check_program import ALLOCATED, Check, difference_functions
from codegen.export.cuda.cuda_file import CudaFunction, device_type
from codegen.export.cuda.launch_plan import device_bytes, device_data
from codegen.export.numbers import Array, Blob, are_small, array_definition

HEAD = """\
/* Check @NAME@ on stored inputs, and time it.

   The expected outputs were computed by einalg's reference in double precision. The exit status is
   0 where every output is as near to them as is allowed, else 1; it is 2 without a device. */
#include "@NAME@.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALLOWED @ALLOWED@ /* of the largest element of an output */
#define CALLS 20 /* of which the mean time is told */
"""
DEVICE = """\
/* End the program where CUDA cannot do something. */
static void require(cudaError_t status, const char *what) {
  if (status == cudaSuccess) return;
  fprintf(stderr, "%s: %s\\n", what, cudaGetErrorString(status));
  exit(2);
}

/* Memory of the device, filled with bytes of no meaning. */
static void *on_device(size_t bytes) {
  void *memory;
  require(cudaMalloc(&memory, bytes ? bytes : 1), "cudaMalloc");
  require(cudaMemset(memory, 0xff, bytes), "cudaMemset");
  return memory;
}
"""
BFLOAT_DIFFERENCE = """\
/* The number of which these are the upper 16 bits. */
static float bfloat_value(uint16_t bits) {
  const uint32_t whole = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &whole, sizeof value);
  return value;
}
"""


@dataclass(frozen=True)
class CudaCheckProgram:
    """The program that calls an exported CUDA function on the arrays of a check."""

    function: CudaFunction
    check: Check

    @property
    def inputs(self) -> list[Data]:
        return _stored("input", self.function.plan.inputs, self.check.inputs)

    @property
    def outputs(self) -> list[Data]:
        """The expected outputs; those of bf16 as floats, to which results are widened."""
        stored: list[Data] = []
        for buffer, array in zip(self.function.plan.outputs, self.check.outputs, strict=True):
            dtype = buffer.dtype
            if dtype == "bf16":
                dtype = "f32"
            stored.append(Data(Buffer(f"expected_{buffer.name}", buffer.shape, dtype), array))
        return stored

    @property
    def stored(self) -> tuple[Data, ...]:
        """The arrays that the program has in it: not those without elements."""
        return tuple(data for data in (*self.inputs, *self.outputs) if data.buffer.elements)

    @property
    def blob(self) -> Blob | None:
        """The arrays that are too large for C text, in a file of bytes."""
        if are_small(self.stored):
            return None
        return Blob("main_data", self.stored)

    def text(self) -> str:
        """Return the file."""
        head = HEAD.replace("@NAME@", self.function.name)
        head = head.replace("@ALLOWED@", repr(self.check.allowed))
        parts = [head, *self._arrays(), ALLOCATED]
        if any(buffer.dtype == "bf16" for buffer in self.function.plan.outputs):
            parts.append(BFLOAT_DIFFERENCE)
        parts += difference_functions([data.buffer.dtype for data in self.outputs])
        return "\n".join([*parts, DEVICE, *self._main(), ""])

    def _arrays(self) -> Iterator[str]:
        if self.blob is not None:
            yield f'extern "C" {{\n{self.blob.declaration()}\n}}\n'
            return
        for data in self.stored:
            yield f"{array_definition(data)}\n"

    def _main(self) -> Iterator[str]:
        function, plan = self.function, self.function.plan
        yield "int main(void) {"
        if self.blob is not None:
            yield from (f"  {line}" for line in self.blob.variables())
        for data, buffer in zip(self.inputs, plan.inputs, strict=True):
            yield f"  {_on_device(buffer)}"
            if buffer.elements:
                size = device_bytes(buffer)
                copy = f"cudaMemcpy({buffer.name}, {data.buffer.name}, {size}, "
                yield f'  require({copy}cudaMemcpyHostToDevice), "{buffer.name}");'
        for buffer in plan.outputs:
            yield f"  {_on_device(buffer)}"
        yield f"  void *const workspace = on_device({function.name}_workspace_size());"
        arguments = [buffer.name for buffer in (*plan.inputs, *plan.outputs)]
        if plan.data:
            yield f"  void *const weights = on_device({function.name}_weights_size());"
            yield f'  require({function.name}_load_weights(weights, 0), "weights");'
            arguments.append("weights")
        call = f'require({function.name}({", ".join([*arguments, "workspace", "0"])}), "call");'
        yield ""
        yield f"  {call}"
        yield '  require(cudaDeviceSynchronize(), "kernels");'
        yield "  int wrong = 0;"
        for number, buffer in enumerate(plan.outputs):
            yield from self._compared(buffer, self.outputs[number], self.check.scales[number])
        yield f"""
  cudaEvent_t began, ended;
  require(cudaEventCreate(&began), "cudaEventCreate");
  require(cudaEventCreate(&ended), "cudaEventCreate");
  require(cudaEventRecord(began, 0), "cudaEventRecord");
  for (int k = 0; k < CALLS; ++k) {call}
  require(cudaEventRecord(ended, 0), "cudaEventRecord");
  require(cudaEventSynchronize(ended), "cudaEventSynchronize");
  float spent = 0;
  require(cudaEventElapsedTime(&spent, began, ended), "cudaEventElapsedTime");
  printf("a call takes %.3f microseconds\\n", 1e3 * spent / CALLS);
  return wrong;
}}"""

    def _compared(self, buffer: Buffer, expected: Data, scale: float) -> Iterator[str]:
        name, kind = f"result_{buffer.name}", device_type(buffer.dtype)
        size, count = device_bytes(buffer), buffer.elements
        stored = expected.buffer.name if count else "NULL"
        yield f"  {kind} *const {name} = ({kind} *)allocated({size});"
        yield f"  require(cudaMemcpy({name}, {buffer.name}, {size}, cudaMemcpyDeviceToHost),"
        yield f'          "{buffer.name}");'
        compared = name
        if buffer.dtype == "bf16":
            compared = f"wide_{buffer.name}"
            yield f"  float *const {compared} = (float *)allocated({4 * count});"
            yield f"  for (size_t k = 0; k < {count}; ++k) {compared}[k] = bfloat_value({name}[k]);"
        difference = f"difference_{expected.buffer.dtype}({compared}, {stored}, {count}, {scale!r})"
        yield f'  wrong |= is_wrong("{buffer.name}", {difference});'


def _on_device(buffer: Buffer) -> str:
    kind = device_type(buffer.dtype)
    return f"{kind} *const {buffer.name} = ({kind} *)on_device({device_bytes(buffer)});"


def _stored(prefix: str, buffers: Sequence[Buffer], arrays: Sequence[Array]) -> list[Data]:
    stored: list[Data] = []
    for buffer, array in zip(buffers, arrays, strict=True):
        named = Buffer(f"{prefix}_{buffer.name}", buffer.shape, buffer.dtype)
        stored.append(device_data(named, array))
    return stored
