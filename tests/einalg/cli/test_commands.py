"""The command line: what it prints, what it exits with, and what a mistake is answered with."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import click
import pytest
from click.testing import CliRunner

import einalg as ea
from codegen.measure.diagnostics import facts
from einalg.cli import app, output
from einalg.storage.disk_cache import DiskCache, cache_folder
from einalg.storage.fingerprint import text_digest
from einalg.text.terminal import wrapped
from tests.helpers.command_line import MATMUL, SUM, einalg, printed, refused

CONV = "O[n,f,h,w] += A.pad(0,0,1,1)[n,c,h+r-1,w+s-1]*K[f,c,r,s]"
CONV_SHAPES = ["--A", "1,64,56,56", "--K", "64,64,3,3"]
QUICK = ["--no-measure", "--states", "5"]


def valid(text: str) -> dict[str, Any]:
    record = json.loads(text)
    validator()(schema()).validate(record)
    return record


def validator() -> Any:
    from jsonschema import Draft202012Validator  # takes two seconds: not in every worker

    return Draft202012Validator


def schema() -> dict[str, Any]:
    return json.loads(printed("derive", "--schema"))


def test_derive_explains_within_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda: True)
    text = printed("derive", CONV, *CONV_SHAPES, "--explain", *QUICK)
    assert max(map(len, text.splitlines())) <= 80
    assert "conv2d(A, K)" in text and "given\n" in text and "verdict: proved" in text
    assert "h + r - 1" in " ".join(text.splitlines())


def test_a_pipe_gets_whole_lines() -> None:
    """Nothing is wrapped, coloured or drawn: a row of a table is a line with its cells."""
    text = printed("derive", CONV, *CONV_SHAPES, "--explain", *QUICK)
    assert ea.parse(CONV, A=(1, 64, 56, 56), K=(64, 64, 3, 3)) in [
        ea.parse(line, A=(1, 64, 56, 56), K=(64, 64, 3, 3))
        for line in text.splitlines()
        if line.startswith("    O[")
    ]
    assert "\x1b" not in text
    head = next(line for line in text.splitlines() if line.startswith("#"))
    rows = text.partition(f"{head}\n")[2].splitlines()
    assert head.split() == ["#", "ms", "how", "verdict", "moves", "kernels"]
    assert [row.split()[0] for row in rows[:3]] == ["0", "1", "2"]
    assert all(row.split()[3] == "proved" for row in rows[:3])


@pytest.mark.parametrize("command", ["derive", "bench"])
def test_a_shell_completes_the_names_of_operators(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMP_WORDS", f"einalg {command} --op conv")
    monkeypatch.setenv("COMP_CWORD", "3")
    monkeypatch.setenv("_EINALG_COMPLETE", "bash_complete")
    result = CliRunner().invoke(app.cli, prog_name="einalg", complete_var="_EINALG_COMPLETE")
    names = [line.removeprefix("plain,") for line in result.stdout.splitlines()]
    assert {"conv1d", "conv2d", "conv3d"} <= set(names)
    assert all(name.startswith("conv") for name in names) and names == sorted(set(names))


def test_derive_explains_the_candidate_that_is_asked_for() -> None:
    """The best one may be the expression as it is, of which there is nothing to tell."""
    text = printed("derive", CONV, *CONV_SHAPES, "--explain", *QUICK)
    assert (
        "add --save FILE, then einalg show FILE --candidate 1\n" in text
        and "1. " not in text.partition("given\n")[2]
    )
    other = printed("derive", CONV, *CONV_SHAPES, "--candidate", "1", *QUICK)
    assert "\n1. " in other.partition("given\n")[2] and "--candidate" not in other
    far = einalg("derive", CONV, *CONV_SHAPES, "--candidate", "999", *QUICK)
    assert (
        far.exit_code == 2 and "there is no candidate 999" in far.stderr and "cost: " in far.stdout
    )


def test_derive_json_is_valid() -> None:
    record = valid(printed(*MATMUL, "--json", "--explain", *QUICK))
    assert record["expression"]["inputs"]["A"] == {"shape": [4, 5], "dtype": "f32", "role": "input"}
    assert any(k["op"] == "matmul" for c in record["candidates"] for k in c["kernels"])
    assert "verdict: proved" in record["explanation"]
    assert "explanation" not in valid(printed(*MATMUL, "--json", *QUICK))


def test_derived_moves_are_valid() -> None:
    """Moves with arguments of every kind are in the record."""
    record = valid(
        printed(
            "derive",
            "O[h] += A.pad(0,1)[c,h+r-1]*K[r,c]",
            "--A",
            "8,16",
            "--K",
            "3,8",
            "--json",
            "--no-measure",
        )
    )
    assert any(c["moves"] for c in record["candidates"])


def test_schema_refuses_other_records() -> None:
    record = valid(printed(*MATMUL, "--json", *QUICK))
    validator().check_schema(schema())
    for wrong in (
        {**record, "more": 1},
        {**record, "candidates": []},
        {k: v for k, v in record.items() if k != "stats"},
    ):
        assert not validator()(schema()).is_valid(wrong)


def test_derive_measures() -> None:
    record = valid(printed(*MATMUL, "--json", "--states", "2"))
    best = record["candidates"][0]
    assert best["measured"] and best["seconds"] > 0 and best["error"] <= 1e-4


def test_derive_saves(tmp_path: Path) -> None:
    path = tmp_path / "matmul.json"
    printed(*MATMUL, "--save", str(path), *QUICK)
    assert ea.Derivation.load(path).best.verdict == "proved"
    assert "no folder" in refused(*MATMUL, "--save", str(tmp_path / "none" / "x.json"))


def test_derive_writes_c(tmp_path: Path) -> None:
    folder = tmp_path / "product"
    result = einalg(*MATMUL, "--export-c", str(folder), *QUICK)
    assert result.stderr == f"written as C into {folder}\n" and result.exit_code == 0
    assert (folder / "product.h").is_file() and (folder / "main.c").is_file()
    again = einalg(*MATMUL, "--export-c", str(tmp_path), *QUICK)
    assert again.exit_code == 2 and "no export has written it" in again.stderr


def saved(tmp_path: Path) -> str:
    path = tmp_path / "conv.json"
    result = einalg("derive", CONV, *CONV_SHAPES, "--explain", "--save", str(path), *QUICK)
    assert result.stderr == f"saved in {path}\n" and result.stdout.endswith(
        f"\n  einalg show {path} --candidate 1\n"
    )
    return str(path)


def test_what_was_saved_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the file: nothing is searched again, so a number means the candidate that it meant."""
    path = saved(tmp_path)
    monkeypatch.delattr(ea, "derive")
    found = ea.Derivation.load(path)
    monkeypatch.setenv("COLUMNS", "2000")
    text = printed("show", path)
    assert (
        text.startswith(str(found.expression))
        and str(found) in text
        and "kernels" in text
        and "given\n" not in text
    )
    for number, candidate in enumerate(found.candidates[:3]):
        assert found.explain(candidate) in printed("show", path, "--candidate", str(number))
    assert "verdict: proved" in printed("show", path, "--explain")
    assert printed("show", path, "--tree") == f"{found.expression.tree()}\n"
    assert (
        printed("show", path, "--tree", "--candidate", "1")
        == f"{found.candidates[1].program.tree()}\n"
    )


