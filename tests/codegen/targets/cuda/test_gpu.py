"""The cases of the other CUDA tests on a real device, through PyCUDA: `make gpu-test`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import einalg as ea
from codegen.program.compile import checked_kernels
from codegen.program.cuda_executable import compile_cuda
from codegen.targets.cuda.device.array import DeviceArray
from codegen.targets.cuda.device.find import find_driver
from codegen.targets.cuda.lowering.threads.schedule import CUDA_DEFAULT
from einalg.errors import DeviceError
from einalg.language.ir.program import Program, as_program
from tests.helpers.cuda_kernels import TIGHT, check
from tests.helpers.cuda_limits import LARGE
from tests.helpers.expressions.values import ARRAYS, CASES, arrays_for, expected
from tests.helpers.kernels import evaluated, flat
from tests.helpers.operators.harness import CASES as OPERATORS
from tests.helpers.operators.harness import load_cases, parameter_sets

load_cases()
pytestmark = pytest.mark.gpu
SCHEDULES = {"default schedule": CUDA_DEFAULT, "tight schedule": TIGHT}


@pytest.fixture(scope="module", autouse=True)
def device() -> Any:
    try:
        return find_driver()
    except DeviceError as error:
        pytest.skip(str(error))


def run(program: Program, arrays: Any, schedule: Any = CUDA_DEFAULT) -> dict[str, Any]:
    is_chosen = schedule is CUDA_DEFAULT
    found = compile_cuda(program, checked_kernels(program, None), schedule, is_chosen)(
        **{name: arrays[name] for name in program.inputs}
    )
    return found if isinstance(found, dict) else {program.outputs[0]: found}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", CASES)
def test_expression(name: str, schedule: str) -> None:
    check(CASES[name], expected(name), run(CASES[name], ARRAYS[name], SCHEDULES[schedule]))


@pytest.mark.parametrize("name", sorted(OPERATORS))
def test_operator(name: str) -> None:
    for case in OPERATORS[name].values():
        for _, (expression, arrays, wanted) in parameter_sets(name, case, 2):
            program = flat(expression)
            check(
                program,
                wanted if isinstance(wanted, dict) else {program.outputs[0]: wanted},
                run(program, arrays),
            )


@pytest.mark.parametrize("name", [name for name in LARGE if name != "wide"])
def test_large_kernels(name: str) -> None:
    from einalg.language.interpreters.numpy import execute

    program = as_program(LARGE[name]())
    arrays = arrays_for(name, program)
    check(program, execute(program, arrays), run(program, arrays))


def test_every_order_of_threads_is_one_result() -> None:
    """A race would show as runs that differ."""
    program = as_program(LARGE["product"]())
    arrays = arrays_for("again", program)
    compiled = compile_cuda(program, checked_kernels(program, None))
    first = compiled(**arrays)
    assert all(np.array_equal(first, compiled(**arrays)) for _ in range(20))


def test_kernels_that_are_started_together() -> None:
    """One by one at first, and as a graph where a call meets the same addresses again; each has
    values of its own.
    """
    driver = find_driver()
    program = as_program(
        ea.parse(
            "T[i,j] += A[i,k]*B[k,j]\nU[i,j] = T[i,j] + C[j]\nO[i] += U[i,j]*T[i,j]",
            A=(65, 33),
            B=(33, 17),
            C=(17,),
        )
    )
    compiled, copy = (compile_cuda(program, checked_kernels(program, None)) for _ in range(2))
    rng = np.random.default_rng(1)
    several = [
        {
            name: rng.integers(-3, 4, t.shape).astype(np.float32)
            for name, t in program.inputs.items()
        }
        for _ in range(2)
    ]
    there = [
        {
            name: DeviceArray(driver, copied(driver, array), array.shape, "f32")
            for name, array in arrays.items()
        }
        for arrays in several
    ]
    for _ in range(4):
        for arrays, on_device in zip(several, there):
            product = arrays["A"] @ arrays["B"]
            expected = ((product + arrays["C"]) * product).sum(1)
            assert np.array_equal(compiled(**arrays), expected)
            assert np.array_equal(compiled(**on_device).get(), expected)
            results = [copy(**on_device) for _ in range(3)]
            assert all(np.array_equal(result.get(), expected) for result in results)
    assert getattr(driver, "has_graphs"), "graphs were made and launched"  # noqa: B009
    assert compiled.time(2).keys() == {"T", "U", "O"}


def copied(driver: Any, array: Any) -> Any:
    memory = driver.allocate(array.nbytes)
    driver.upload(memory.address, array)
    return memory


def test_arrays_of_torch_pass_by_address() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no CUDA here")
    a = torch.rand(100, 200, device="cuda")
    program = as_program(ea.parse("O[i] += A[i,j]", A=(100, 200)))
    found = compile_cuda(program, checked_kernels(program, None))(A=a)
    assert isinstance(found, DeviceArray)
    torch.testing.assert_close(torch.as_tensor(found, device="cuda"), a.sum(1))


def test_out_of_memory() -> None:
    i, j = ea.indices("i j")
    program = as_program(ea.L[i, j : 1 << 22](ea.tensor("A", (1 << 20,))[i] + 1))  # 16 TiB
    with pytest.raises(DeviceError, match="no memory for"):
        run(program, {"A": np.zeros(1 << 20)})


def test_random_programs() -> None:
    from hypothesis import HealthCheck, Phase, given, settings

    from tests.helpers.random_programs import programs_with_arrays

    @settings(max_examples=100, suppress_health_check=list(HealthCheck), phases=(Phase.generate,))
    @given(programs_with_arrays())
    def compare(case: Any) -> None:
        program, arrays = case
        check(program, evaluated(program, arrays), run(program, arrays, TIGHT))

    compare()
