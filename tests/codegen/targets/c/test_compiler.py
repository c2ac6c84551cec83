"""The C compiler: found, missing, broken, slow, and what is cached."""

from __future__ import annotations

import logging
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from codegen.targets.c.compiler import REQUIRED_FLAGS, Compiler, _find, find_compiler
from einalg.errors import CodegenError
from einalg.storage import disk_cache
from tests.helpers.compiler_script import script
from tests.helpers.kernels import compiler

ANSWER = "int answer(void) {{ return {}; }}\n"


@pytest.fixture(autouse=True)
def fresh_search() -> None:
    _find.cache_clear()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder."""
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def wrapper(path: Path, refused: str) -> Path:
    """The system's compiler, which refuses some flags."""
    return script(
        path,
        f'case "$*" in {refused}) echo "unrecognized option" >&2; exit 1;; esac\nexec '
        f'{compiler().command[0]} "$@"',
    )


def calls(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def counting(path: Path, log: Path) -> Compiler:
    """The system's compiler, which notes every run in a file."""
    script(path, f'echo run >> {log}\nexec {compiler().command[0]} "$@"')
    return Compiler((str(path),), "test", REQUIRED_FLAGS)


def test_answer() -> None:
    assert compiler().load(ANSWER.format(41)).answer() == 41


@pytest.mark.skipif(sys.platform != "linux", reason="the maps of a process are Linux's")
def test_a_process_can_load_tens_of_thousands_of_files() -> None:
    """It may have 65,530 maps; a file in the usual layout takes 5."""
    source = "static double zeros[9000]; double *of(int n) {{ return zeros + {} + n; }}\n"
    library = compiler().load(source.format(7))
    maps = Path("/proc/self/maps").read_text().splitlines()
    assert 1 <= sum(library._name in line for line in maps) <= 2


ROW_BELOW_THE_STACK_POINTER = """
import numpy as np, einalg as ea
text = "O[f:3, h:8, w:20] = Sum[c:11, r:2, s:5](K[c, f, 3*r + 1, s]*A[c, h, r, s, w], where=Eq((w - s + 2)%3, 0))"
K, A = np.ones((11, 3, 5, 5), np.float32), np.ones((11, 8, 2, 5, 20), np.float32)
terms = [sum((w - s + 2) % 3 == 0 for s in range(5)) * 22 for w in range(20)]
assert (ea.Session(ea.parse(text, K=K.shape, A=A.shape)).compile()(K=K, A=A) == terms).all()
"""


def test_rows_of_sums_lie_where_aligned_moves_may_write() -> None:
    """In a process of its own, which a fault would end."""
    assert (
        subprocess.run([sys.executable, "-c", ROW_BELOW_THE_STACK_POINTER], check=False).returncode
        == 0
    )


def overlapping_sums(count: int) -> str:
    """Sums of products whose operands, two apart, are read again in the second turn from now."""
    lines = ["typedef float row __attribute__((vector_size(32), aligned(4)));"]
    operands = "const float *restrict A, const float *restrict K, row *restrict O, int turns"
    lines.append(f"void sums({operands}) {{")
    lines.append(f"row {', '.join(f'sum_{k} = {{0}}' for k in range(count))};")
    lines.append("for (int k = 0; k < turns; ++k) {")
    lines.append("const row weights = *(const row *)&K[8 * k];")
    lines += [f"sum_{k} += A[k + {2 * k}] * weights;" for k in range(count)]
    lines.append("}")
    lines += [f"O[{k}] = sum_{k};" for k in range(count)]
    return "\n".join([*lines, "}"])


@pytest.mark.skipif("x86" not in platform.machine(), reason="counts the instructions of an x86")
def test_what_a_turn_reads_is_read_again_in_the_next_one(tmp_path: Path) -> None:
    """A sum is cleared, added to and stored; copies of operands for a later turn are as many."""
    source, code = tmp_path / "sums.c", tmp_path / "sums.s"
    source.write_text(overlapping_sums(12))
    command = [*compiler().command, *compiler().flags, "-S", str(source), "-o", str(code)]
    subprocess.run(command, check=True)
    instructions = [line for line in code.read_text().splitlines() if line.startswith("\tv")]
    assert 3 * 12 <= len(instructions) < 5 * 12


def test_none_on_an_empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_compiler() is None


def test_a_broken_cc_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broken = script(tmp_path / "broken", "echo 'internal compiler error' >&2; exit 4")
    monkeypatch.setenv("CC", str(broken))
    with caplog.at_level(logging.WARNING, "einalg"):
        found = find_compiler()
    assert found is not None and found.command[0] != str(broken)
    assert "internal compiler error" in caplog.text and str(broken) in caplog.text


def test_a_cc_that_does_not_exist_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    with caplog.at_level(logging.WARNING, "einalg"):
        assert find_compiler() is not None
    assert "no-such-compiler is not found" in caplog.text


def test_a_cc_that_cannot_be_read_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CC", "gcc '-DA")
    with caplog.at_level(logging.WARNING, "einalg"):
        assert find_compiler() is not None
    assert "gcc '-DA is not found" in caplog.text


def test_cc_with_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", f"{compiler().command[0]} -DVALUE=7")
    _find.cache_clear()
    found = find_compiler()
    assert found is not None and found.load(ANSWER.format("VALUE")).answer() == 7


@pytest.mark.parametrize(
    ("refused", "absent", "kept"),
    [
        (r"*\ -fopenmp*", "-fopenmp", "-fno-math-errno"),
        (r"*\ -march*", "-march=native", "-fopenmp"),
        ("*MATH=2*", "-DEINALG_VECTOR_MATH=2", "-fopenmp"),
        (r"*\ -f[no]*|*\ -m*|*VECTOR*", "-march=native", "-O3"),
    ],
)
def test_flags_that_are_refused_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str, absent: str, kept: str
) -> None:
    usual = compiler().flags
    assert absent in usual or "MATH" in absent
    monkeypatch.setenv("CC", str(wrapper(tmp_path / "picky", refused)))
    found = find_compiler()
    assert found is not None and found.command[0].endswith("picky")
    assert set(REQUIRED_FLAGS) <= set(found.flags) and absent not in found.flags
    assert kept in found.flags or kept not in usual
    assert found.load(ANSWER.format(3)).answer() == 3


