"""Barriers stand where the threads of a block hand each other values, and nowhere else."""

from __future__ import annotations

from codegen.ir.nodes import Buf, For, Function, Number, Ref, Statement, Store, Sync
from codegen.targets.cuda.text.barriers import with_barriers
from einalg.language.index.affine import Affine, Index
from einalg.language.index.convert import affine

THREADS = 64
thread, step = Index("thread"), Index("step")
OUT = Buf("O", (THREADS,), "f32")
HALVES = Buf("halves", (2, THREADS), "f32", "shared")
ONE, TWO = (Buf(name, (THREADS,), "f32", "shared") for name in ("one", "two"))


def nest(*body: Statement) -> For:
    return For(thread, affine(0), affine(THREADS), (0, THREADS), body, "thread")


def write(buf: Buf, *part: Affine) -> For:
    return nest(Store(Ref(buf, (*part, affine(thread))), "=", Number(1, "f32")))


def read(buf: Buf, *part: Affine) -> For:
    """Each thread reads what another one wrote."""
    private = Buf("private", (), "f32", "reg")
    return nest(Store(Ref(private, ()), "=", Ref(buf, (*part, affine(THREADS - 1) - thread))))


def loop(*body: Statement, steps: int = 5) -> For:
    return For(step, affine(0), affine(steps), (0, steps), body)


def spelled(*body: Statement) -> str:
    """The statements of a kernel, or of its only loop: `w` writes, `r` reads, `|` is a barrier."""
    found = with_barriers(Function("O", (), OUT, body)).body
    return "".join(_letter(s) for s in found)


def _letter(statement: Statement) -> str:
    if isinstance(statement, Sync):
        return "|"
    assert isinstance(statement, For)
    if statement.kind != "thread":
        return f"({''.join(map(_letter, statement.body))})"
    put = statement.body[0]
    return "w" if isinstance(put, Store) and isinstance(put.value, Number) else "r"


def test_one_after_the_other() -> None:
    assert spelled(write(ONE), read(ONE)) == "w|r"
    assert spelled(write(ONE), read(TWO)) == "wr"
    assert spelled(read(ONE), write(ONE)) == "r|w"
    assert spelled(write(ONE), write(TWO), read(ONE), read(TWO)) == "ww|rr"


def test_round_a_loop() -> None:
    assert spelled(loop(write(ONE), read(ONE))) == "(|w|r)"
    assert spelled(loop(write(ONE), read(ONE), steps=1)) == "(w|r)"
    assert spelled(loop(read(ONE)), write(ONE)) == "(r)|w"


def test_two_buffers_in_turns_need_a_barrier_at_the_top_too() -> None:
    """What the end of one step reads is written at the beginning of the next one."""
    assert spelled(write(ONE), loop(write(TWO), read(ONE), write(ONE), read(TWO))) == "w(|wr|wr)"


def test_halves_in_turns_need_one_barrier_a_step() -> None:
    now, then = affine(step).remainder(2), (affine(step) + 1).remainder(2)
    assert (
        spelled(
            write(HALVES, affine(0)),
            loop(read(HALVES, now), write(HALVES, then)),
            read(HALVES, affine(1)),
        )
        == "w(|rw)|r"
    )


def test_parts_by_other_numbers() -> None:
    now = affine(step).remainder(2)
    assert spelled(loop(read(HALVES, now), write(HALVES, now))) == "(r|w)", (
        "the step before wrote the other half"
    )
    three = affine(step).remainder(3)
    assert spelled(loop(read(HALVES, now), write(HALVES, three))) == "(|r|w)", (
        "remainders by other numbers may agree"
    )


def test_steps_without_a_barrier_are_all_still_open() -> None:
    """Two steps later the halves are the same ones again."""
    now, then = affine(step).remainder(3), (affine(step) + 1).remainder(3)
    assert spelled(loop(write(HALVES, now)), read(HALVES, then)) == "(|w)|r"