def test_a_saved_session_is_shown(tmp_path: Path) -> None:
    session = ea.Session(ea.parse(SUM, A=(4, 5)))
    session.save(tmp_path / "sum.json")
    assert printed("show", str(tmp_path / "sum.json")) == f"{session.history}\n"
    assert r"\sum" in printed("show", str(tmp_path / "sum.json"), "--latex")


def test_what_was_saved_is_no_expression(tmp_path: Path) -> None:
    path, other = saved(tmp_path), tmp_path / "other.json"
    assert f"einalg show {path} shows it" in refused("derive", path).replace("\n", " ")
    assert "holds the shapes" in refused("show", path, "--A", "4,5")
    assert "no candidate 999" in refused("show", path, "--candidate", "999")
    assert "are for a saved derivation" in refused("show", SUM, "--A", "4,5", "--explain")
    for text in ("{}", '{"format": "einalg other"}', '{"form'):
        other.write_text(text)
        assert "holds no expression" in refused("show", str(other))


def test_derive_looks_for_the_operators_that_are_named() -> None:
    for op, found in (("matmul", True), ("conv2d", False)):
        record = valid(printed(*MATMUL, "--op", op, "--json", *QUICK))
        assert found is any(k["op"] == "matmul" for c in record["candidates"] for k in c["kernels"])
    assert "nonsense" in refused(*MATMUL, "--op", "nonsense", *QUICK)


