"""Files that are there whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from fivesup_env.files import check_writable, replacing


def test_a_file_is_kept_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")
    with pytest.raises(KeyError), replacing(path) as file:
        file.write("half")
        raise KeyError
    assert path.read_text() == "before"
    with replacing(path) as file:
        file.write("after\n")
        assert path.read_text() == "before"
    assert path.read_bytes() == b"after\n"
    assert list(tmp_path.iterdir()) == [path]


def test_checking_that_a_file_can_be_written_changes_nothing(tmp_path: Path) -> None:
    path, new = tmp_path / "file.txt", tmp_path / "new.txt"
    path.write_text("before")
    check_writable(path)
    check_writable(str(new))
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_cannot_be_written_are_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_writable(tmp_path / "nowhere" / "file.txt")
    with pytest.raises(IsADirectoryError):
        check_writable(tmp_path)
