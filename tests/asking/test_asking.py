"""One question about one note or one patient, answered with its evidence."""

import asyncio
import base64
import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.asking.answer import Answer, Status
from archqa.asking.answering import answer_with_models
from archqa.asking.question import AskOptions, ModelBackends, Question
from archqa.core.step import Step
from archqa.errors import CallerError
from archqa.fhir import Store
from archqa.notes.documents import patient_documents
from archqa.settings import Settings, load_settings
from tests.asking.scripted import answering, scripted_answers

NOTE = (
    "Brief Hospital Course:\n"
    "# Acute kidney injury: creatinine rose to 4.1 after omeprazole was begun; biopsy showed interstitial nephritis.\n"
    "Omeprazole was stopped and prednisone started.\n"
    "# GERD: famotidine in place of omeprazole."
)

LONG_NOTE = "She walked the ward today and ate her lunch with good appetite.\n" * 400


def _attachment(text: str, **more: Any) -> dict[str, Any]:
    return {
        "contentType": "text/plain",
        "data": base64.b64encode(text.encode()).decode(),
        **more,
    }


def _document(
    document_id: str, *attachments: dict[str, Any], patient: str = "p1", **more: Any
) -> dict[str, Any]:
    return {
        "resourceType": "DocumentReference",
        "id": document_id,
        "status": "current",
        "subject": {"reference": f"Patient/{patient}"},
        "content": [{"attachment": attachment} for attachment in attachments],
        **more,
    }


def _observation(observation_id: str, value: float, day: int) -> dict[str, Any]:
    coding = [
        {
            "system": "http://mimic.mit.edu/fhir/mimic/CodeSystem/mimic-d-labitems",
            "code": "50912",
            "display": "Creatinine",
        }
    ]
    category = [
        {
            "coding": [
                {
                    "system": "http://terminology.hl7.org/CodeSystem/observation-category",
                    "code": "laboratory",
                }
            ]
        }
    ]
    return {
        "resourceType": "Observation",
        "id": observation_id,
        "status": "final",
        "category": category,
        "code": {"coding": coding},
        "subject": {"reference": "Patient/p1"},
        "effectiveDateTime": f"2150-03-0{day}T06:00:00-05:00",
        "valueQuantity": {
            "value": value,
            "unit": "mg/dL",
            "system": "http://unitsofmeasure.org",
            "code": "mg/dL",
        },
    }


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return small_record(tmp_path)


def small_record(folder: Path) -> Path:
    """A store of two patients: one with two creatinine values and notes, one with a note."""
    resources = [
        {
            "resourceType": "Patient",
            "id": "p1",
            "gender": "female",
            "name": [
                {"use": "nickname", "text": "Addie"},
                {"use": "official", "given": ["Ada"], "family": "Example"},
            ],
        },
        {"resourceType": "Patient", "id": "p2"},
        _observation("o1", 4.1, 1),
        _observation("o2", 2.9, 4),
        _document("d1", _attachment(NOTE), date="2150-03-05T10:00:00Z"),
        _document("d2", {"contentType": "application/pdf", "data": "JVBERi0="}),
        _document(
            "d3",
            {"contentType": "text/plain; charset=utf-8", "url": "Binary/b1"},
            date="2149-01-01",
        ),
        _document("d4", _attachment("Written by mistake."), status="entered-in-error"),
        _document("d5", _attachment("Of somebody else."), patient="p2"),
        {
            "resourceType": "Binary",
            "id": "b1",
            "contentType": "text/plain",
            "data": base64.b64encode(b"No allergies.").decode(),
        },
    ]
    file = folder / "all.ndjson"
    file.write_text("".join(json.dumps(resource) + "\n" for resource in resources))
    path = folder / "record.db"
    with Store.open(path, create=True) as store:
        store.load([file])
    return path


def test_a_note_is_answered_with_sentences_of_it() -> None:
    steps: list[Step] = []
    answered = archqa.ask(
        "Why did the creatinine rise?", NOTE, settings=Settings(), on_step=steps.append
    )
    assert answered.status is Status.ANSWERED
    assert _cites_only_its_evidence(answered)
    for line in answered.evidence:
        assert line.start_char_index is not None
        assert NOTE[line.start_char_index :].startswith(line.text)
        assert 0 <= (line.probability or -1) <= 1
        assert line.heading == "Brief Hospital Course:"
    assert [step.agent for step in steps] == ["note_search"]
    assert answered.answered_by.reader == "engine"


def test_what_a_note_does_not_hold_is_not_found() -> None:
    answered = archqa.ask(
        "What is her blood type?", "The weather is fine. The dog sleeps."
    )
    assert answered.status is Status.NOT_FOUND
    assert (answered.lines, answered.evidence) == ((), ())
    assert "2 sentences" in answered.text


