"""`SHA256SUMS` beside the data of `archqa fhir load`: what it names must be there, and as it says."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from tests.cli.test_commands import CommandResult, archqa

LIST_NAMES = ["SHA256SUMS", "SHA256SUMS.txt"]


def patient(path: Path, patient_id: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"resourceType": "Patient", "id": patient_id}) + "\n")
    return path


def line(folder: Path, name: str, digest: str = "") -> str:
    digest = digest or hashlib.sha256((folder / name).read_bytes()).hexdigest()
    return f"{digest}  {name}\n"


def load(*paths: Path | str, cwd: Path, options: tuple[str, ...] = ()) -> CommandResult:
    into = ("--into", str(cwd / "record.db"))
    return archqa("fhir", "load", *map(str, paths), *into, "--json", *options, cwd=cwd)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder `1.0/fhir` with two files, as MIMIC-IV on FHIR is laid out."""
    patient(tmp_path / "1.0" / "fhir" / "A.ndjson", "a")
    patient(tmp_path / "1.0" / "fhir" / "B.ndjson", "b")
    return tmp_path / "1.0" / "fhir"


@pytest.mark.parametrize("name", LIST_NAMES)
def test_a_named_file_that_is_absent_stops_the_load(
    name: str, data: Path, tmp_path: Path
) -> None:
    listed = (
        line(data, "A.ndjson")
        + line(data, "B.ndjson")
        + line(data, "gone.ndjson.gz", "0" * 64)
    )
    (data / name).write_text(listed + line(data, "LICENSE.txt", "1" * 64))
    result = load(data, cwd=tmp_path)
    assert result.returncode == 3
    assert f"gone.ndjson.gz: is named in {name}" in result.stderr
    assert f"LICENSE.txt: is named in {name}" in result.stderr
    count = archqa("fhir", "search", "Patient", "--record", str(tmp_path / "record.db"))
    assert count.stdout == ""


@pytest.mark.parametrize("name", LIST_NAMES)
@pytest.mark.parametrize("spelling", ["fhir", ".", "../fhir", "absolute"])
def test_a_list_in_the_parent_folder_counts(
    name: str, spelling: str, data: Path
) -> None:
    sums = data.parent / name
    names = ["fhir/A.ndjson", "fhir/B.ndjson"]
    cwd = data.parent if spelling == "fhir" else data
    named = data if spelling == "absolute" else Path(spelling)
    elsewhere = line(data.parent, "other/x.ndjson", "2" * 64)
    sums.write_text("".join(line(data.parent, path) for path in names) + elsewhere)
    fine = load(named, cwd=cwd)
    assert fine.returncode == 0, fine.stderr
    assert json.loads(fine.stdout)["checksums"] == 2

    sums.write_text(sums.read_text() + line(data.parent, "fhir/C.ndjson", "0" * 64))
    absent = load(named, cwd=cwd)
    assert (absent.returncode, absent.stdout) == (3, "")
    assert f"fhir/C.ndjson: is named in {name}" in absent.stderr

    patient(data / "B.ndjson", "changed")
    assert "fhir/B.ndjson: differs from its SHA-256" in load(named, cwd=cwd).stderr


