"""The code of statements: generated, compiled and loaded once, whatever programs they are a part of (design §10).

What was generated is found again by what it depends on, so that a program whose kernels are known starts without code generation.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from codegen.ir.nodes import Buf, Function
from codegen.kernels.transpose import transpose_kernel
from codegen.libraries import ways
from codegen.lowering.guards import fills_gaps
from codegen.lowering.lower import lower
from codegen.lowering.schedule import Schedule
from codegen.program import generated_kernels
from codegen.program.deduplicate import KernelSignature, kernel_signature
from codegen.program.epilogue_fusion import Fused, fused, pairs
from codegen.runtime.kernel_call import GeneratedKernel, entry
from codegen.runtime.protocol import GENERATED, KernelFunction
from codegen.targets.c.compiler import Compiler
from codegen.targets.c.object_store import Place, loaded, placed
from codegen.targets.c.source_file import c_source, own_sources
from codegen.tuning.fingerprint import host_fingerprint
from codegen.tuning.kernel_choice import by_library, leaves_time, library_for, rivals
from codegen.tuning.tile_search import TUNINGS
from einalg.errors import CodegenError, EinalgError
from einalg.frontends.graph import unique_name
from einalg.language.analysis.compile_time import known_ahead
from einalg.language.ir.kernel import EOP, Kernel
from einalg.language.ir.program import Program
from einalg.storage.disk_cache import DiskCache
from einalg.storage.fingerprint import KERNEL_CODE, text_digest

LOG = logging.getLogger("einalg")
MADE = DiskCache("made", ".json", "generated kernels")
EINALG = "einalg"  # whose code it is
APART: Mapping[str, Any] = {}  # what is kept of an operator and its reader that are not one kernel
_looked: set[str] = set()  # keys of what was in doubt and this process has looked into


@dataclass(frozen=True)
class KernelCall:
    """The call that runs one kernel, by what that gives."""

    output: str
    library: str
    run: KernelFunction


@dataclass(frozen=True)
class Code:
    """Generated code: whose it is, its function, the names that this has for a unit's tensors, its C file, and its place in a shared object.

    Where the code was found, the function says what it takes, and has no body.
    """

    name: str
    function: Function
    tensors: tuple[str, ...]
    source: str
    place: Place

    def entry(
        self, compiler: Compiler, tensors: Sequence[str], offsets: Mapping[str, int], timeout: float
    ) -> GeneratedKernel | None:
        """The call of its function with other tensors in the places of its own; None where its shared object is no longer there."""
        there = loaded(compiler, self.place, timeout)
        if there is None:
            return None
        names, taken = dict(zip(self.tensors, tensors, strict=True)), set(tensors)
        for pack in self.function.packs:
            names[pack.output.name] = unique_name(pack.output.name, taken)
            taken.add(names[pack.output.name])
        return entry(there, self.function, self.place[1], names, offsets)

    def record(self) -> dict[str, Any]:
        taken = {
            "name": self.name,
            "tensors": self.tensors,
            "source": self.source,
            "place": self.place,
        }
        return {**taken, "function": _interface(self.function)}

    @classmethod
    def from_record(cls, row: Any) -> Code:
        library, position = row["place"]
        return cls(
            str(row["name"]),
            _function(row["function"]),
            tuple(map(str, row["tensors"])),
            str(row["source"]),
            (str(library), int(position)),
        )


Way = Code | str  # generated, or the name of a library's


def _interface(function: Function) -> dict[str, Any]:
    """What a function takes and packs, as JSON values."""
    buffers = [[b.name, b.shape, b.dtype, b.space] for b in (*function.inputs, function.output)]
    return {
        "name": function.name,
        "buffers": buffers,
        "packs": [_interface(pack) for pack in function.packs],
    }


def _function(row: Any) -> Function:
    *inputs, output = (
        Buf(str(name), tuple(map(int, shape)), str(dtype), str(space))
        for name, shape, dtype, space in row["buffers"]
    )
    return Function(
        str(row["name"]),
        tuple(inputs),
        output,
        (),
        "",
        tuple(_function(pack) for pack in row["packs"]),
    )


def state(compiler: Compiler, schedule: Schedule) -> str:
    """What all code depends on besides its statement."""
    fingerprint = host_fingerprint(KERNEL_CODE, compiler)
    return fingerprint.key(TUNINGS.entries_digest(), repr(schedule))


class KernelBuilder:
    """A flat program whose kernels become steps. `is_settled` says that another run would choose the same."""

    def __init__(
        self,
        program: Program,
        kernels: Sequence[Kernel],
        compiler: Compiler,
        schedule: Schedule,
        timeout: float,
    ):
        self.compiler, self.schedule, self.timeout = compiler, schedule, timeout
        self.known = dict(program.statements)
        kernels = [
            _as_eop(kernel) if fills_gaps(self.known[kernel.output], self.known) else kernel
            for kernel in kernels
        ]
        self.ahead = known_ahead(program)
        self.machine = state(compiler, schedule)
        self.is_settled = True
        self.tried = dict[
            str, tuple[Function | None, bool]
        ]()  # by the keys of fused kernels: None where they are not; whether that is beyond doubt
        self.alone = {
            kernel.output: kernel_signature(kernel, self.known, self.ahead) for kernel in kernels
        }
        self.written = dict[
            str, tuple[str, Function]
        ]()  # code of kernels that are not fused, by their outputs
        self.fusible = pairs(program, kernels, self.ahead, lambda kernel: self.alone[kernel.output])
        self.program, self.left, self.fused = program, list(kernels), dict[str, Fused]()

    def _choose(self) -> None:
        """What becomes one kernel; a comparison with libraries needs the machine for itself, so that what is compared is compiled before, at once."""
        self.placed(
            {k.output: self.code_of(k) for k in self.open() if rivals(k, self.known[k.output])}
        )
        self.program, self.left, self.fused = fused(
            self.program, self.left, self.fusible, self._is_better
        )
        self.known = dict(self.program.statements)
        self.units = [
            self.fused[k.output].unit if k.output in self.fused else self.alone[k.output]
            for k in self.left
        ]
        self.first: dict[str, int] = {}  # of the statements that need one code, by its key
        self.keys = [self._key(own) for own in self.units]
        for k, key in enumerate(self.keys):
            self.first.setdefault(key, k)

    def steps(self) -> list[KernelCall]:
        """A step for each kernel: code that is there, and code that is generated now, compiled together."""
        self._choose()
        found: dict[str, Way | None] = {key: self._found(key, k) for key, k in self.first.items()}
        unknown = {
            key: self._generated(self.first[key]) for key, way in found.items() if way is None
        }
        waiting = dict[str, tuple[str, Function]]()
        doubtful = set[str]()
        for key, (name, function) in unknown.items():
            kernel = self.left[self.first[key]]
            way, is_settled = (
                self._library(kernel, function)
                if kernel.epilogue is None
                else (None, self.tried.get(key, (None, True))[1])
            )
            if way is None:
                waiting[key] = name, function
            else:
                found[key] = way
            if not is_settled:
                doubtful.add(key)
        found |= self._compiled(waiting)
        for key in unknown:
            way = found[key]
            self._keep(
                key,
                way.record() if isinstance(way, Code) else {"library": way},
                key not in doubtful,
            )
        self.ways = {key: way for key, way in found.items() if way is not None}
        return [self._step(k, self.ways[key]) for k, key in enumerate(self.keys)]

    def record(self) -> dict[str, Any] | None:
        """The steps as JSON values, for `codegen.program.restore`; None where another run may choose other ones."""
        if not self.is_settled:
            return None
        codes = {key: way.record() for key, way in self.ways.items() if isinstance(way, Code)}
        products = {name: pair.product.output for name, pair in self.fused.items()}
        steps = [
            {
                "output": kernel.output,
                "product": products.get(kernel.output),
                "library": None if key in codes else self.ways[key],
            }
            | (
                {"code": key, "tensors": own.tensors, "offsets": own.offsets}
                if key in codes
                else {}
            )
            for kernel, own, key in zip(self.left, self.units, self.keys)
        ]
        return {"state": self.machine, "codes": codes, "steps": steps}

    def kernels(self) -> list[Kernel]:
        """The kernels, those that are generated with their source."""
        ways = [self.ways[key] for key in self.keys]
        return [
            replace(kernel, source=way.source) if isinstance(way, Code) else kernel
            for kernel, way in zip(self.left, ways)
        ]

    def text(self) -> str:
        """The C file with all that is generated, each code once."""
        return c_source([self._generated(k)[1] for k in self.first.values()])

    def open(self) -> list[Kernel]:
        """Kernels as they are before any becomes one with another, of which nothing is kept: one for each code."""
        within = [pair for some in self.fusible.values() for pair in some]
        products = {pair.product.output for pair in within}
        asked = {
            self._key(pair.unit): pair.product for pair in reversed(within)
        }  # the first of those with one key
        asked |= {
            self._key(self.alone[kernel.output]): kernel
            for kernel in reversed(self.left)
            if kernel.output not in products
        }
        return [kernel for key, kernel in asked.items() if MADE.read(key) is None]

    def _key(self, own: KernelSignature) -> str:
        """What the code of a statement is kept under."""
        return text_digest("made", self.machine, repr(own.key))

    def _is_better(self, pair: Fused) -> bool:
        """Whether an operator and its reader are one kernel: where no library is faster for the operator."""
        key = self._key(pair.unit)
        if key not in self.tried:
            row = self._kept(key)
            if row is not None:
                return row != APART
            self.tried[key] = function, is_settled = self._tried(pair)
            if function is None:
                self._keep(key, APART, is_settled)
        return self.tried[key][0] is not None

    def _tried(self, pair: Fused) -> tuple[Function | None, bool]:
        """The function of an operator with its reader, None where there is none or a library is faster; and whether that is beyond doubt."""
        function, scope = self._of_pair(pair), self.known[pair.product.output]
        if function is None or not rivals(pair.product, scope):
            return function, True
        name, is_settled = self._library(pair.product, self.code_of(pair.product)[1])
        return function if name is None else None, is_settled

    def _of_pair(self, pair: Fused) -> Function | None:
        assert pair.product.scope is not None
        return generated_kernels.function(
            pair.product, pair.product.scope, self.ahead, (pair.kernel.output, pair.scope)
        )

    def _found(self, key: str, k: int) -> Way | None:
        """What was kept for a statement under its key; None where that is not there, or what it needs."""
        row = self._kept(key)
        if not row or "library" in row:
            return (
                name
                if row and (name := str(row["library"])) in ways(self.left[k], self.units[k].scope)
                else None
            )
        try:
            code = Code.from_record(row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _warn(error)
            return None
        return code if loaded(self.compiler, code.place, self.timeout) else None

    def _generated(self, k: int) -> tuple[str, Function]:
        """Code for a statement: that of its operator where there is some, else a loop nest."""
        kernel = self.left[k]
        if kernel.epilogue is None:
            return self.code_of(kernel)
        known, _ = self.tried.get(self.keys[k], (None, True))
        function = known or self._of_pair(self.fused[kernel.output])
        assert function is not None  # as it was when this kernel was fused
        return EINALG, function

    def code_of(self, kernel: Kernel) -> tuple[str, Function]:
        """Code for a kernel that is not fused."""
        name = kernel.output
        if name not in self.written:
            scope = self.alone[name].scope
            function = (
                generated_kernels.function(kernel, scope, self.ahead) if kernel.op != EOP else None
            )
            own = (
                function
                or transpose_kernel(name, scope)
                or lower(name, scope, self.known, self.schedule)
            )
            self.written[name] = EINALG if function else GENERATED, own
        return self.written[name]

    def _library(self, kernel: Kernel, function: Function) -> tuple[str | None, bool]:
        """The library's way that is faster than the generated function, if one is, and whether that is beyond doubt."""
        return library_for(
            kernel,
            self.known[kernel.output],
            function,
            self.ahead,
            self._flagged(function),
            self.timeout,
        )

    def _flagged(self, function: Function) -> Compiler:
        """Integers of a user wrap round on overflow, which C leaves undefined otherwise."""
        whole = any(b.dtype[0] in "iu" for b in (*function.inputs, function.output))
        return self.compiler.with_flags("-fwrapv") if whole else self.compiler

    def _compiled(self, waiting: Mapping[str, tuple[str, Function]]) -> dict[str, Code]:
        """The code of functions by key, those for which the compiler has the same flags together."""
        places = self.placed(waiting)
        return {
            key: Code(name, function, self.units[self.first[key]].tensors, *places[key])
            for key, (name, function) in waiting.items()
        }

    def placed(self, waiting: Mapping[str, tuple[str, Function]]) -> dict[str, tuple[str, Place]]:
        """The sources of functions, by key, and where they lie."""
        found: dict[str, tuple[str, Place]] = {}
        for compiler in dict.fromkeys(self._flagged(function) for _, function in waiting.values()):
            chosen = {
                key: function
                for key, (_, function) in waiting.items()
                if self._flagged(function) == compiler
            }
            sources = own_sources(list(chosen.values()))
            found |= zip(
                chosen, zip(sources, placed(compiler, list(chosen.values()), sources, self.timeout))
            )
        return found

    def _step(self, k: int, way: Way) -> KernelCall:
        kernel = self.left[k]
        if isinstance(way, Code):
            return KernelCall(kernel.output, way.name, self._entry(way, self.units[k]))
        return KernelCall(
            kernel.output,
            way,
            by_library(kernel, self.known[kernel.output], way, lambda: self.instead(kernel.output)),
        )

    def _entry(self, code: Code, own: KernelSignature) -> KernelFunction:
        found = code.entry(self.compiler, own.tensors, own.offsets, self.timeout)
        if found is None:
            raise CodegenError(
                "the compiled kernels vanished from the cache while they were loaded\n  try it again"
            )
        return found

    def instead(self, name: str) -> KernelFunction:
        """The generated code of a statement that a library fails to run."""
        k = next(k for k, kernel in enumerate(self.left) if kernel.output == name)
        (code,) = self._compiled({self.keys[k]: self._generated(k)}).values()
        return self._entry(code, self.units[self.first[self.keys[k]]])

    def _kept(self, key: str) -> Mapping[str, Any] | None:
        """What is kept under a key; None where that is nothing, or in doubt while there is time to look into it once more."""
        try:
            row, is_settled = json.loads(MADE.read(key) or b"[null, true]")
            row = None if row is None else dict(row)
        except (ValueError, TypeError) as error:
            _warn(error)
            return None
        if row is None or not (is_settled or key in _looked or not leaves_time()):
            return None
        self.is_settled = self.is_settled and is_settled
        return row

    def _keep(self, key: str, row: Mapping[str, Any], is_settled: bool) -> None:
        self.is_settled = self.is_settled and is_settled
        _looked.add(key)
        MADE.replace(key, json.dumps([row, is_settled]).encode())


def compile_together(makings: Sequence[KernelBuilder]) -> None:
    """Compile what nothing is kept of, for programs that are made with the same compiler; what fails is told to whoever needs it."""
    waiting = dict[str, tuple[str, Function]]()
    for number, making in enumerate(makings):
        with suppress(EinalgError):
            waiting |= {
                f"{number}.{kernel.output}": making.code_of(kernel) for kernel in making.open()
            }
    with suppress(EinalgError):
        for making in makings[:1]:
            making.placed(waiting)


def _as_eop(kernel: Kernel) -> Kernel:
    """A kernel as an eOperator, whatever operator it is."""
    return Kernel(EOP, kernel.sizes, kernel.inputs, kernel.output, scope=kernel.scope)


def _warn(error: Exception) -> None:
    LOG.warning(
        "einalg: a generated kernel in the cache is damaged (%s); it is generated again", error
    )