def test_defaults_are_those_of_the_library() -> None:
    for command, function in ((app.derive, ea.derive), (app.optimize, ea.optimize)):
        known = inspect.signature(function).parameters
        options = {
            p.name: p.default
            for p in command.params
            if isinstance(p, click.Option) and p.name in ("target", "seconds", "states", "seed")
        }
        assert {n: known[n].default for n in options if n in known} == {
            n: d for n, d in options.items() if n in known
        }


def test_expressions_from_files_and_standard_input(tmp_path: Path) -> None:
    path = tmp_path / "sums.ein"
    path.write_text("# two sums\nT[i] += A[i,j]\ny[i] = T[i]*2\n")
    text = printed("show", str(path), "--A", "4,5")
    assert text == einalg("show", "-", "--A=4,5", typed=path.read_text()).output
    assert text.splitlines()[1].startswith("y[i:4] =")


@pytest.mark.parametrize(
    ("form", "part"),
    [([], "y[i:4] = Sum[j:5](A[i, j])"), (["--latex"], r"\sum"), (["--tree"], "  Sum[j:5]")],
)
def test_show(form: list[str], part: str) -> None:
    assert part in printed("show", "y[i] += A[i,j]", "--A", "4,5", *form)


def test_show_as_a_picture() -> None:
    """Every statement below the one before, inside the picture, with its letters."""
    texts = ("y[i] += A[i,j]", "T[i,j] = A[i,j]\ny[i] += T[i,j]")
    one, two = (
        ElementTree.fromstring(printed("show", text, "--A", "4,5", "--svg")) for text in texts
    )
    for picture in (one, two):
        assert (
            picture.tag.endswith("svg")
            and picture.attrib["viewBox"]
            == f"0 0 {picture.attrib['width']} {picture.attrib['height']}"
        )
    assert float(two.attrib["height"]) > 1.5 * float(one.attrib["height"])
    letters = [len(list(picture.iter("{http://www.w3.org/2000/svg}use"))) for picture in (one, two)]
    assert letters[0] >= len("y=LiΣjA[i,j]") and letters[1] > letters[0]


def test_shapes_and_roles() -> None:
    words = [
        "derive",
        "O[i] += seed[i,j]*x[j]",
        "--x",
        "5:f64",
        "--shape",
        "seed=4,5:f64",
        "--weight",
        "x",
        "--json",
        *QUICK,
    ]
    inputs = valid(printed(*words))["expression"]["inputs"]
    assert inputs["seed"] == {"shape": [4, 5], "dtype": "f64", "role": "input"}
    assert inputs["x"] == {"shape": [5], "dtype": "f64", "role": "weight"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["derive", SUM, "--A", "4,5", "--explian"], "did you mean --explain?"),
        (["show", "O[i] = jso[i]", "--jso", "N"], "a tensor jso is given by --shape jso=N"),
        (["derive", SUM, "--A", "4,2.5"], "e.g. 1,64,56,56"),
        (["derive", SUM, "--A", "4,N"], "has symbolic sizes: N\n  write numbers in their places"),
        (["show", "O[i] = A[i]*Z[i,j]", "--A", "N"], "give its shape: --Z N,64"),
        (["derive", SUM, "--A"], "e.g. 1,64,56,56"),
        (["derive", SUM, "--A", "4,5", "--A", "4,5"], "given twice"),
        (["derive", SUM, "--A", "4,5:f99"], "dtype 'f99' is unknown"),
        (["derive", SUM, "--A", "4,5", "--B", "4"], "B is no input"),
        (["derive", SUM, "--A", "4,5", "--weight", "B"], "B is no input"),
        (["derive", SUM, "--A", "4,5", "--seconds", "-1"], "--seconds"),
        (["derive", SUM], "give its shape: --A "),
        (["derive"], "give one expression, not 0"),
        (["derive", SUM, "A=4,5"], "shapes are options: --A 4,5"),
        (["prove", SUM, SUM, "A=()"], "shapes are options: --A ()"),
        (["derive", "missing.ein"], "neither an expression nor a file"),
        (["show", "O[i] = A[i", "--A", "4"], "error:"),
        (["show", SUM, "--shape", "A"], "NAME=VALUE"),
        (["prove", SUM, "--A", "4,5"], "give 2 expressions, not 1"),
        (["optimize", "missing.onnx"], "missing.onnx"),
        (["show", SUM, "--A", "4,5", "--svg", "--latex"], " exclude each other: give one"),
        (["nothing"], "nothing"),
    ],
)
def test_bad_usage(words: list[str], message: str) -> None:
    assert message in refused(*words)


