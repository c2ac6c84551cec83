"""How fast an expression runs in every way that is known, from Python and at the command line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import einalg as ea
from codegen.measure import baselines
from derive.results.timings import Timing, Timings
from einalg.cli import app
from einalg.cli.commands import bench
from einalg.runtime.measurement import Measurement
from einalg.text.wording import AS_WRITTEN
from tests.helpers.measurements import exactly

WEIGHT = ea.tensor("W", (5, 3), role="weight")


def compared(text: str, **shapes: object) -> dict[str, Timing]:
    timings = ea.derive(ea.parse(text, **shapes), states=3).compare()
    assert [t.seconds for t in timings] == sorted(t.seconds for t in timings) and all(
        0 <= t.error < 1e-5 for t in timings
    )
    return {timing.way: timing for timing in timings}


def test_an_operator_is_compared_with_libraries() -> None:
    ways = compared("O[i,j] += A[i,k]*W[k,j]", A=(4, 5), W=WEIGHT)
    assert {baselines.EXECUTOR, baselines.LOOPS, "numpy", AS_WRITTEN} <= set(ways)
    assert ways["numpy"].operators == ("matmul",) and ways[baselines.LOOPS].operators == ()


def test_what_is_no_operator_is_compared_with_what_is_written() -> None:
    ways = compared("O[i] = A[i]*B[i//2] + 1", A=(6,), B=(3,))
    assert set(ways) == {baselines.EXECUTOR, baselines.LOOPS, AS_WRITTEN}


def test_a_library_takes_part_where_it_has_every_operator() -> None:
    """A product by NumPy, and what is around it by loops."""
    ways = compared("T[i,j] += A[i,k]*B[k,j]\nO[i,j] = Max(T[i,j], 0)", A=(4, 5), B=(5, 3))
    assert ways["numpy"].operators[0] == "matmul" and len(ways["numpy"].operators) == 2


def test_without_a_compiler_numpy_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    d = ea.derive(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3)), states=0, measure=False)
    monkeypatch.setattr(baselines, "find_compiler", lambda: None)
    assert list(baselines.as_written(d.best.program, d.best.kernels)) == [baselines.EXECUTOR]


def test_the_expression_as_it_is_written_is_compared_whatever_its_place() -> None:
    """Its name and its measurement are those of the derivation."""
    d = ea.derive(ea.parse("O[i,j] += A[i,k]*B[k,j]", A=(4, 5), B=(5, 3)), states=3)
    timings = d.compare(0)
    assert timings.written is not None and timings.written.operators == d.original.operators
    assert str(d.costs([d.original])).splitlines()[0].endswith(AS_WRITTEN)
    assert f"as fast as the expression {AS_WRITTEN}" in str(timings)


def test_a_table_in_jupyter() -> None:
    timings = Timings(
        [Timing(AS_WRITTEN, exactly(2.0), 0.0, ()), Timing("<a>", exactly(1.0), 0.0, ("matmul",))]
    )
    html = timings._repr_html_()
    assert html.count("<tr>") == 3 and ">2.0x (2.0 to 2.0)</td>" in html
    assert html.index(">&lt;a&gt;</th>") < html.index(f">{AS_WRITTEN}</th>")


def test_a_busy_machine_is_said() -> None:
    timings = Timings(
        [
            Timing(AS_WRITTEN, exactly(2.0), 0.0, ()),
            Timing("a", Measurement(1.0, 1.5, 2.0, 9, busy=True), 0.0, ()),
        ]
    )
    assert "1.3 to 2.0x" in str(timings) and "the machine is busy" in str(timings)
    assert "the machine is busy" in timings._repr_html_()


MATMUL = [
    "bench",
    "O[i,j] += A[i,k]*B[k,j]",
    "--A",
    "4,5",
    "--B",
    "5,3",
    "--states",
    "2",
    "--without",
    "torch",
]


def test_at_the_command_line() -> None:
    result = CliRunner().invoke(app.cli, MATMUL)
    assert result.exit_code == 0 and AS_WRITTEN in result.stdout and "numpy" in result.stdout, (
        result.output
    )
    assert max(map(len, result.stdout.splitlines())) <= 80
    record = json.loads(CliRunner().invoke(app.cli, [*MATMUL, "--json"]).stdout)
    assert {"way", "seconds", "measurement", "error", "operators"} == set(
        record["ways"][0]
    ) and record["text"].startswith("O[i:4, j:3]")


@pytest.mark.parametrize(("without", "expected"), [([], ["torch"]), (["--without", "torch"], [])])
def test_torch_takes_part_unless_it_is_left_out(
    monkeypatch: pytest.MonkeyPatch, without: list[str], expected: list[str]
) -> None:
    imported: list[str] = []
    monkeypatch.setattr(bench, "find_spec", lambda name: name)
    monkeypatch.setattr(bench, "import_module", imported.append)
    result = CliRunner().invoke(
        app.cli, ["bench", "O[i] = A[i]", "--A", "4", "--states", "0", *without]
    )
    assert result.exit_code == 0 and imported == expected, result.output
