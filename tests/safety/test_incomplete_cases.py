"""Cases without a question or without a note are mistakes of their file, before anything is asked."""

import json
from pathlib import Path
from typing import Any

import pytest

import archqa
from archqa.errors import InputError
from tests.cli.test_commands import archqa as run_archqa

SENTENCES = [{"id": "1", "text": "He was given furosemide for oedema."}]
NOTE = (
    "Brief Hospital Course: He was given furosemide.\nIt was for oedema. He improved."
)
BLANK = " \u200b\n\t"


def case(case_id: str, **fields: Any) -> dict[str, Any]:
    complete = {"patient_narrative": "Why furosemide?", "sentences": SENTENCES}
    merged = {"case_id": case_id, **complete, **fields}
    return {name: value for name, value in merged.items() if value is not None}


def write_json(folder: Path, *cases: dict[str, Any], name: str = "cases.json") -> Path:
    path = folder / name
    if path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in cases))
    else:
        path.write_text(json.dumps(cases))
    return path


INCOMPLETE = (
    case("good"),
    case("mute", patient_narrative=None),
    case("blank", patient_narrative=BLANK, clinician_question=" "),
    case("bare", sentences=None),
    case("none", sentences=[], note_excerpt=BLANK),
    case("unseen", sentences=[{"id": "1", "text": BLANK}]),
    case("both", patient_narrative="", sentences=None),
)


@pytest.mark.parametrize(
    "command", [("predict",), ("cases", "check"), ("batch", "submit")]
)
@pytest.mark.parametrize("name", ["cases.json", "cases.jsonl"])
def test_every_incomplete_case_is_named_at_once(
    command: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    path = write_json(tmp_path, *INCOMPLETE, name=name)
    result = run_archqa(*command, str(path), cwd=tmp_path)
    assert result.returncode == 3, result.stderr
    assert result.stderr.count("holds no question") == 3
    assert result.stderr.count("holds no sentences") == 4
    for case_id in ("mute", "blank", "bare", "none", "unseen", "both"):
        assert f"case {case_id}" in result.stderr
    assert "case good" not in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "runs").exists()
    if path.suffix == ".jsonl":
        assert f"{path}:2: case mute" in result.stderr


def test_an_incomplete_xml_case_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "cases.xml"
    path.write_text(
        "<annotations>\n"
        '<case id="5"><patient_narrative>Why?</patient_narrative></case>\n'
        '<case id="6">\n<patient_narrative> </patient_narrative>\n'
        '<note_excerpt_sentences><sentence id="1">Fever.</sentence></note_excerpt_sentences>\n'
        "</case>\n"
        '<case id="7"><note_excerpt_sentences><sentence id="1"> </sentence>'
        "</note_excerpt_sentences></case>\n"
        "</annotations>"
    )
    result = run_archqa("cases", "check", str(path))
    assert result.returncode == 3
    assert f"{path}:2: case 5: <case> holds no sentences" in result.stderr
    assert ":4: case 6: <patient_narrative> holds no question" in result.stderr
    assert ":7: case 7: <case> holds no question" in result.stderr
    assert ":7: case 7: <sentence> is empty" in result.stderr


def test_other_mistakes_of_the_file_come_with_it(tmp_path: Path) -> None:
    repeated = [{"id": "1", "text": "A."}, {"id": "1", "text": "B."}]
    blank = [{"id": "1", "text": " \n\t"}]
    path = write_json(
        tmp_path, case("a", sentences=repeated), case("a", sentences=blank), case("b", title=7),
        case("c", sentences=None),
    )  # fmt: skip
    result = run_archqa("predict", str(path), cwd=tmp_path)
    assert result.returncode == 3
    expected = (
        "case a, $.sentences[1].id: '1' is taken",
        "case a, $.case_id: 'a' is taken",
        "case a, $.sentences[0].text: is empty",
        "case b, $.title: is a number",
        "case c, $.sentences: holds no sentences",
    )
    for mistake in expected:
        assert mistake in result.stderr


