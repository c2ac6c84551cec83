"""Recurrent networks as single operators while torch traces.

To determine their shapes, torch would go through all steps, again in each of its passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

STATE_COUNTS = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}
WEIGHTS_POSITION = 2  # among the arguments
ARGUMENTS = (
    "Tensor[] weights, bool biased, int layers, float dropout, bool training, "
    "bool both_ways, bool batch_first"
)


def without_unrolling() -> AbstractContextManager[Any]:
    """Return a context in which torch's recurrent functions are operators of einalg.

    These have the names of torch's own, for example `lstm.input`.
    """
    from torch.overrides import TorchFunctionMode

    operators = _operators(_library())

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self,
            func: Any,
            types: Any,
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            if func not in operators or _is_packed(args) or kwargs:
                return func(*args, **(kwargs or {}))
            return operators[func](*args)

    return Mode()


def _is_packed(args: Sequence[Any]) -> bool:
    """Return whether the lengths of the batches come before the weights."""
    return len(args) > WEIGHTS_POSITION + 1 and isinstance(
        args[WEIGHTS_POSITION + 1], (list, tuple)
    )


@cache
def _library() -> Any:
    """Return the library of the operators, which end with it."""
    import torch

    return torch.library.Library("einalg", "DEF")


@cache
def _operators(library: Any) -> dict[Any, Any]:
    """Return the operator in the place of each function of torch."""
    import torch

    operators: dict[Any, Any] = {}
    for name, states in STATE_COUNTS.items():
        state_type = "Tensor"
        if states > 1:
            state_type = "Tensor[]"
        results = ", ".join(["Tensor"] * (1 + states))
        library.define(f"{name}.input(Tensor x, {state_type} states, {ARGUMENTS}) -> ({results})")
        library.impl(f"{name}.input", getattr(torch, name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"einalg::{name}.input", _shape_function(states), lib=library)
        operators[getattr(torch, name)] = getattr(torch.ops.einalg, name).input
    return operators


def _shape_function(states: int) -> Callable[..., Any]:
    """Return a function that makes results without values.

    Those are the outputs of all steps, and states like those before the first step.
    """

    def fake(
        x: Any,
        before: Any,
        weights: Any,
        biased: bool,
        layers: int,
        dropout: float,
        training: bool,
        both_ways: bool,
        first: bool,
    ) -> Any:
        every = [before]
        if states > 1:
            every = list(before)
        outputs = x.new_empty((*x.shape[:2], every[0].shape[-1] * (1 + both_ways)))
        return outputs, *(state.new_empty(state.shape) for state in every)

    return fake
