"""Case files as the shared tasks release them, and the doors they come through."""

import hashlib
import io
import json
import sys
from pathlib import Path

import pytest

from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case, Phrase, Sentence
from archqa.errors import CallerError, InputError
from archqa.tasks import CompletedCase, find, find_key, load_cases, names
from archqa.tasks.case_files import recognise

XML = """<?xml version="1.0" encoding="UTF-8"?>
<annotations>
  <case id="5">
    <patient_narrative>
Why did they keep me &amp; for so long?
    </patient_narrative>
    <patient_question>
      <phrase id="0" start_char_index="0">Why did they</phrase><phrase id="1" start_char_index="13">keep me</phrase>
    </patient_question>
    <clinician_question>Why was the stay prolonged?</clinician_question>
    <note_excerpt>Course: Fever.</note_excerpt>
    <note_excerpt_sentences>
      <sentence id="h" paragraph_id="0" start_char_index="0">Course:</sentence>
      <sentence id="2a" paragraph_id="0" start_char_index="8">
Fe<!-- a comment does not cut a sentence -->ver.
      </sentence>
    </note_excerpt_sentences>
  </case>
</annotations>
"""


def write(folder: Path, text: str | bytes, name: str = "cases") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_xml_of_2025_is_read_whole_with_ids_as_they_stand(tmp_path: Path) -> None:
    assert load_cases(write(tmp_path, XML)).cases == (
        Case(
            id="5",
            patient_narrative="Why did they keep me & for so long?",
            patient_question=(
                Phrase(id="0", text="Why did they", start_char_index=0),
                Phrase(id="1", text="keep me", start_char_index=13),
            ),
            clinician_question="Why was the stay prolonged?",
            note_excerpt="Course: Fever.",
            sentences=(
                Sentence(id="h", text="Course:", paragraph_id="0", start_char_index=0),
                Sentence(id="2a", text="Fever.", paragraph_id="0", start_char_index=8),
            ),
        ),
    )


def test_sentences_of_the_answer_are_not_taken_for_sentences_of_the_note(
    tmp_path: Path,
) -> None:
    text = """<annotations><case id="3"><clinical_specialty>cardiology</clinical_specialty>
      <note_excerpt_sentences><sentence id="1" length="5">Note.</sentence></note_excerpt_sentences>
      <answer_sentences><sentence id="1">Answer.</sentence></answer_sentences></case></annotations>"""
    (case,) = load_cases(write(tmp_path, text)).cases

    assert case.clinical_specialty == "cardiology"
    assert case.sentences == (Sentence(id="1", text="Note."),)
    assert case.answer_sentences == (Phrase(id="1", text="Answer."),)


def test_a_release_that_holds_only_the_patients_message_loads(tmp_path: Path) -> None:
    text = '<annotations><case id="121"><patient_narrative>\nWhy?\n</patient_narrative></case></annotations>'
    (case,) = load_cases(write(tmp_path, text)).cases

    assert case == Case(id="121", patient_narrative="Why?")


def test_null_and_unknown_fields_of_json_count_as_withheld(tmp_path: Path) -> None:
    text = '[{"case_id": "1", "patient_narrative": "Why?", "sentences": null, "title": null, "reviewer": 7}]'

    assert load_cases(write(tmp_path, text)).cases == (
        Case(id="1", patient_narrative="Why?"),
    )


@pytest.mark.parametrize(
    "text", [XML, '[{"case_id": "1", "patient_narrative": "Why?"}]']
)
def test_a_byte_order_mark_changes_nothing_but_the_fingerprint(
    tmp_path: Path, text: str
) -> None:
    bare, marked = (
        write(tmp_path, text, "bare"),
        write(tmp_path, b"\xef\xbb\xbf" + text.encode(), "marked"),
    )

    assert load_cases(bare).cases == load_cases(marked).cases
    assert load_cases(marked).sha256 == hashlib.sha256(marked.read_bytes()).hexdigest()


def test_a_dash_reads_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(XML.encode())))
    read = load_cases("-")

    assert (str(read.path), read.format, [case.id for case in read.cases]) == (
        "-",
        "xml",
        ["5"],
    )


def test_the_key_is_found_under_both_its_names(tmp_path: Path) -> None:
    cases = tmp_path / "my.xml"
    assert find_key(cases) is None
    official = write(tmp_path, "[]", "archehr-qa_key.json")
    assert find_key(cases) == official
    own = write(tmp_path, "[]", "my_key.json")
    assert find_key(cases) == own


@pytest.mark.parametrize(
    ("text", "task"),
    [
        (XML, "archehr-2025"),
        ('[{"case_id": "1", "patient_narrative": "Why?"}]', "archehr-2025"),
        (
            "split,question_id,question,patient_fhir_id\ntest,1,When?,p1\n",
            "fhir-agentbench",
        ),
        ('[{"question": "When?", "patient_fhir_id": "p1"}]', "fhir-agentbench"),
        (
            '[{"id": "task1_1", "instruction": "Find."}, {"instruction": "Do.", "eval_MRN": "S1"}]',
            "medagentbench",
        ),
    ],
)
def test_a_file_is_recognised_by_its_content(
    tmp_path: Path, text: str, task: str
) -> None:
    assert recognise(write(tmp_path, text)).name == task


def test_an_unknown_task_names_the_nearest_one() -> None:
    with pytest.raises(CallerError, match="Did you mean archehr-2025"):
        load_cases("mini", task="archer-2025")
    assert [find(name).name for name in names()] == list(names())


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"case_id": "1", "answers": []}, "looks like a key"),
        ({"case_id": "1", "answer": "Yes. |1|"}, "looks like a submission"),
        ({"colour": "red"}, "no benchmark we know"),
    ],
)
def test_files_of_another_kind_are_told_apart(
    tmp_path: Path, entry: dict[str, object], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        load_cases(write(tmp_path, json.dumps([entry])))


def test_a_submission_has_one_line_a_claim_with_its_ids_at_the_end() -> None:
    answer = CitedAnswer(
        claims=(
            Claim(text="He had\nfever.", citations=("2", "5")),
            Claim(text="Ask us.", citations=()),
        )
    )

    assert find("archehr-2025").submission([CompletedCase(Case(id="5"), answer)]) == [
        {"case_id": "5", "answer": "He had fever. |2,5|\nAsk us."}
    ]
    assert find("archehr-2025").word_limit == 75