def test_one_file_of_a_folder_is_checked_alone(data: Path, tmp_path: Path) -> None:
    sums = data.parent / "SHA256SUMS.txt"
    sums.write_text(
        line(data.parent, "fhir/A.ndjson")
        + line(data.parent, "fhir/B.ndjson", "0" * 64)
        + line(data.parent, "fhir/gone.ndjson", "0" * 64)
    )
    result = load(data / "A.ndjson", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["checksums"] == 1
    assert load(data / "B.ndjson", cwd=tmp_path).returncode == 3


def test_lists_in_subfolders_and_both_names_count(data: Path, tmp_path: Path) -> None:
    (data / "SHA256SUMS").write_text(line(data, "A.ndjson") + line(data, "B.ndjson"))
    (data.parent / "SHA256SUMS.txt").write_text(
        line(data.parent, "fhir/B.ndjson", "0" * 64)
    )
    result = load(data.parent, cwd=tmp_path)
    assert result.returncode == 3
    assert "fhir/B.ndjson: differs from its SHA-256 in SHA256SUMS.txt" in result.stderr
    empty = data.parent / "empty"
    empty.mkdir()
    (data.parent / "SHA256SUMS.txt").unlink()
    (empty / "SHA256SUMS").write_text(line(empty, "gone.ndjson", "0" * 64))
    assert (
        "gone.ndjson: is named in SHA256SUMS" in load(data.parent, cwd=tmp_path).stderr
    )


def test_a_file_that_the_list_does_not_name_is_remarked(
    data: Path, tmp_path: Path
) -> None:
    (data / "SHA256SUMS").write_text(line(data, "A.ndjson"))
    result = load(data, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    remark = f"{data / 'B.ndjson'}: SHA256SUMS does not name it; it is loaded unchecked"
    assert json.loads(result.stdout)["remarks"] == [remark]
    assert remark in result.stderr
    assert load(data, cwd=tmp_path, options=("--quiet",)).stderr == ""


def test_thousands_of_unnamed_files_are_summed_up(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    for number in range(60):
        patient(folder / f"{number}.ndjson", str(number))
    (folder / "SHA256SUMS").write_text(line(folder, "0.ndjson"))
    remarks = json.loads(load(folder, cwd=tmp_path).stdout)["remarks"]
    assert len(remarks) == 21
    assert remarks[-1] == "39 more files are not named in their checksum lists"


@pytest.mark.parametrize(
    "bad",
    [
        "no checksum here",
        "0" * 63 + "  A.ndjson",
        "0" * 64 + " ",
        "g" * 64 + "  A.ndjson",
    ],
)
def test_a_malformed_line_is_named(bad: str, data: Path, tmp_path: Path) -> None:
    (data / "SHA256SUMS").write_text(f"{line(data, 'A.ndjson')}\n{bad}\n")
    result = load(data, cwd=tmp_path)
    assert result.returncode == 3
    assert "SHA256SUMS:3: is no line of a checksum list" in result.stderr


def test_two_checksums_of_one_file_contradict_each_other(
    data: Path, tmp_path: Path
) -> None:
    text = (
        line(data, "A.ndjson")
        + line(data, "B.ndjson")
        + line(data, "./A.ndjson", "0" * 64)
    )
    (data / "SHA256SUMS").write_text(text)
    assert (
        "SHA256SUMS:3: has another checksum of A.ndjson"
        in load(data, cwd=tmp_path).stderr
    )


@pytest.mark.parametrize(
    "outside", ["../secret", "/etc/passwd", "sub/../../secret", "..", "../1"]
)
def test_names_outside_of_the_folder_are_not_followed(
    outside: str, data: Path, tmp_path: Path
) -> None:
    listed = line(data, "A.ndjson") + line(data, "B.ndjson")
    (data / "SHA256SUMS").write_text(f"{listed}{'0' * 64}  {outside}\n")
    result = load(data, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    (remark,) = json.loads(result.stdout)["remarks"]
    assert remark.endswith(
        "SHA256SUMS:3: names a path outside of its folder; it is ignored"
    )


def test_a_dotted_name_that_stays_inside_counts(data: Path, tmp_path: Path) -> None:
    (data / "sub").mkdir()
    listed = line(data, "A.ndjson") + line(data, "sub/../B.ndjson", "0" * 64)
    (data / "SHA256SUMS").write_text(listed)
    assert "B.ndjson: differs" in load(data, cwd=tmp_path).stderr


def test_unusual_but_valid_lines_are_read(data: Path, tmp_path: Path) -> None:
    odd = os.fsdecode(b"\xe9 b\\c\n.ndjson")
    patient(data / odd, "odd")
    digest = hashlib.sha256((data / odd).read_bytes()).hexdigest()
    digest_a = hashlib.sha256((data / "A.ndjson").read_bytes()).hexdigest()
    content = b"\xef\xbb\xbf" + f"{digest_a.upper()} *A.ndjson\r\n".encode()
    content += line(data, "B.ndjson").encode()
    content += b"\\" + digest.encode() + b"  \xe9 b\\\\c\\n.ndjson\n"
    (data / "SHA256SUMS").write_bytes(content)
    result = load(data, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["checksums"] == 3


def test_an_unrelated_list_above_the_folder_is_not_read_as_its_own(
    data: Path, tmp_path: Path
) -> None:
    (data.parent / "SHA256SUMS").write_text(
        "not a list\n" + line(data, "B.ndjson", "0" * 64)
    )
    result = load(data, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["remarks"] == []


def test_a_list_that_cannot_be_read_is_one_error(data: Path, tmp_path: Path) -> None:
    (data / "SHA256SUMS").symlink_to("SHA256SUMS")
    (data / "SHA256SUMS.txt").mkdir()
    assert load(data, cwd=tmp_path).returncode == 0
    (data / "SHA256SUMS").unlink()
    (data / "SHA256SUMS").write_bytes(b"\0" * 100)
    result = load(data, cwd=tmp_path)
    assert result.returncode == 3
    assert "SHA256SUMS:1: is no line of a checksum list" in result.stderr
    assert "Traceback" not in result.stderr