def test_message_of_the_compiler() -> None:
    with pytest.raises(CodegenError, match="surprise"):
        compiler().compile("int f(void) { return surprise; }\n")


def test_timeout(tmp_path: Path, folder: Path) -> None:
    slow = Compiler((str(script(tmp_path / "slow", "sleep 30")),), "test", REQUIRED_FLAGS)
    with pytest.raises(CodegenError, match=r"did not finish within 0\.2 seconds"):
        slow.compile(ANSWER.format(1), timeout=0.2)


def test_a_timeout_ends_what_the_compiler_started(tmp_path: Path, folder: Path) -> None:
    """A pipe that they write to is at its end, where nothing is written, once none is left."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    slow = script(tmp_path / "slow", f"(sleep 30; echo late) > {pipe} &\nwait")
    with pytest.raises(CodegenError):
        Compiler((str(slow),), "test", REQUIRED_FLAGS).compile(ANSWER.format(1), timeout=0.2)
    os.set_blocking(reader, True)
    with open(reader, "rb") as written:
        assert written.read() == b""


def test_a_compiler_that_vanished(tmp_path: Path, folder: Path) -> None:
    gone = Compiler((str(tmp_path / "gone"),), "test", REQUIRED_FLAGS)
    with pytest.raises(CodegenError, match="set CC to a C compiler"):
        gone.compile(ANSWER.format(1))


def test_compiled_once(tmp_path: Path, folder: Path) -> None:
    used = counting(tmp_path / "counted", tmp_path / "log")
    assert used.compile(ANSWER.format(5)) == used.compile(ANSWER.format(5))
    assert calls(tmp_path / "log") == 1
    used.compile(ANSWER.format(6))
    used.with_flags("-fwrapv").compile(ANSWER.format(5))
    assert calls(tmp_path / "log") == 3


def test_a_quick_compiler_shares_nothing_with_another(folder: Path) -> None:
    used = compiler()
    quick = used.quick()
    assert quick.is_quick and not used.is_quick and len(quick.flags) == len(used.flags)
    assert quick.key(ANSWER) != used.key(ANSWER)
    assert quick.load(ANSWER.format(7)).answer() == 7


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped"])
def test_damaged_entries_are_built_again(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    used = counting(tmp_path / "counted", tmp_path / "log")
    path = used.compile(ANSWER.format(8))
    content = path.read_bytes()
    half = len(content) // 2
    path.write_bytes(
        {
            "truncated": content[:half],
            "empty": b"",
            "flipped": content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :],
        }[damage]
    )
    with caplog.at_level(logging.WARNING, "einalg"):
        assert used.load(ANSWER.format(8)).answer() == 8
    assert "is damaged" in caplog.text
    assert calls(tmp_path / "log") == 2
    assert path.read_bytes() == content


def test_a_folder_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path / "file" / "cache"))
    with caplog.at_level(logging.WARNING, "einalg"):
        path = compiler().compile(ANSWER.format(9))
    assert "cannot be written" in caplog.text and disk_cache.temporary_folder() in path.parents
    used = counting(tmp_path / "counted", tmp_path / "log")
    assert used.load(ANSWER.format(9)).answer() == used.load(ANSWER.format(9)).answer() == 9
    assert calls(tmp_path / "log") == 1, "the temporary folder is searched too"


def test_a_full_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = os.replace

    def replace(source: str, target: Path) -> None:
        if folder in Path(target).parents:
            raise OSError(28, "No space left on device")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    with caplog.at_level(logging.WARNING, "einalg"):
        assert compiler().load(ANSWER.format(10)).answer() == 10
    assert "No space left" in caplog.text
    assert not [p for p in folder.rglob("*") if p.is_file()], "nothing half-written is left behind"


def test_two_processes_at_once(folder: Path) -> None:
    """Both compile the same new kernel; both get it right, and one whole file is left."""
    program = f"from codegen.targets.c.compiler import find_compiler; print(find_compiler().load({ANSWER.format(12)!r}).answer())"
    environment = {
        **os.environ,
        "EINALG_CACHE": str(folder),
        "PYTHONPATH": str(Path(__file__).parents[4]),
    }
    running = [
        subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment, text=True
        )
        for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0].strip() for process in running] == ["12", "12"]
    assert len(list(folder.rglob("*.so"))) == 1 and not list(folder.rglob(".new-*"))


def test_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EINALG_CACHE", str(tmp_path))
    assert disk_cache.cache_folder() == tmp_path
    monkeypatch.delenv("EINALG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert disk_cache.cache_folder() == tmp_path / "einalg"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert (
        disk_cache.cache_folder().name == "einalg"
        and Path.home() in disk_cache.cache_folder().parents
    )
