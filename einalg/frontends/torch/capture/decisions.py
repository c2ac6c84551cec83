"""Branches of a module that depend on values: taken as the weights say, refused where inputs would
decide.

`torch.nn.TransformerDecoder` asks for example whether its mask is causal. torch.export knows no
values; where real ones go with its tensors, every branch is taken as they say, with assertions in
the graph on what was decided.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

LOG_OF_VALUES = "torch.fx.experimental.symbolic_shapes"  # which warns of each decision
ASSERTIONS = (
    "_assert_scalar.default",
    "_assert_async.msg",
    "_assert_async.default",
    "sym_constrain_range.default",
    "sym_constrain_range_for_size.default",
)
VALUES = ("item.default", "_local_scalar_dense.default", "is_nonzero.default")


def export_deciding(export: Callable[[], Any]) -> Any:
    """Return the program of `export`, or one in which weights have decided what it depends on.

    Raises what `export` raises where inputs would decide.
    """
    from torch._functorch import config
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    try:
        return export()
    except GuardOnDataDependentSymNode as error:
        with config.patch(fake_tensor_propagate_real_tensors=True), _without_warnings():
            program = export()
        if _input_decides(program):
            raise error
    _remove_assertions(program.graph)
    program.graph_module.recompile()
    return program


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence what torch tells of its decisions."""
    log = logging.getLogger(LOG_OF_VALUES)
    was_disabled, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = was_disabled


def _input_decides(program: Any) -> bool:
    """Tell whether a value that is looked at, or asserted, depends on an input."""
    dependent = set(program.graph_signature.user_inputs)
    for node in program.graph.nodes:
        if any(read.name in dependent for read in node.all_input_nodes):
            dependent.add(node.name)
            if _name(node) in (*ASSERTIONS, *VALUES):
                return True
    return False


def _remove_assertions(graph: Any) -> None:
    """Remove the assertions on weights, and what is computed for them alone."""
    for node in reversed(graph.nodes):
        if _name(node) in ASSERTIONS:
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _name(node: Any) -> str:
    """Return the name of an operator with its overload; of another target, its text."""
    return str(node.target).removeprefix("aten.")
