"""Programs that run on a CUDA device: every statement is a generated kernel, and what is between them stays there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from statistics import median
from typing import Any

from codegen.arguments import loaded, sample
from codegen.compiled import GENERATED, NOTHING, Compiled, Step
from codegen.cuda.compiler import require_nvcc
from codegen.cuda.driver import DeviceArray, Driver, Memory, device_address, find_driver, is_on_device
from codegen.cuda.lower import lower_cuda
from codegen.cuda.memory import device_dtype, to_device
from codegen.cuda.printer import cuda_source, launch
from codegen.cuda.schedule import CUDA_DEFAULT, CudaSchedule
from codegen.ir import Function
from codegen.libraries import Buffers
from einalg.errors import CodegenError
from einalg.kernel import Kernel
from einalg.program import Program
from einalg.scope import Scope

Assemble = Callable[[str, int], bytes]  # CUDA text and compute capability -> machine code


def nvcc_image(text: str, sm: int) -> bytes:
    """Machine code, by nvcc."""
    return require_nvcc().compile(text, sm).image


def compile_cuda(
    program: Program,
    kernels: Sequence[Kernel],
    schedule: CudaSchedule = CUDA_DEFAULT,
    driver: Callable[[], Driver] | None = None,
    assemble: Assemble | None = None,
) -> CudaCompiled:
    """A flat program as CUDA, one kernel a statement. The text is there at once; a device is looked for at the first call.

    `driver` and `assemble` take the place of PyCUDA and nvcc.
    """
    known: dict[str, Scope] = dict(program.statements)
    functions = [lower_cuda(name, scope, known, schedule) for name, scope in known.items()]
    sourced = [replace(kernel, source=cuda_source([function])) for kernel, function in zip(kernels, functions)]
    return CudaCompiled(program, sourced, functions, cuda_source(functions), driver=driver or find_driver, assemble=assemble or nvcc_image)


class CudaCompiled(Compiled):
    """A program that runs on a CUDA device: call it with its inputs by name, as `Compiled`.

    Arrays that lie on the device already (torch, CuPy) are read where they are, and then the results stay there too, as
    `DeviceArray`; else they are NumPy arrays. Raises `DeviceError` where there is no device, no PyCUDA, or no memory.
    """

    def __init__(
        self,
        program: Program,
        kernels: Sequence[Kernel],
        functions: Sequence[Function],
        text: str,
        bound: Buffers = NOTHING,
        driver: Callable[[], Driver] = find_driver,
        assemble: Assemble = nvcc_image,
    ):
        self._functions, self._driver, self._assemble = tuple(functions), driver, assemble
        self._lock, self._device = threading.Lock(), None
        super().__init__(program, kernels, "cuda", [Step(kernel, GENERATED, _nowhere) for kernel in kernels], text, bound)

    def __call__(self, **arrays: Any) -> Any:
        device = self._started()
        memory, on_device = self._placed(device, arrays)
        for step in self._running:
            device.run(step.kernel.output, memory)
        found = {name: device.array(self.program, name, memory[name]) for name in self.program.outputs}
        results = {name: array if on_device else array.get() for name, array in found.items()}
        return results if len(results) > 1 else results[self.program.outputs[0]]

    def source(self, language: str = "cuda") -> str:
        """The text of the generated kernels; `CodegenError` for a language other than `"cuda"`."""
        if language != "cuda":
            raise CodegenError(f"there is no source in {language!r} for the target 'cuda'\n  use source('cuda')")
        return self._text

    def time(self, repeats: int = 5, **arrays: Any) -> dict[str, float]:
        """Seconds that each kernel takes on the device, by its output: the median of `repeats` runs after a first one."""
        device = self._started()
        memory, _ = self._placed(device, arrays or sample(self._missing))
        spent: dict[str, list[float]] = {step.kernel.output: [] for step in self._running}
        for _ in range(1 + max(1, repeats)):
            for name, seconds in spent.items():
                seconds.append(device.driver.elapsed(lambda name=name: device.run(name, memory)))
        return {name: median(seconds[1:]) for name, seconds in spent.items()}

    def _with(self, bound: Buffers) -> CudaCompiled:
        return CudaCompiled(self.program, self.kernels, self._functions, self._text, bound, self._driver, self._assemble)

    def _computed(self, bound: Buffers) -> dict[str, Any]:
        """Constants and the inputs given ahead; what depends on these alone is computed on the device, at the first call."""
        return {**loaded(self.program.constants, {}), **bound}

    def _started(self) -> _Device:
        with self._lock:
            if self._device is None:
                self._device = _Device(self._driver(), self._functions, self._text, self._assemble)
                tensors = self.program.tensors
                for name, array in self._ready.items():
                    self._device.kept[name] = self._device.upload(array, tensors[name].dtype)
                for step in self._steps:
                    if step.kernel.output in self._done:
                        self._device.allocate_result(self.program, step.kernel.output, self._device.kept)
                        self._device.run(step.kernel.output, self._device.kept)
            return self._device

    def _placed(self, device: _Device, arrays: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
        """Where everything lies that the kernels of a call read and write; and whether some of it was on the device before."""
        memory: dict[str, Any] = dict(device.kept)
        there = {name: value for name, value in arrays.items() if name in self._missing and is_on_device(value)}
        for name, value in there.items():
            memory[name] = _Borrowed(value, device_address(self._missing[name], value))
        here = {name: tensor for name, tensor in self._missing.items() if name not in there}
        for name, array in loaded(here, {name: value for name, value in arrays.items() if name not in there}).items():
            memory[name] = device.upload(array, here[name].dtype)
        kept = self._memory.__dict__
        for name in self._shapes:
            if name in self.program.outputs:
                device.allocate_result(self.program, name, memory)
            else:
                if name not in kept:
                    device.allocate_result(self.program, name, kept)
                memory[name] = kept[name]
        return memory, bool(there)


class _Device:
    """The kernels of a program on a device, and the memory that they keep there."""

    def __init__(self, driver: Driver, functions: Sequence[Function], text: str, assemble: Assemble):
        self.driver, self.kept = driver, dict[str, Memory]()
        launches = [launch(function, position) for position, function in enumerate(functions)]
        handles = driver.load(assemble(text, driver.sm), [how.name for how in launches])
        self.kernels = {function.output.name: (function, how, handle) for function, how, handle in zip(functions, launches, handles)}

    def run(self, name: str, memory: Mapping[str, Memory]) -> None:
        function, how, handle = self.kernels[name]
        if function.body:
            self.driver.launch(handle, how, [memory[b.name].address for b in (*function.inputs, function.output)])

    def upload(self, array: Any, dtype: str) -> Memory:
        array = to_device(array, dtype)
        memory = self.driver.allocate(array.nbytes)
        if array.size:
            self.driver.upload(memory.address, array)
        return memory

    def allocate_result(self, program: Program, name: str, memory: dict[str, Any]) -> None:
        scope = program[name]
        memory[name] = self.driver.allocate(prod(scope.shape) * device_dtype(scope.dtype).itemsize)

    def array(self, program: Program, name: str, memory: Memory) -> DeviceArray:
        return DeviceArray(self.driver, memory, program[name].shape, program[name].dtype)


class _Borrowed:
    """Memory of an array that somebody else owns, who must not free it while a kernel reads it."""

    def __init__(self, value: Any, address: int):
        self.value, self.address = value, address


def _nowhere(buffers: Buffers) -> None:
    raise CodegenError("a kernel of a device reads memory of that device only")
