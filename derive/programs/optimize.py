"""A whole network made faster: every program of its graph is optimized, or read from disk (§11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from derive.cost.backend import Backend
from derive.cost.memory import memory_bytes
from derive.programs.forms.rewriting.rule_set import NO_RULES, RuleSet
from derive.programs.optimize_program import optimize_program
from derive.programs.optimized import Array, OptimizedNetwork
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
from einalg.runtime.clock import CHECKING, Clock, check_time
from einalg.storage.fingerprint import text_digest

MAX_MEMORY_SHARE = 0.125  # of a machine's memory, for the results of one program
MANY_STATEMENTS = 64  # of a network, whose compilation takes about a second
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
) -> OptimizedNetwork:
    """Optimize every program of a graph on the arrays of a call.

    An interrupt keeps what was found until then. The seconds are those of the `clock`, if there is
    one. With `nonfinite="exact"` no form is taken that makes elements NaN which are not. Where the
    network `is_compared` with its framework later, code that deviates is no error. Where it
    `may_give_up`, `OutOfTime` is raised once the time is over before there is any answer. Programs
    are rewritten by the `substitutions` where that is measured to be faster.
    """
    task = Task(
        backend,
        seconds,
        clock or Clock.of(seconds),
        budget or Budget(),
        progress,
        accuracy,
        nonfinite,
        is_compared,
        may_give_up,
        substitutions,
    )
    graph = _fitting_memory(fold_constants(graph).merged())

    @cache
    def values() -> dict[str, Array]:
        with task.clock.phase(CHECKING, "the reference"):
            return task.need(lambda: _values(graph, arrays))

    parts, keys = {}, []
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
            if part.is_right:
                part = keep_part(key, part)
            is_known = False
        keys.append(key)
        parts[position] = part
    key = text_digest(*keys)
    return OptimizedNetwork(graph, parts, task.clock.spent, key, is_known, backend)


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
    """Return the outputs of a program in double precision.

    They are computed slice by slice where the program has slices and is large.
    """
    split = one_of(lifted(program)) if _is_large(program) else None
    if split is None:
        return reference_outputs_of(program, known)
    return reference_outputs_of(split[0], known, split[1])


def reference_outputs_of(
    program: Program, known: Mapping[str, Array], slices: Slices | None = None
) -> dict[str, Array]:
    """Return the outputs in double precision, of all `slices` where the program is that of one."""
    if slices is None:
        return execute(in_double(program), known, between_blocks=check_time)
    parts = []
    for number in range(slices.count):
        one = slices.of(known, number)
        parts.append(execute(in_double(program), one, between_blocks=check_time))
    outputs = {}
    for name in program.outputs:
        outputs[name] = np.concatenate([part[name] for part in parts])
    return outputs
