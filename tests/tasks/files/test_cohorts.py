"""JSON Lines: a case a line, checked as a whole; a large file is then read one case at a time."""

import json
from pathlib import Path

import pytest

from archqa.core.case import Case, Sentence
from archqa.errors import InputError
from archqa.tasks import find, load_cases
from archqa.tasks.files import cohorts

dump_line = find("archehr-2025").dump_line


@pytest.fixture(autouse=True, params=["in memory", "on disk"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "on disk":
        monkeypatch.setattr(cohorts, "MAX_BYTES_IN_MEMORY", 0)
    return str(request.param)


def cohort(folder: Path, *lines: str) -> Path:
    path = folder / "cohort.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def case(case_id: str) -> Case:
    sentences = (
        Sentence(id="1", text=f"Sentence of {case_id}."),
        Sentence(id="2", text="Ünï “code”."),
    )
    return Case(id=case_id, patient_narrative="Why?", sentences=sentences)


def test_cases_read_from_lines_are_those_written(tmp_path: Path) -> None:
    cases = [case(str(number)) for number in range(5)]
    file = load_cases(cohort(tmp_path, *map(dump_line, cases)))
    assert (file.format, file.ids, len(file.cases)) == (
        "jsonl",
        ("0", "1", "2", "3", "4"),
        5,
    )
    assert list(file.cases) == cases
    assert file.cases[-1] == cases[-1]
    assert list(file.cases[1:3]) == cases[1:3]
    assert list(file.select([4, 0])) == [cases[4], cases[0]]


def test_only_the_cases_of_a_small_file_stay_in_memory(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = cohort(tmp_path, dump_line(case("a")))
    assert isinstance(load_cases(path).cases, tuple) == (place == "in memory")
    size = path.stat().st_size
    monkeypatch.setattr(cohorts, "MAX_BYTES_IN_MEMORY", size)
    assert isinstance(load_cases(path).cases, tuple)
    monkeypatch.setattr(cohorts, "MAX_BYTES_IN_MEMORY", size - 1)
    assert isinstance(load_cases(path).cases, cohorts.CasesOnDisk)


def test_blank_lines_do_not_count(tmp_path: Path) -> None:
    assert load_cases(
        cohort(tmp_path, "", dump_line(case("a")), "  ", dump_line(case("b")))
    ).ids == ("a", "b")


def test_every_mistake_is_told_at_once_by_its_line(tmp_path: Path) -> None:
    nameless = json.dumps({"patient_narrative": "Why?"})
    path = cohort(
        tmp_path, dump_line(case("a")), "{broken", nameless, dump_line(case("a"))
    )
    with pytest.raises(InputError) as caught:
        load_cases(path)
    message = str(caught.value)
    assert [line.split(":")[1] for line in message.splitlines()[:3]] == ["2", "3", "4"]
    assert "taken by line 1" in message
    assert "case_id" in message


def test_a_file_without_a_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no case"):
        load_cases(cohort(tmp_path, ""))


def test_a_broken_export_does_not_fill_the_screen(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_cases(cohort(tmp_path, *["{broken"] * 500))
    assert len(caught.value.mistakes) == 100
