"""Files are whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from kernelwright.core import ResultsError
from kernelwright.core.files import write_whole


@pytest.mark.parametrize(("data", "content"), [("grün\n", "grün\n".encode()), (b"\x00\xff", b"\x00\xff"), ("", b"")])
def test_writes_text_and_bytes(tmp_path: Path, data: str | bytes, content: bytes) -> None:
    path = tmp_path / "some" / "folder" / "file"
    assert write_whole(path, data) == path
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(path.parent.iterdir()) == [path]


def test_replaces_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("before")
    with path.open() as reader:
        write_whole(path, "after")
        assert reader.read() == "before"
    assert path.read_text() == "after"


def test_the_old_file_stays_when_the_new_one_cannot_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ResultsError) as caught:
        write_whole(path, "after", "make room")
    assert str(caught.value) == f"cannot write {path}: No space left on device; make room"
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_in_the_way_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here")
    with pytest.raises(ResultsError, match=r"cannot write .*; choose another path$"):
        write_whole(tmp_path / "file" / "inside", "text")
    assert (tmp_path / "file").read_text() == "here"


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(ResultsError, match="cannot write"):
        write_whole(tmp_path / "taken", "text")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