@pytest.mark.parametrize("name", ["cases.json", "cases.jsonl"])
def test_a_note_without_sentences_is_split_and_that_is_said(
    name: str, tmp_path: Path
) -> None:
    path = write_json(
        tmp_path, case("plain"), case("3", sentences=None, note_excerpt=NOTE), name=name
    )
    said = "case 3: 3 sentences made from note_excerpt"
    check = run_archqa("cases", "check", str(path), "--json")
    assert check.returncode == 0, check.stderr
    assert json.loads(check.stdout)["remarks"] == [said]
    assert json.loads(check.stdout)["sentences"] == 4
    assert said in run_archqa("cases", "check", str(path)).stderr

    out = tmp_path / "run"
    result = run_archqa("predict", str(path), "--out", str(out), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count(said) == 1
    assert said in json.loads((out / "run.json").read_text())["remarks"]
    stored = json.loads((out / "input.jsonl").read_text().splitlines()[1])
    assert [sentence["text"] for sentence in stored["sentences"]][-1] == "He improved."
    for sentence in stored["sentences"]:
        start = sentence["start_char_index"]
        assert NOTE[start:].startswith(sentence["text"])


def test_an_xml_note_without_sentences_is_split(tmp_path: Path) -> None:
    path = tmp_path / "cases.xml"
    path.write_text(
        '<annotations><case id="3"><clinician_question>Why?</clinician_question>'
        f"<note_excerpt>\n{NOTE}\n</note_excerpt></case></annotations>"
    )
    result = run_archqa("predict", str(path), "--quiet", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_split_run_can_be_resumed_and_scored(tmp_path: Path) -> None:
    path = write_json(tmp_path, case("3", sentences=None, note_excerpt=NOTE))
    out = tmp_path / "run"
    assert (
        run_archqa("predict", str(path), "--out", str(out), cwd=tmp_path).returncode
        == 0
    )
    resumed = run_archqa(
        "predict", str(path), "--out", str(out), "--resume", cwd=tmp_path
    )
    assert resumed.returncode == 0, resumed.stderr
    labels = [
        {"sentence_id": str(number), "relevance": "essential"} for number in (1, 2, 3)
    ]
    key = tmp_path / "key.json"
    key.write_text(json.dumps([{"case_id": "3", "answers": labels}]))
    score = run_archqa("score", str(out), "--key", str(key), "--json", cwd=tmp_path)
    assert score.returncode == 0, score.stderr
    assert json.loads(score.stdout)["scores"]["strict_micro_recall"] > 0


def test_thousands_of_split_notes_are_summed_up(tmp_path: Path) -> None:
    cases = [
        case(str(number), sentences=None, note_excerpt="Fever.")
        for number in range(1000)
    ]
    path = write_json(tmp_path, *cases, name="cases.jsonl")
    remarks = json.loads(run_archqa("cases", "check", str(path), "--json").stdout)[
        "remarks"
    ]
    assert len(remarks) <= 21
    assert remarks[-1] == "sentences of 980 more cases were made from note_excerpt"


def test_subtask_1_needs_the_message_and_no_note(tmp_path: Path) -> None:
    task = ("--task", "archehr-2026-st1")
    message_only = write_json(tmp_path, case("5", sentences=None), name="message.json")
    result = run_archqa("predict", str(message_only), *task, "--quiet", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    question_only = case("6", patient_narrative=None, clinician_question="Why?")
    path = write_json(tmp_path, question_only, name="question.json")
    result = run_archqa("predict", str(path), *task, cwd=tmp_path)
    assert result.returncode == 3
    assert "case 6" in result.stderr


@pytest.mark.parametrize("read_before", [True, False])
def test_python_callers_get_the_same_mistakes(
    read_before: bool, tmp_path: Path
) -> None:
    path = write_json(tmp_path, *INCOMPLETE)
    cases = archqa.load_cases(path) if read_before else path
    with pytest.raises(InputError) as caught:
        archqa.predict(cases, out=tmp_path / "run", pipeline="embedded")
    assert len(caught.value.mistakes) == 7
    assert not (tmp_path / "run").exists()


def test_python_callers_get_split_notes_too(tmp_path: Path) -> None:
    path = write_json(tmp_path, case("3", sentences=None, note_excerpt=NOTE))
    run = archqa.predict(
        archqa.load_cases(path), out=tmp_path / "run", pipeline="embedded"
    )
    assert run.records[0].status == "answered"
    assert run.manifest.remarks == ("case 3: 3 sentences made from note_excerpt",)


QUESTIONS = (
    "question_id,question,patient_fhir_id\nq1,Any allergies?,p1\nq2,{blank},p1\n"
)


def test_a_blank_question_to_a_record_is_a_mistake_of_its_line(tmp_path: Path) -> None:
    table = tmp_path / "questions.csv"
    table.write_text(QUESTIONS.format(blank='" \u200b"'))
    result = run_archqa("cases", "check", str(table))
    assert result.returncode == 3
    assert f"{table}:3: question is missing or empty." in result.stderr
    rows = [{"question_id": "q2", "question": BLANK, "patient_fhir_id": "p"}]
    listed = write_json(tmp_path, *rows)
    assert "case q2, $.question: is missing or empty." in (
        run_archqa("cases", "check", str(listed)).stderr
    )


@pytest.mark.parametrize(
    ("instruction", "problem"),
    [(" \n", "is empty"), (BLANK, "holds invisible characters only")],
)
def test_a_blank_instruction_is_a_mistake_of_its_task(
    instruction: str, problem: str, tmp_path: Path
) -> None:
    rows = [{"id": "task1_1", "instruction": instruction, "eval_MRN": "S1"}]
    result = run_archqa("cases", "check", str(write_json(tmp_path, *rows)))
    assert result.returncode == 3
    assert f"case task1_1, $.instruction: {problem}" in result.stderr
