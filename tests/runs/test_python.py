"""archqa from Python: tables in, runs and scores out, and what a notebook shows of them."""

import json
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest

import archqa
from archqa.core.case import Case
from archqa.core.question import ClinicalTask, RecordQuestion
from archqa.errors import CallerError, InputError
from archqa.runs.notebook_progress import NotebookProgress
from archqa.runs.run import Run
from archqa.tasks.archehr_2025.task import dump_json

MINI_KEY = archqa.__file__.replace("__init__.py", "../data/mini/mini_key.json")
NOTE = "Apixaban was stopped because of bleeding. She went home on aspirin."
QUESTION = "Why was apixaban stopped?"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return archqa.predict("mini", out=tmp_path_factory.mktemp("runs") / "mini")


def answers(run: Run) -> list[Any]:
    return [(row["case_id"], row["answer"]) for row in run.submission()]


# Tables


def test_cases_of_a_file_are_answered_alike_as_a_list_as_dicts_and_as_a_frame(
    run: Run, tmp_path: Path
) -> None:
    cases = list(archqa.load_cases("mini").cases)
    rows = json.loads(dump_json(cases))
    tables = {"cases": cases, "dicts": rows, "frame": pandas.DataFrame(rows)}
    for name, table in tables.items():
        assert answers(archqa.predict(table, out=tmp_path / name)) == answers(run), name


def test_a_frame_of_questions_and_notes_is_answered(tmp_path: Path) -> None:
    table = pandas.DataFrame(
        {"question": [QUESTION], "note": [NOTE]}, index=["visit-7"]
    )
    run = archqa.predict(table, out=tmp_path / "run")
    assert run.manifest.data.path == "(table)"
    assert [case.id for case in run.cases] == ["visit-7"]
    assert run.to_pandas()["evidence"].tolist() == [["1"]]


def test_rows_of_a_list_are_numbered_and_sentences_too(tmp_path: Path) -> None:
    rows = [{"question": QUESTION, "sentences": NOTE.split(". ")}] * 2
    run = archqa.predict(rows, out=tmp_path / "run")
    assert [case.id for case in run.cases] == ["1", "2"]
    assert run.notes[0].sentence_ids == ("1", "2")


def test_numbers_of_pandas_and_numpy_are_ids() -> None:
    rows = {"id": numpy.array([5, 6]), "question": [QUESTION] * 2, "note": [NOTE] * 2}
    assert archqa.load_cases(pandas.DataFrame(rows)).ids == ("5", "6")
    with_gap = pandas.DataFrame({**rows, "id": [5.0, 6.0]})
    assert archqa.load_cases(with_gap).ids == ("5", "6")


def test_an_index_with_repeated_labels_is_not_taken_for_ids() -> None:
    table = pandas.DataFrame(
        {"question": [QUESTION] * 2, "note": [NOTE] * 2}, index=[0, 0]
    )
    assert archqa.load_cases(table).ids == ("1", "2")


def test_the_columns_tell_the_benchmark() -> None:
    of_record = archqa.load_cases([{"question": "When?", "patient": "p1"}])
    to_do = archqa.load_cases(
        [{"instruction": "Order magnesium.", "context": "It is May."}]
    )
    assert isinstance(of_record.cases[0], RecordQuestion)
    assert isinstance(to_do.cases[0], ClinicalTask)


def test_values_of_the_library_are_read_back_unchanged() -> None:
    for item in (
        Case(id="1", clinician_question="Why?", note_excerpt="He fell."),
        RecordQuestion(id="1", question="When?", patient_fhir_id="p1"),
        ClinicalTask(id="t", instruction=" Order it. ", context="Now."),
    ):
        assert archqa.load_cases([item]).cases[0] == item


def test_all_wrong_columns_are_named_at_once() -> None:
    table = pandas.DataFrame({"question": ["Why?"], "nte": ["He fell."], "age": [70]})
    with pytest.raises(CallerError) as raised:
        archqa.predict(table)
    message = str(raised.value)
    assert "'nte' is no column of it. Did you mean note?" in message
    assert "'age' is no column of it." in message
    assert "there is no column note or note_excerpt or sentences." in message
    assert "He fell" not in message


def test_one_column_by_two_names_is_refused() -> None:
    with pytest.raises(CallerError, match="stands twice"):
        archqa.predict([{"note": NOTE, "note_excerpt": NOTE, "question": QUESTION}])


def test_an_empty_cell_is_a_mistake_of_its_row() -> None:
    table = pandas.DataFrame({"question": [QUESTION, None], "note": [NOTE, NOTE]})
    with pytest.raises(InputError, match="case 1"):
        archqa.predict(table)


def test_a_list_of_other_things_is_refused_without_quoting_them() -> None:
    with pytest.raises(CallerError, match="of type str") as raised:
        archqa.predict([NOTE])
    assert "Apixaban" not in str(raised.value)


# Scores


def test_scores_are_read_by_name(run: Run) -> None:
    scores = archqa.score(run, key=MINI_KEY)
    assert scores["strict_micro_f1"] == scores.scores.scores["strict_micro_f1"]
    assert dict(scores) == scores.scores.scores
    assert "strict_micro_f1" in scores
    assert scores.get("no_such_score") is None