def test_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "binary"
    path.write_bytes(b"\xff\xfe\x00")
    assert "holds no text" in refused("show", str(path))
    assert "neither an expression nor a file" in refused("show", str(tmp_path))


def test_prove() -> None:
    """Equal gives 0, different 1 with the region."""
    assert printed("prove", SUM, "T[i,j] = A[i,j]\nO[i] += T[i,j]", "--A", "4,5").startswith(
        "proved"
    )
    different = einalg(
        "prove", "O[i] += A[i,j]*x[j]", "O[i] += A[i,j]*x[(j+i//3)%5]", "--A", "4,5", "--x", "5"
    )
    assert (
        different.exit_code == 1
        and different.stdout.startswith("different")
        and "i = 3" in different.stdout
    )


def test_prove_sees_differences_beside_a_large_element() -> None:
    one, two = (
        f"O[i] = Piecewise(({value}, i<3), (-3.4e38, True))"
        for value in ("tanh(A[i])", "7*sin(A[i])+100")
    )
    different = einalg("prove", one, two, "--A", "7")
    assert (
        different.exit_code == 1
        and "different" in different.stdout
        and "0 <= i <= 2" in different.stdout
    )


def test_cache(tmp_path: Path) -> None:
    assert "empty" in printed("cache", "info") and "empty" in printed("cache", "clear")
    for number in range(3):
        DiskCache("costs", ".json", "costs").store(text_digest(str(number)), b"x" * 1000)
    mine = cache_folder() / "costs" / "00" / "letter.txt"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("not einalg's")
    assert "costs" in printed("cache", "info") and "2.9 KiB" in printed("cache", "info")
    assert "nothing was removed" in einalg("cache", "clear", typed="n\n").stdout
    assert DiskCache("costs", ".json", "costs").read(text_digest("1")) is not None
    assert "removed 3 files" in printed("cache", "clear", "--yes")
    assert DiskCache("costs", ".json", "costs").read(text_digest("1")) is None
    assert [path for path in (tmp_path / "cache").rglob("*") if path.is_file()] == [mine]


def test_doctor() -> None:
    text = printed("doctor")
    assert all(fact.name in text for fact in facts())


def test_wrapped_lines_keep_every_word() -> None:
    line = "    O[n:1] = Sum[c:64, r:3](A.pad(0, 1)[n, h + r - 1]*K[f, c]) + B[n]*C[n, h + r - 1]"
    for columns in range(24, 90):
        folded = wrapped(line, columns)
        assert folded.split() == line.split() and max(map(len, folded.splitlines())) <= columns
        assert all(part.count("h + r") == part.count("h +") for part in folded.splitlines())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ea.DeviceError("no device\n  derive(..., measure=False) works"), 1),
        (ea.CodegenError("no compiler"), 1),
        (ea.EinalgError("no package"), 1),
        (ea.ShapeError("two sizes"), 2),
    ],
)
def test_what_the_machine_lacks_is_no_bad_usage(
    monkeypatch: pytest.MonkeyPatch, error: Exception, code: int
) -> None:
    def failing(*words: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(ea, "derive", failing)
    result = einalg(*MATMUL)
    shown = str(error).replace("derive(..., measure=False)", "derive --no-measure")
    assert (result.exit_code, result.stdout, result.stderr) == (code, "", f"error: {shown}\n")


def test_completion_knows_commands_and_options() -> None:
    for words, expected in (("einalg pro", "prove"), ("einalg derive --expl", "--explain")):
        result = CliRunner().invoke(
            app.cli,
            prog_name="einalg",
            env={
                "_EINALG_COMPLETE": "bash_complete",
                "COMP_WORDS": words,
                "COMP_CWORD": str(words.count(" ")),
            },
        )
        assert result.stdout.split(",")[-1].strip() == expected


def test_a_caret_stands_below_what_it_points_at() -> None:
    text = "O[n,f] += A[n,c*K[f,c]"
    lines = einalg("derive", text, "--A", "4,5", "--K", "6,5").stderr.splitlines()
    assert lines[0] == "error:" and lines[1] == text and lines[2].index("^") == text.index("[n,c*K")
