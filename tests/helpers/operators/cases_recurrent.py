"""Recurrent cells against torch in float64."""

from __future__ import annotations

from typing import Any

import einalg as ea
from einalg.language import ops
from tests.helpers.operators.harness import case, flip, floats, size, torch_module


def _cell(rng: Any, gates: int, states: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arrays and tensors by the name of the parameter; a bias that is absent is None, states are
    named like the outputs at times.
    """
    torch_module()
    batch, inputs, hidden = (
        [size(rng, 1, 3)] if flip(rng, 0.8) else [],
        size(rng, 1, 5),
        size(rng, 1, 5),
    )
    shapes = {"x": (*batch, inputs)} | dict.fromkeys(states, (*batch, hidden))
    shapes |= {
        "w_ih": (gates * hidden, inputs),
        "w_hh": (gates * hidden, hidden),
        "b_ih": (gates * hidden,),
        "b_hh": (gates * hidden,),
    }
    present = {name: name[0] != "b" or flip(rng, 0.7) for name in shapes}
    arrays = {name: floats(rng, shape) if present[name] else None for name, shape in shapes.items()}
    prefix = "" if flip(rng) else "in_"
    return arrays, {
        name: None if array is None else ea.tensor(prefix + name, array.shape)
        for name, array in arrays.items()
    }


def _given(arrays: dict[str, Any], tensors: dict[str, Any]) -> dict[str, Any]:
    return {tensor.name: arrays[name] for name, tensor in tensors.items() if tensor is not None}


def _torch(arrays: dict[str, Any]) -> dict[str, Any]:
    torch = torch_module()
    return {
        name: None if array is None else torch.from_numpy(array) for name, array in arrays.items()
    }


def _both_biases(values: dict[str, Any], cell: Any, state: Any) -> Any:
    """torch's function, which wants both biases or none."""
    torch = torch_module()
    zero = torch.zeros(len(values["w_ih"]), dtype=torch.float64)
    biases = [zero if values[name] is None else values[name] for name in ("b_ih", "b_hh")]
    batched = values["x"].reshape(-1, values["x"].shape[-1])
    return cell(batched, state, values["w_ih"], values["w_hh"], *biases)


@case("lstm_cell")
def lstm(rng: Any) -> Any:
    arrays, tensors = _cell(rng, 4, ("h", "c"))
    values, torch = _torch(arrays), torch_module()
    shape, hidden = arrays["h"].shape, arrays["h"].shape[-1]
    h, c = _both_biases(
        values, torch.lstm_cell, [values[name].reshape(-1, hidden) for name in ("h", "c")]
    )
    program = ops.lstm_cell(**tensors)
    assert program.outputs == (("h", "c") if tensors["h"].name != "h" else ("h_", "c_"))
    return (
        program,
        _given(arrays, tensors),
        dict(zip(program.outputs, (h.numpy().reshape(shape), c.numpy().reshape(shape)))),
    )


@case("gru_cell")
def gru(rng: Any) -> Any:
    arrays, tensors = _cell(rng, 3, ("h",))
    values, torch = _torch(arrays), torch_module()
    shape = arrays["h"].shape
    h = _both_biases(values, torch.gru_cell, values["h"].reshape(-1, shape[-1]))
    program = ops.gru_cell(**tensors)
    assert program.outputs == (("h",) if tensors["h"].name != "h" else ("h_",))
    return program, _given(arrays, tensors), h.numpy().reshape(shape)
