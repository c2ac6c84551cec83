"""Files that are written whole: their permissions, and what is left where writing fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE

import numpy as np
import pytest

import einalg as ea
from einalg.storage.atomic_file import write_whole


@pytest.fixture(params=[0o022, 0o077, 0o002])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return S_IMODE(path.stat().st_mode)


def test_a_new_file_has_the_permissions_that_open_gives(tmp_path: Path, umask: int) -> None:
    write_whole(tmp_path / "new", b"text")
    assert mode(tmp_path / "new") == 0o666 & ~umask and (tmp_path / "new").read_bytes() == b"text"


def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path: Path, umask: int) -> None:
    (tmp_path / "old").write_bytes(b"old")
    (tmp_path / "old").chmod(0o640)
    write_whole(tmp_path / "old", b"new")
    assert mode(tmp_path / "old") == 0o640 and (tmp_path / "old").read_bytes() == b"new"


def test_a_saved_model_is_a_folder_like_any_other(tmp_path: Path, umask: int) -> None:
    ea.optimize(ea.parse("O[i] = A[i] + 1", A=(2,)), [np.ones(2)], seconds=0).save(
        tmp_path / "model"
    )
    assert mode(tmp_path / "model") == 0o777 & ~umask
    assert {mode(path) for path in (tmp_path / "model").iterdir()} == {0o666 & ~umask}


def test_nothing_is_left_where_writing_fails(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError):
        write_whole(tmp_path / "folder", b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_what_a_link_leads_to_is_replaced(tmp_path: Path) -> None:
    link, real = tmp_path / "link", tmp_path / "real"
    link.symlink_to(real)
    for content in (b"new", b"newer"):
        write_whole(link, content)
        assert link.is_symlink() and real.read_bytes() == content


def test_a_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"content")
    assert os.read(reader, 99) == b"content" and pipe.is_fifo()
    os.close(reader)


def test_an_error_names_the_path_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as raised:
        write_whole(path, b"content")
    assert raised.value.filename == str(path)