def test_a_note_in_another_language_is_searched_and_said_to_be_one() -> None:
    german = "Die Patientin wurde am 3.5. wegen einer Pneumonie aufgenommen und hat sich erholt."
    answered = archqa.ask("Why was she admitted?", german)
    assert answered.text.startswith("Only notes in English are supported")
    absent = archqa.ask("What is the potassium?", german)
    assert absent.text == (
        "Only notes in English are supported; this one seems to be in another language. "
        "No answer found in the note's one sentence."
    )
    assert archqa.ask("Why did the creatinine rise?", NOTE).remarks == ()


def test_a_model_that_is_set_up_answers_instead() -> None:
    model = scripted_answers(lambda _: answering(("Omeprazole was stopped.", "3")))
    settings = load_settings(assignments=("cache=off",))
    answered = archqa.ask(
        "Was omeprazole stopped?", NOTE, settings=settings, scripted=model
    )
    assert answered.text == "Omeprazole was stopped."
    assert [line.text for line in answered.evidence] == [
        "Omeprazole was stopped and prednisone started."
    ]
    assert answered.usage.calls == 2


def test_a_model_that_refuses_to_find_gives_a_status() -> None:
    model = scripted_answers(
        lambda _: answering(status="not_found", missing="her blood type")
    )
    settings = load_settings(assignments=("cache=off",))
    answered = archqa.ask(
        "What is her blood type?", NOTE, settings=settings, scripted=model
    )
    assert answered.status is Status.NOT_FOUND
    assert "her blood type" in answered.text


def test_a_model_for_this_agent_alone_is_asked_for_by_its_settings() -> None:
    settings = load_settings(assignments=("agents.note_answer.backend=model",))
    with pytest.raises(CallerError, match="--model NAME"):
        archqa.ask("Why?", NOTE, settings=settings)


def test_a_pipeline_of_a_benchmark_does_not_answer_a_note() -> None:
    with pytest.raises(CallerError, match="no pipeline"):
        archqa.ask("Why?", NOTE, settings=load_settings(typed={"pipeline": "embedded"}))


def test_a_setting_of_a_benchmark_is_refused() -> None:
    with pytest.raises(CallerError, match="labels"):
        archqa.ask("Why?", NOTE, settings=load_settings(typed={"labels": "multiclass"}))


def test_the_notes_of_a_patient_are_read_latest_first_and_whole(record: Path) -> None:
    with Store.open(record) as store:
        documents = patient_documents(store, "Patient/p1")
    assert [document.name for document in documents.readable] == [
        "DocumentReference/d1",
        "DocumentReference/d3",
    ]
    assert [document.text for document in documents.readable] == [NOTE, "No allergies."]
    reasons = [document.reason for document in documents.unread]
    assert "entered in error" in reasons
    assert len(reasons) == 2


def test_the_resources_answer_with_what_they_cite(record: Path) -> None:
    answered = archqa.ask(
        "What was the last creatinine measured?",
        patient="p1",
        record=record,
        settings=Settings(),
    )
    resources = [line for line in answered.evidence if line.kind == "resource"]
    assert [line.id for line in resources] == ["Observation/o2"]
    assert resources[0].date.startswith("2150-03-04")
    assert "2.9" in answered.lines[0].text
    assert answered.query
    assert answered.patient == {"id": "p1", "name": "Ada Example"}
    assert _cites_only_its_evidence(answered)


def test_what_only_a_note_knows_is_answered_from_the_note(record: Path) -> None:
    answered = archqa.ask(
        "Why did the kidneys fail after omeprazole?",
        patient="p1",
        record=record,
        settings=Settings(),
    )
    assert answered.status is Status.ANSWERED
    assert {line.kind for line in answered.evidence} == {"sentence"}
    assert {line.source for line in answered.evidence} == {"DocumentReference/d1"}
    assert {line.date for line in answered.evidence} == {"2150-03-05T10:00:00Z"}
    assert all(
        line.id.startswith("DocumentReference/d1#") for line in answered.evidence
    )
    assert any("do not answer" in remark for remark in answered.remarks)
    assert any("Documents not read" in remark for remark in answered.remarks)


def test_a_given_note_is_one_more_of_the_patients(record: Path) -> None:
    note = "Her niece collects porcelain owls."
    answered = archqa.ask(
        "What does her niece collect?",
        patient="p1",
        record=record,
        settings=Settings(),
        note=note,
    )
    assert [(line.text, line.source) for line in answered.evidence] == [
        (note, "the given note")
    ]


def test_a_given_note_without_a_word_is_an_error_also_with_a_patient(
    record: Path,
) -> None:
    with pytest.raises(CallerError, match="The note is empty"):
        archqa.ask("Any creatinine?", " \n", patient="p1", record=record)


