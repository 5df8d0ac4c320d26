"""Files that hold record text."""

import stat
from pathlib import Path

import pytest

from archqa.safety.files import private_draft, write_private_bytes, write_private_text


def test_a_public_file_is_replaced_by_a_private_one(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("old")
    path.chmod(0o644)
    with path.open() as open_before:
        write_private_text(path, "her note")
        assert open_before.read() == "old"
    assert path.read_text() == "her note"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_private_bytes(tmp_path / "link", b"note")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"note"


def test_a_failed_block_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "answers.csv"
    path.write_text("old")
    with pytest.raises(OSError, match="disk"):
        _write_half(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["answers.csv"]
    assert path.read_text() == "old"


def test_a_lone_surrogate_is_written_as_its_escape(tmp_path: Path) -> None:
    write_private_text(tmp_path / "file", "a\ud800b")
    assert (tmp_path / "file").read_bytes() == b"a\\ud800b"


def test_a_device_is_written_to() -> None:
    write_private_bytes(Path("/dev/null"), b"note")


def _write_half(path: Path) -> None:
    with private_draft(path) as file:
        file.write(b"half")
        raise OSError("disk full")
