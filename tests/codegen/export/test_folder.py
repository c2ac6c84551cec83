"""Folders that an export writes: whole or not at all, and never in the place of another's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from codegen.export.folder import MARK, write_folder
from einalg.errors import RecordError

FILES = {"kernel.c": b"int kernel;\n", "main.c": b""}


def _content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MARK}


def test_files_are_written_into_a_new_folder(tmp_path: Path) -> None:
    write_folder(tmp_path / "a" / "b", FILES)
    assert _content(tmp_path / "a" / "b") == FILES
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_an_export_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    """What others added stays."""
    write_folder(tmp_path / "out", FILES)
    (tmp_path / "out" / "notes.txt").write_text("mine")
    (tmp_path / "out" / "build").mkdir()
    (tmp_path / "out" / "build" / "x.o").write_text("")
    write_folder(tmp_path / "out", {"other.c": b"", "main.c": b"new"})
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"other.c", "main.c", "notes.txt", "build", MARK}
    assert (tmp_path / "out" / "main.c").read_bytes() == b"new"
    assert (tmp_path / "out" / "build" / "x.o").is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_is_not_an_export_stays(kind: str, tmp_path: Path) -> None:
    target = tmp_path / "out"
    if kind == "folder":
        target.mkdir()
        (target / "thesis.tex").write_text("mine")
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(tmp_path / "nowhere")
    with pytest.raises(RecordError, match="no export has written it\n  give a new folder"):
        write_folder(target, FILES)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    if kind == "folder":
        assert _content(target) == {"thesis.tex": b"mine"}


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write_folder(tmp_path / "out", FILES)
    assert _content(tmp_path / "out") == FILES


def test_nothing_is_left_where_a_folder_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        write_folder(tmp_path / "file" / "out", FILES)
    with pytest.raises(RecordError, match="cannot be written"):
        write_folder(tmp_path / "out", {"a/b": b""})
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