async def _cancelled_after_first_passage(note: str) -> list[tuple[int, int]]:
    """The progress of a question that is cancelled when the first passage was read."""
    loop = asyncio.get_running_loop()
    progress: list[tuple[int, int]] = []

    def on_progress(done: int, total: int) -> None:
        progress.append((done, total))
        loop.call_soon_threadsafe(task.cancel)

    options = AskOptions(Settings(), on_progress=on_progress)
    question = Question.create("Was she given furosemide?", options, note=note)
    task = asyncio.create_task(answer_with_models(question, ModelBackends(options)))
    with pytest.raises(asyncio.CancelledError):
        await task
    return progress


def test_a_cancelled_question_is_read_no_further() -> None:
    progress = asyncio.run(_cancelled_after_first_passage(LONG_NOTE))
    assert len(progress) < progress[0][1]


def test_of_a_long_note_the_parts_that_name_what_is_asked_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    note = f"{LONG_NOTE}She was given a water pill for leg swelling.\n{LONG_NOTE}"
    progress: list[tuple[int, int]] = []

    def on_progress(*counts: int) -> None:
        progress.append(counts)

    whole = archqa.ask("Why was she given a diuretic?", note, on_progress=on_progress)
    assert progress[-1][0] == progress[-1][1] > 4
    assert whole.remarks == ()
    monkeypatch.setattr("archqa.engine.answer_finder.MAX_WINDOWS", 2)
    partly = archqa.ask("Why was she given a diuretic?", note, on_progress=on_progress)
    assert progress[-1] == (2, 2)
    assert partly.lines == whole.lines
    assert "note is long" in partly.remarks[0]
    absent = archqa.ask("What is her blood type?", note).message
    assert re.fullmatch(
        "No answer found in [0-9]+ of the note's 801 sentences.", absent
    )


@pytest.mark.parametrize("stretch", ["_", "A/b+", "(", "1."])
def test_a_stretch_without_blanks_is_hardly_read(stretch: str) -> None:
    totals = set()

    def on_progress(_done: int, total: int) -> None:
        totals.add(total)

    note = (
        f"She was given furosemide for edema.\n\n{stretch * (200_000 // len(stretch))}"
    )
    answer = archqa.ask("Why furosemide?", note, on_progress=on_progress)
    assert [piece.id for piece in answer.evidence] == ["1"]
    assert max(totals) <= 4


def test_a_relative_is_the_patient_where_the_sex_fits_and_that_is_said(
    record: Path,
) -> None:
    answered = archqa.ask(
        "What was mom's last creatinine?",
        patient="p1",
        record=record,
        settings=Settings(),
    )
    assert "“mom” was taken for the patient." in answered.remarks
    other = archqa.ask(
        "What was my husband's last creatinine?",
        patient="p1",
        record=record,
        settings=Settings(),
    )
    assert other.status is Status.NOT_UNDERSTOOD


def test_an_answer_is_partial_where_a_sentence_of_the_question_was_left_out(
    record: Path,
) -> None:
    question = "What was her last creatinine?"
    whole = archqa.ask(question, patient="p1", record=record, settings=Settings())
    left_out = f"Her cousin wants a copy. {question}"
    partial = archqa.ask(left_out, patient="p1", record=record, settings=Settings())
    assert [line.text for line in partial.lines] == [line.text for line in whole.lines]
    assert "Not taken into account: “Her cousin wants a copy”." in partial.remarks
    assert (whole.is_partial, partial.is_partial) == (False, True)


def test_words_that_are_not_understood_are_named(record: Path) -> None:
    answered = archqa.ask(
        "What was the last glork?", patient="p2", record=record, settings=Settings()
    )
    assert answered.status is Status.NOT_UNDERSTOOD
    assert any("glork" in words for words in answered.not_understood)
    assert "None" not in answered.text


def test_what_the_record_does_not_hold_is_not_found(record: Path) -> None:
    answered = archqa.ask(
        "What was the last creatinine measured?",
        patient="p2",
        record=record,
        settings=Settings(),
    )
    assert answered.status is Status.NOT_FOUND
    assert answered.message.startswith("No creatinine result is recorded")
    assert answered.message.endswith("No answer found in 1 note.")
    assert answered.lines == ()


def test_a_question_is_asked_at_the_given_time(record: Path) -> None:
    question = "Was creatinine measured today?"
    for day, status in ((4, Status.ANSWERED), (9, Status.NOT_FOUND)):
        now = datetime(2150, 3, day, 20)
        answered = archqa.ask(
            question,
            patient="p2" if day == 9 else "p1",
            record=record,
            settings=Settings(),
            now=now,
        )
        assert answered.status is status
        assert f"2150-03-0{day}" in (answered.query or "")


def test_a_patient_who_is_not_there_is_said_to_be_missing(record: Path) -> None:
    with pytest.raises(CallerError, match="no patient"):
        archqa.ask(
            "What was the last creatinine?",
            patient="p9",
            record=record,
            settings=Settings(),
        )


def _cites_only_its_evidence(answered: Answer) -> bool:
    cited = {citation for line in answered.lines for citation in line.citations}
    return cited == {line.id for line in answered.evidence}
