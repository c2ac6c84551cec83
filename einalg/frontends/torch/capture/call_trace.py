"""Which operators a call of a module calls, determined on shapes alone.

That decides whether a module still is the one that was exported once. Exporting takes seconds;
following a known call takes milliseconds, because not even shapes are computed then.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from einalg.frontends.torch.capture.module_state import unchanged
from einalg.frontends.torch.capture.recurrent_ops import without_unrolling
from einalg.frontends.torch.capture.shape_trace import (
    Answer,
    Row,
    ShapeTrace,
    Unrecorded,
    argument_text,
    dispatch_mode,
    shape_row,
)

LOG = logging.getLogger("einalg")
Call = list[Any]  # an operator with its arguments as text, then the row of its results


def record_calls(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> list[Call] | None:
    """Return the operators of a call, for example `["aten.relu.default [%0] {}", row]`.

    The last one stands for what the call returns. None where values decide, or anything but the
    CPU takes part.
    """
    calls: list[Call] = []

    def answer(text: str, compute: Callable[[], Row]) -> Row:
        calls.append([text, compute()])
        return calls[-1][1]

    if not _follow(module, arguments, keywords, answer):
        return None
    return calls


def repeats_calls(
    calls: Sequence[Call], module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> bool:
    """Return whether a call calls just these operators with these arguments."""
    left = iter(calls)

    def answer(text: str, compute: Callable[[], Row]) -> Row:
        expected, row = next(left, ("", None))
        if text != expected:
            raise Unrecorded(f"{text} in the place of {expected or 'nothing'}")
        return row

    return _follow(module, arguments, keywords, answer) and next(left, None) is None


def describe_call(module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> str | None:
    """Return what is seen of a call before it is made, as text.

    These are the modules, names and shapes of weights, and the arguments. None where a call is not
    recorded: autocast would keep weights without values for the next call of the module.
    """
    import torch
    from torch.utils._pytree import tree_flatten

    if torch.is_autocast_enabled("cpu"):
        return None
    leaves, spec = tree_flatten((tuple(arguments), dict(keywords)))
    try:
        leaf_rows = [_leaf_row(leaf) for leaf in leaves]
        weights = _weight_rows(module)
    except (Unrecorded, RuntimeError, ValueError):
        # Torch raises the last two for a parameter that has no shape yet.
        return None
    modules = [_module_row(name, part) for name, part in module.named_modules()]
    default = torch.get_default_dtype()
    return repr((torch.__version__, default, modules, weights, str(spec), leaf_rows))


def named_tensors(module: Any) -> dict[str, Any]:
    """Return parameters and buffers by name; one that has several names is under each."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _leaf_row(leaf: Any) -> Any:
    import torch

    if isinstance(leaf, torch.Tensor):
        return shape_row(leaf)
    return argument_text(leaf, {})


def _weight_rows(module: Any) -> list[tuple[str, Any, str]]:
    """Return name and shape of each weight, and the first name of the same tensor."""
    first: dict[int, str] = {}
    rows: list[tuple[str, Any, str]] = []
    for name, tensor in named_tensors(module).items():
        rows.append((name, shape_row(tensor), first.setdefault(id(tensor), name)))
    return rows


def _module_row(name: str, part: Any) -> tuple[str, str, dict[str, Any]]:
    """Return a module with its class and its attributes that are plain values."""
    plain = {key: value for key, value in part.__dict__.items() if _is_plain(value)}
    return name, f"{type(part).__module__}.{type(part).__qualname__}", plain


def _is_plain(value: Any) -> bool:
    if value is None or type(value) in (bool, int, float, str):
        return True
    return type(value) in (tuple, list) and all(map(_is_plain, value))


def _follow(
    module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any], answer: Answer
) -> bool:
    """Make a call on shapes, with the results of every operator from `answer`.

    Returns whether it came to its end, and left the module as it was.
    """
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        return False
    names: dict[int, str] = {}
    for name, tensor in named_tensors(module).items():
        names.setdefault(id(tensor), name)
    trace = ShapeTrace(names, answer)
    try:
        _call_on_shapes(trace, module, arguments, keywords)
    except Exception as error:  # whatever a module raises: exporting it reports that better
        LOG.debug("einalg: a call of %s is not recorded: %s", type(module).__name__, error)
        return False
    return True


def _call_on_shapes(
    trace: ShapeTrace, module: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> None:
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    leaves, spec = tree_flatten((tuple(arguments), dict(keywords)))
    inputs: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            leaf = trace.add_input(leaf)
        inputs.append(leaf)
    args, kwargs = tree_unflatten(inputs, spec)
    with torch.no_grad(), unchanged(module):
        with without_unrolling(), dispatch_mode(trace):
            result = module(*args, **kwargs)
        results, result_spec = tree_flatten(result)
        trace.answer(f"return {result_spec} {trace.text(results)}", lambda: None)