def test_a_score_that_is_missing_says_what_to_install(run: Run) -> None:
    scores = archqa.score(run, keep=False)
    missing, reason = next(iter(scores.scores.missing.items()))
    with pytest.raises(KeyError, match="is missing") as raised:
        scores[missing]
    assert reason[:20] in str(raised.value)


def test_scores_and_their_cases_are_tables(run: Run) -> None:
    scores = archqa.score(run, keep=False)
    table = scores.to_pandas()
    assert table.loc["strict_micro_f1", "value"] == scores["strict_micro_f1"]
    assert list(table.columns) == ["value", "low", "high", "signature"]
    assert list(scores.cases_to_pandas().index) == list(run.manifest.case_ids)


def test_two_runs_are_compared_as_runs(run: Run) -> None:
    assert archqa.compare(run, run)["strict_micro_f1"].difference == 0


# What a notebook shows


def test_a_run_shows_what_it_is_how_it_stands_its_scores_and_its_first_cases(
    run: Run,
) -> None:
    archqa.score(run, key=MINI_KEY)
    page = run._repr_html_()
    for part in (
        "archehr-2025",
        "embedded",
        "finished",
        "3 answered",
        "strict_micro_f1",
    ):
        assert part in page, part
    assert "Scored against the key file mini_key.json." in page
    assert run.cases[0].id in page
    assert len(page) < 30_000


def test_a_run_without_scores_says_how_to_score_it(tmp_path: Path) -> None:
    run = archqa.predict([{"question": QUESTION, "note": NOTE}], out=tmp_path / "run")
    assert "Not scored yet" in run._repr_html_()


def test_damaged_scores_do_not_stop_a_run_from_being_shown(tmp_path: Path) -> None:
    run = archqa.predict([{"question": QUESTION, "note": NOTE}], out=tmp_path / "run")
    for text in ("{", "[]", '{"task": 1}'):
        (run.path / "scores.json").write_text(text)
        assert "Not scored yet" in run._repr_html_()


def test_everything_that_is_shown_is_escaped(tmp_path: Path) -> None:
    note = f"{NOTE} {HOSTILE} apixaban was stopped because of bleeding {HOSTILE}."
    question = f"{QUESTION} {HOSTILE}"
    run = archqa.predict(
        [{"id": HOSTILE, "question": question, "note": note}], out=tmp_path / "r"
    )
    scores = archqa.score(archqa.predict("mini", out=tmp_path / "mini"), keep=False)
    scores.scores.warnings.append(HOSTILE)
    answer = archqa.ask(question, note=note)
    for shown in (run, scores, answer, run.cases[0]):
        page = shown._repr_html_()  # type: ignore[union-attr]
        assert "<script" not in page
    for shown in (run, scores, answer):
        assert "&lt;script&gt;" in shown._repr_html_()


def test_an_answer_shows_its_lines_with_what_they_cite() -> None:
    answer = archqa.ask(QUESTION, note=NOTE)
    page = answer._repr_html_()
    assert answer.lines[0].text in page
    assert "<code>[1]</code>" in page
    assert "(answered)" in page


def test_scores_show_what_they_were_scored_against(run: Run) -> None:
    page = archqa.score(run, key=MINI_KEY)._repr_html_()
    assert "Scored against the key file mini_key.json." in page


# Many questions


def test_missing_columns_of_questions_are_one_error_that_names_all() -> None:
    table = pandas.DataFrame({"Question": ["Why?"] * 3, "text": ["He fell."] * 3})
    with pytest.raises(CallerError) as raised:
        archqa.ask_many(table)
    message = str(raised.value)
    assert "no column question." in message
    assert "no column note or patient." in message
    assert "It has 'Question'. Did you mean question?" in message
    assert "Row" not in message


def test_a_thousand_wrong_rows_name_ten() -> None:
    table = pandas.DataFrame({"question": [None] * 1000, "note": [NOTE] * 1000})
    with pytest.raises(CallerError) as raised:
        archqa.ask_many(table)
    assert str(raised.value).count("has no question") == 10
    assert "990 more" in str(raised.value)


def test_answers_have_their_evidence_as_plain_columns() -> None:
    table = archqa.ask_many([{"question": QUESTION, "note": NOTE}])
    assert table["evidence_ids"].tolist() == [["1"]]
    assert table["evidence_text"].tolist() == [
        "Apixaban was stopped because of bleeding."
    ]


def test_progress_is_shown_in_a_notebook_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, line: object) -> None:
            shown.append(repr(line))

    with NotebookProgress("cases", 2) as progress:
        progress.advance()
    assert shown == []
    monkeypatch.setattr("archqa.runs.notebook_progress.is_notebook", lambda: True)
    display = type(
        "display", (), {"display": staticmethod(lambda line, display_id: Handle())}
    )
    monkeypatch.setitem(__import__("sys").modules, "IPython.display", display)
    with NotebookProgress("cases", 2) as progress:
        progress.advance()
        progress.advance(failed=True)
    assert shown[:2] == ["1 of 2 cases", "2 of 2 cases, 1 failed"]
