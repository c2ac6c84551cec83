"""A whole network made faster: every program of its graph is optimized, or read from disk (§11)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from derive.cost.backend import Backend, Runnable
from derive.cost.memory import memory_bytes
from derive.programs.forms.rewriting.rule_set import NO_RULES, RuleSet
from derive.programs.optimization.optimize_program import optimize_program
from derive.programs.optimization.trial import ReferenceCall, Trial
from derive.programs.optimized import Array, OptimizedNetwork, repeated_programs
from derive.programs.optimized_program import (
    OptimizedProgram,
    compiled,
    keep_part,
    known_part,
    part_key,
)
from derive.programs.passes.batch_splitting import one_of
from derive.programs.passes.normalise import shaped
from derive.programs.postponed import Postponed
from derive.programs.task import Progress, Task
from derive.rules.inter.lifting_nesting import lifted
from derive.search.best_first import Budget
from einalg.frontends.constant_folding import fold_constants
from einalg.frontends.graph import Graph, ProgramNode
from einalg.language.analysis.batching import Slices
from einalg.language.interpreters.numpy import execute
from einalg.language.ir.program import Program, in_double
from einalg.runtime.clock import CHECKING, COMPILING, MEASURING, Clock, check_time
from einalg.storage.fingerprint import text_digest

log = logging.getLogger("einalg")

TUNING_SHARE = 0.75  # of the time for schedules; in the rest programs are compiled with these
MAX_MEMORY_SHARE = 0.125  # of a machine's memory, for the results of one program
MANY_STATEMENTS = 64  # of a network, whose compilation takes about a second
UNUSED_SCHEDULES = (
    "; time was over before all programs were compiled with what was found: later compilations "
    "use it"
)
REFERENCE_BYTES = 8  # of an element, which is in double precision


def optimized(  # noqa: PLR0913, PLR0917 - every option of an optimization
    graph: Graph,
    arrays: Sequence[Array],
    backend: Backend,
    seconds: float = 300.0,
    budget: Budget | None = None,
    progress: Progress | None = None,
    accuracy: float | None = None,
    clock: Clock | None = None,
    nonfinite: str = "spread",
    is_compared: bool = False,
    may_give_up: bool = False,
    substitutions: RuleSet = NO_RULES,
    tune: float = 0.0,
) -> OptimizedNetwork:
    """Optimize every program of a graph on the arrays of a call.

    An interrupt keeps what was found until then. The seconds are those of the `clock`, if there is
    one. With `nonfinite="exact"` no form is taken that makes elements NaN which are not. Where the
    network `is_compared` with its framework later, code that deviates is no error. Where it
    `may_give_up`, `OutOfTime` is raised once the time is over before there is any answer. Programs
    are rewritten by the `substitutions` where that is measured to be faster. The last `tune` of the
    seconds are for the schedules of what was found.
    """
    whole = clock or Clock.of(seconds)
    seconds = max(0.0, seconds - tune)
    task = Task(
        backend,
        seconds,
        whole.within(max(0.0, whole.left - tune)),
        budget or Budget(),
        progress,
        accuracy,
        nonfinite,
        is_compared,
        may_give_up,
        substitutions,
    )
    whole_task = replace(task, clock=whole)
    graph = _fitting_memory(fold_constants(graph).merged())

    @cache
    def values() -> dict[str, Array]:
        with whole.phase(CHECKING, "the reference"):
            return whole_task.need(lambda: _values(graph, arrays))

    parts, keys = {}, {}
    is_known = not graph.opaque  # of whose calls nothing is known but their names
    for position, node in enumerate(graph.nodes):
        if not isinstance(node, ProgramNode):
            continue
        program = node.program
        read = [name for name in program.inputs if name in graph.weights]
        weights = {name: graph.weights[name] for name in read}
        wishes = task.budget, accuracy, nonfinite, substitutions.identity
        key = part_key(program, weights, backend, *wishes)
        part = known_part(key, program, weights, seconds, backend)
        if part is None:
            part = optimize_program(program, weights, values(), task)
            assert part.run is not None
            if part.is_right and part.run.is_optimized:
                part = keep_part(key, part)
            is_known = False
        keys[position] = key
        parts[position] = part
    notes: tuple[str, ...] = ()
    if tune:
        retuning = Retuning(graph, keys, whole_task, values)
        notes = retuning.tune(parts, whole.within(TUNING_SHARE * tune))
    key = text_digest(*(f"{keys[position]} {part.identity}" for position, part in parts.items()))
    network = OptimizedNetwork(graph, parts, whole.spent, key, is_known, backend)
    network.notes = notes
    return network


@dataclass(frozen=True)
class Retuning:
    """The programs of a graph, by their positions, compiled anew with tuned schedules."""

    graph: Graph
    keys: Mapping[int, str]
    task: Task
    values: Callable[[], Mapping[str, Array]]

    def tune(self, parts: dict[int, OptimizedProgram], clock: Clock) -> tuple[str, ...]:
        """Search the schedules of programs, and put those that are faster in their places.

        Returns in words what was gained. Where there is no time to compile all of them, later
        compilations use the schedules, and the words say so.
        """
        words = self.task.backend.tune(repeated_programs(parts.values()), clock)
        if words is None:
            return ()
        with self.task.clock.bounding():
            for position, part in parts.items():
                parts[position] = self._faster(position, part)
            return (words,)
        return (words + UNUSED_SCHEDULES,)

    def _faster(self, position: int, part: OptimizedProgram) -> OptimizedProgram:
        """Return a program compiled anew, or as it was where it is not faster then."""
        weights = {n: self.graph.weights[n] for n in part.before.inputs if n in self.graph.weights}
        example = ReferenceCall.of(part.before, weights, self.values())
        backend, clock = self.task.backend, self.task.clock
        with clock.phase(COMPILING, "tuned kernels"):
            inputs = part.before.inputs
            run = compiled(part.after, backend, weights, part.slices, inputs=inputs)
        assert part.run is not None
        if not is_as_exact(example, run, part, self.task):
            return part
        with clock.phase(MEASURING, "tuned kernels"):
            before, after = backend.measure([part.run, run], example.inputs)
        if after.seconds >= before.seconds:
            return part
        times = None if part.times is None else (part.times[0], after)
        tuned = replace(part, run=run, times=times)
        if not part.is_right:
            return tuned
        return keep_part(self.keys[position], tuned)


def is_as_exact(example: ReferenceCall, run: Runnable, part: OptimizedProgram, task: Task) -> bool:
    """Say whether what runs is as exact as is asked for, or as a program is already."""
    allowed = max(part.error, Trial.of(example, task).max_error)
    error = example.error(run)
    if error > allowed:
        log.warning("einalg: a tuned program deviates by %.1e, and is not taken", error)
    return error <= allowed


def is_large(graph: Graph) -> bool:
    """Tell whether compiling a network as it is may take a second or more."""
    return graph.statement_count >= MANY_STATEMENTS


def postponed(graph: Graph, backend: Backend, seconds: float) -> OptimizedNetwork:
    """Return a network as it is, whose programs are compiled once they are looked at."""
    graph = _fitting_memory(fold_constants(graph).merged())
    parts = {}
    for position, node in enumerate(graph.nodes):
        if isinstance(node, ProgramNode):
            run: Any = Postponed(partial(compiled, node.program, backend, graph.weights))
            after = lifted(node.program)
            parts[position] = OptimizedProgram(node.program, after, run=run)
    network = OptimizedNetwork(graph, parts, seconds, backend=backend)
    network.is_postponed = True
    network.notes = ("not compiled: the time was over before that",)
    return network


def _fitting_memory(graph: Graph) -> Graph:
    """Normalise the programs whose results between statements would not fit in memory.

    Gathered windows are such results.
    """
    nodes = []
    for node in graph.nodes:
        if isinstance(node, ProgramNode) and _is_large(node.program):
            node = replace(node, program=shaped(node.program)[0])
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))


def _is_large(program: Program) -> bool:
    """Say whether all results of statements would hardly fit in memory at once."""
    size = sum(REFERENCE_BYTES * prod(scope.shape) for _, scope in program.statements)
    return size > memory_bytes() * MAX_MEMORY_SHARE


def _values(graph: Graph, arrays: Sequence[Array]) -> dict[str, Array]:
    """Return every value of the graph for a call, by the reference executor in double precision."""
    values: dict[str, Array] = {}

    def compute(program: Program, known: Mapping[str, Array]) -> Mapping[str, Array]:
        values.update(known)
        outputs = reference_outputs(program, known)
        values.update(outputs)
        return outputs

    graph.run(arrays, compute)
    return values


def reference_outputs(program: Program, known: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a program in double precision, as `interpreted_outputs` does."""
    return interpreted_outputs(in_double(program), known)


def interpreted_outputs(program: Program, known: Mapping[str, Array]) -> dict[str, Array]:
    """Return the outputs of a program by the interpreter, in its own types.

    They are computed slice by slice where the program has slices and is large.
    """
    split = one_of(lifted(program)) if _is_large(program) else None
    if split is None:
        return _interpreted(program, known)
    return _interpreted(split[0], known, split[1])


def reference_outputs_of(
    program: Program, known: Mapping[str, Array], slices: Slices | None = None
) -> dict[str, Array]:
    """Return the outputs in double precision, of all `slices` where the program is that of one."""
    return _interpreted(in_double(program), known, slices)


def _interpreted(
    program: Program, known: Mapping[str, Array], slices: Slices | None = None
) -> dict[str, Array]:
    if slices is None:
        return execute(program, known, between_blocks=check_time)
    parts = []
    for number in range(slices.count):
        one = slices.of(known, number)
        parts.append(execute(program, one, between_blocks=check_time))
    outputs = {}
    for name in program.outputs:
        outputs[name] = np.concatenate([part[name] for part in parts])
    return outputs
