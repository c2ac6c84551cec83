"""An optimized network: a callable with the programs that replace its parts (design §11)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np

from derive.cost.backend import Backend, Runnable
from derive.matching import kernels_of
from derive.programs.artifact import load, require_programs, save
from derive.programs.optimized_program import OptimizedProgram
from derive.programs.report import Report
from derive.rules.inter.lifting_nesting import lifted
from einalg.errors import UseError
from einalg.frontends.graph import Graph, OpaqueNode, ProgramNode
from einalg.frontends.network import IN_FRAMEWORK
from einalg.language.analysis.batching import Slices
from einalg.language.ir.kernel import Kernel
from einalg.language.ir.program import Program, statement_tensor
from einalg.runtime.direct_call import DirectCall
from einalg.runtime.measurement import Measurement
from einalg.storage.fingerprint import array_digest, text_digest

Array = np.ndarray[Any, Any]
_Run = tuple[Runnable | None, list[str]]  # what runs, and its inputs that are no weights


class OptimizedNetwork:
    """A network that runs: call it with arrays of its inputs, in order.

    `parts` and `opaque` say what was done.

    `times` are those of a call of the model as its framework runs it and as it is now, None where
    no framework does. `key` is what these depend on, and `is_known` says that this is all: nothing
    is a call of the framework, and no part was optimized anew. `backend` compiled it; `notes` are
    more lines of the report.
    """

    def __init__(
        self,
        graph: Graph,
        parts: Mapping[int, OptimizedProgram],
        seconds: float,
        key: str = "",
        is_known: bool = False,
        backend: Backend | None = None,
    ):
        self.backend = backend
        self.notes: tuple[str, ...] = ()
        self.graph, self.parts, self.seconds = graph, dict(parts), seconds
        self.phases: dict[str, float] = {}  # the seconds of each phase
        self.is_postponed = False  # whether it is compiled only once it is looked at
        self.key, self.is_known = key, is_known
        self.measurements: tuple[Measurement, Measurement] | None = None
        self.framework_place = IN_FRAMEWORK  # where it ran when it was measured, in words
        self._runs: dict[int, _Run] = {}  # by the identity of a program
        for position, node in enumerate(graph.nodes):
            if isinstance(node, ProgramNode):
                part = self.parts[position]
                inputs = [name for name in part.before.inputs if name not in graph.weights]
                self._runs[id(node.program)] = part.run, inputs
        self._calls = replace(graph, weights=_unbound_weights(graph))

    def hold_weights(self) -> None:
        """Copy the weights that calls of the framework read, as programs have copies of theirs."""
        copies = {name: np.array(array) for name, array in self._calls.weights.items()}
        self._calls = replace(self._calls, weights=copies)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        """Return the network itself: nothing of it changes."""
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise UseError(
            "an optimized network cannot be pickled: it is compiled for this process\n"
            "  write it with save(path), and read it with einalg.Optimized.load(path); "
            "or optimize the model again, which the cache makes quick"
        )

    def __repr__(self) -> str:
        return str(self.report).partition("\n\n")[0]

    @property
    def times(self) -> tuple[float, float] | None:
        """Seconds of a call of the model as it was, and of the optimized network; None where
        these were not measured. `measurements` has their spread.
        """
        if self.measurements is None:
            return None
        before, after = self.measurements
        return before.seconds, after.seconds

    @property
    def report(self) -> Report:
        """The report, layer by layer: `print` it, or look at it in Jupyter."""
        return Report(
            list(self.parts.values()),
            self.opaque,
            self.seconds,
            self.measurements,
            self.notes,
            self.phases,
            self.framework_place,
        )

    @property
    def opaque(self) -> list[OpaqueNode]:
        """The nodes that stay calls of the framework."""
        return self.graph.opaque

    def identity(self) -> str | None:
        """Return a digest of all that its results depend on: programs and weights, the kernels that
        run, and the calls of the framework. None where something of it is not known.
        """
        graph = self.graph
        rows = [self.key, array_digest(self._calls.weights.items())]
        rows += map(str, (graph.outputs, [(t.name, t.shape, t.dtype) for t in graph.inputs]))
        for position, node in enumerate(graph.nodes):
            content: str | None = None
            if isinstance(node, OpaqueNode):
                content = node.identity()
            elif position in self.parts:
                content = self.parts[position].identity
            if content is None:
                return None
            rows.append(f"{node.operator} {node.inputs} {node.outputs} {content}")
        return text_digest(*rows)

    def copied_weights(self) -> frozenset[str]:
        """Return the weights of the graph whose later changes programs do not see."""
        names: set[str] = set()
        for part in self.parts.values():
            assert part.run is not None
            names |= part.run.copied
        return frozenset(names)

    def save(self, path: Any, language: str = "c") -> None:
        """Write the network into a new folder: programs, weights, the report, the sources.

        `load` runs it without the front ends. The sources are in `language`. Raises `RecordError`
        where something stays a call of the framework, or the folder holds anything already.
        """
        save(self.graph, self.parts, self.seconds, str(self.report), path, language)

    def programs(self) -> list[tuple[Program, tuple[Kernel, ...], Slices | None]]:
        """Return the optimized programs in order, flat, each with its kernels and its slices.

        Slices are those of a program that computes one of them, None for others. Raises
        `RecordError` where something stays a call of the framework.
        """
        require_programs(self.opaque)
        programs = []
        for part in self.parts.values():
            program = lifted(part.after)
            programs.append((program, kernels_of(program), part.slices))
        return programs

    @classmethod
    def load(cls, path: Any, backend: Backend) -> OptimizedNetwork:
        """Read a saved network, and compile it for this machine.

        Raises `RecordError` where the folder is damaged.
        """
        return cls(*load(path, backend))

    def direct(self) -> DirectCall | None:
        """Return the network as a function of addresses.

        None where it is not one program that reads every input and makes every output.
        """
        inputs, outputs = self.graph.inputs, self.graph.outputs
        if len(self.graph.nodes) != 1:
            return None
        (node,) = self.graph.nodes
        if not isinstance(node, ProgramNode) or sorted(node.outputs) != sorted(outputs):
            return None
        run, read = self._runs[id(node.program)]
        names = [tensor.name for tensor in inputs]
        if run is None or sorted(read) != sorted(names):
            return None
        call = run.direct([*names, *outputs])
        if call is None:
            return None
        results = [statement_tensor(name, node.program[name]) for name in outputs]
        return DirectCall(inputs, tuple(results), call)

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        """Return the outputs as new arrays; `ShapeError` for inputs of another number or shape."""
        return self._calls.run(arrays, self._computed)

    def _computed(self, program: Program, values: Mapping[str, Array]) -> Mapping[str, Array]:
        run, read = self._runs[id(program)]
        assert run is not None
        result = run(**{name: values[name] for name in read})
        return result if isinstance(result, dict) else {program.outputs[0]: result}


def repeated_programs(
    parts: Iterable[OptimizedProgram],
) -> list[tuple[Program, tuple[Kernel, ...], int]]:
    """Return optimized programs, flat, each with its kernels and its runs in a call."""
    programs = []
    for part in parts:
        program = lifted(part.after)
        count = part.slices.count if part.slices is not None else 1
        programs.append((program, kernels_of(program), count))
    return programs


def _unbound_weights(graph: Graph) -> dict[str, Array]:
    """Return the weights that calls of the framework read, or that are outputs.

    Programs hold those that they read.
    """
    read = set(graph.outputs)
    for node in graph.opaque:
        read.update(node.inputs)
    return {name: array for name, array in graph.weights.items() if name in read}
