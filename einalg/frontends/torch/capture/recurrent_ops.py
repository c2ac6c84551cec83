"""Recurrent networks as one operator while torch traces: to find out their shapes it would go through all steps, again in each pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

NETWORKS = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}  # with how many states each has
WEIGHTS = 2  # their place among the arguments
ARGUMENTS = "Tensor[] weights, bool biased, int layers, float dropout, bool training, bool both_ways, bool batch_first"


def kept_whole() -> AbstractContextManager[Any]:
    """Within it, torch's functions of recurrent networks are calls of operators of ours, which are called as torch's own: `lstm.input`."""
    from torch.overrides import TorchFunctionMode

    networks = _networks(_library())

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self,
            func: Any,
            types: Any,
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            is_packed = len(args) > WEIGHTS + 1 and isinstance(
                args[WEIGHTS + 1], (list, tuple)
            )  # after the lengths of the batches
            if func not in networks or is_packed or kwargs:
                return func(*args, **(kwargs or {}))
            return networks[func](*args)

    return Mode()


@cache
def _library() -> Any:
    """Where the operators are; they end with it."""
    import torch

    return torch.library.Library("einalg", "DEF")


@cache
def _networks(library: Any) -> dict[Any, Any]:
    """The operator in the place of each function of torch."""
    import torch

    found = {}
    for name, states in NETWORKS.items():
        given, results = (
            ("Tensor[]" if states > 1 else "Tensor"),
            ", ".join(["Tensor"] * (1 + states)),
        )
        library.define(f"{name}.input(Tensor x, {given} states, {ARGUMENTS}) -> ({results})")
        library.impl(f"{name}.input", getattr(torch, name), "CompositeExplicitAutograd")
        torch.library.register_fake(f"einalg::{name}.input", _shapes(states), lib=library)
        found[getattr(torch, name)] = getattr(torch.ops.einalg, name).input
    return found


def _shapes(states: int) -> Callable[..., Any]:
    """Results without values: those of all steps, and the states after the last one, which are as those before the first."""

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
        every = [before] if states == 1 else list(before)
        outputs = x.new_empty((*x.shape[:2], every[0].shape[-1] * (1 + both_ways)))
        return outputs, *(state.new_empty(state.shape) for state in every)

    return fake
