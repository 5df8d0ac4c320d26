import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from archqa.engine.training.asked_corpus import read_asked_corpus, read_held_out
from archqa.errors import InputError

DATA = Path(__file__).resolve().parents[2] / "data" / "further"
NOTE = {
    "note": "new/1",
    "style": "real",
    "sentences": [["1", "0", "She fell."], ["2", "0", "The hip was broken."]],
}
QUESTION = {"note": "new/1", "question": "what broke?", "type": "which", "essential": [["2"]]}
REPORT = {"file": "a.txt", "text": "She fell at home. The hip was broken."}
ABOUT_REPORT = {"report": "a.txt", "question": "Where?", "essential": [[[0, 17]]]}


def write(folder: Path, **changes: Any) -> Path:
    (folder / "notes.jsonl").write_text(json.dumps(NOTE) + "\n")
    (folder / "asked.jsonl").write_text(json.dumps(QUESTION | changes) + "\n")
    about_reports = json.dumps(ABOUT_REPORT) + "\n"
    (folder / "asked_reports.jsonl").write_text(about_reports)
    (folder / "asked_held_out.jsonl").write_text(about_reports.replace("a.txt", "absent.txt"))
    reports = folder / "reports.json.gz"
    reports.write_bytes(gzip.compress(json.dumps([REPORT]).encode()))
    return reports


def test_questions_are_about_sentences_by_index(tmp_path: Path) -> None:
    about_note, about_report = read_asked_corpus(tmp_path, write(tmp_path, tempting=["1"]))
    assert about_note.sentences == ("She fell.", "The hip was broken.")
    assert (about_note.groups, about_note.tempting) == (((1,),), (0,))
    assert about_report.sentences[0] == "She fell at home."
    assert about_report.groups == ((0,),)


def test_questions_about_reports_that_are_not_in_the_file_are_left_out(tmp_path: Path) -> None:
    assert read_held_out(tmp_path, write(tmp_path)) == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"note": "new/9"}, "asked.jsonl:1: there is no note new/9"),
        ({"essential": [["7"]]}, "asked.jsonl:1: the note has no sentence 7"),
    ],
)
def test_wrong_lines_are_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    reports = write(tmp_path, **changes)
    with pytest.raises(InputError, match=message):
        read_asked_corpus(tmp_path, reports)


def test_a_file_that_is_no_list_of_reports_is_refused(tmp_path: Path) -> None:
    reports = write(tmp_path)
    reports.write_bytes(b"no gzip")
    with pytest.raises(InputError, match="gzipped JSON list"):
        read_asked_corpus(tmp_path, reports)


def test_no_report_is_both_learned_from_and_held_out() -> None:
    def reports(name: str) -> set[str]:
        lines = (DATA / name).read_text(encoding="utf-8").splitlines()
        return {json.loads(line)["report"] for line in lines}

    assert reports("asked_held_out.jsonl")
    assert not reports("asked_held_out.jsonl") & reports("asked_reports.jsonl")
