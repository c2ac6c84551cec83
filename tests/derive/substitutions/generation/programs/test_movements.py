"""Operators that move elements, told from those that compute."""

from __future__ import annotations

from typing import Any

import pytest

from derive.substitutions.generation.programs.movements import Movements
from derive.substitutions.generation.programs.operators import operators_of
from derive.substitutions.generation.programs.space import ProgramSpace

MATRIX, DATA, KERNEL = (2, 3), (1, 2, 4, 4), (2, 2, 3, 3)
WINDOW = {"kernel": [(3, 3)], "stride": [(1, 1)], "pad": ["same"]}


@pytest.mark.parametrize(
    ("operator", "inputs", "is_movement"),
    [
        ("transpose", [MATRIX], True),
        (("concat", {"axis": [1]}), [MATRIX, MATRIX], True),
        (("flip", {"axes": [0]}), [MATRIX], True),
        (("enlarge", {"kernel": [(5, 5)]}), [KERNEL], True),
        (("slice", {"starts": [(1,)], "stops": [(2,)]}), [MATRIX], True),
        ("relu", [MATRIX], False),
        ("maximum", [MATRIX, MATRIX], False),
        ("add", [MATRIX, MATRIX], False),
        ("smul", [MATRIX, ()], False),
        (("poolmax", WINDOW), [DATA], False),
    ],
)
def test_movements(operator: Any, inputs: list[tuple[int, ...]], is_movement: bool) -> None:
    space = ProgramSpace(operators_of([operator], inputs), inputs)
    movements = Movements(space)
    operation = 0, tuple(range(len(inputs)))
    assert movements.is_movement(operation) == is_movement
    assert movements.computing([operation]) == (not is_movement)


@pytest.mark.parametrize("seed", range(40))
def test_few_elements_of_one_sign_are_no_movement(seed: int) -> None:
    """Of two elements, relu keeps both or none at half of all inputs, which says nothing."""
    space = ProgramSpace(operators_of(["relu"], [(1, 2)]), [(1, 2)], seed)
    assert not Movements(space).is_movement((0, (0,)))
