"""`archqa evaluate ask`: what a set of questions says of asking, with numbers derived by hand."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from archqa.asking.answer import Answer, AnswerLine, Evidence, Status
from archqa.core.case import Case
from archqa.evaluation.asking import RecordQuestion, score_record_answer
from scoring import parse_metric
from tests.asking.test_asking import small_record
from tests.cli.test_commands import archqa

NOTE = (
    "Furosemide was given for oedema. It was stopped on day 3. His wife drove him home."
)
SENTENCES = NOTE.replace(". ", ".|").split("|")
NOTE_ITEMS: list[dict[str, Any]] = [
    {"q": "two groups, one hit by 1 of 2", "kind": "answerable", "answer": "",
     "quotes": [["for oedema", "given for oedema"], ["stopped on day 3"]]},
    {"q": "not answered", "kind": "answerable", "answer": "", "quotes": [["His wife"]]},
    {"q": "hard", "kind": "unanswerable", "why": "", "hard": True},
    {"q": "hard, answered", "kind": "unanswerable", "why": "", "hard": True},
    {"q": "easy", "kind": "unanswerable", "why": "", "hard": False},
]  # fmt: skip
CITED = {"two groups, one hit by 1 of 2": ("1", "3"), "hard, answered": ("2",)}


def fake_engine(case: Case, *_: object) -> Answer:
    """Answer two of the questions above, with the sentences above."""
    cited = CITED.get(case.clinician_question, ())
    evidence = []
    for sentence in case.sentences:
        if sentence.id in cited:
            start = sentence.start_char_index
            evidence.append(
                Evidence(
                    id=sentence.id,
                    kind="sentence",
                    text=sentence.text,
                    start_char_index=start,
                )
            )
    return Answer(
        question=case.clinician_question,
        status=Status.ANSWERED if cited else Status.NOT_FOUND,
        lines=(AnswerLine(text="x", citations=cited),) if cited else (),
        evidence=tuple(evidence),
    )


def write_set(folder: Path, items: list[dict[str, Any]]) -> tuple[str, str]:
    questions = folder / "set.json"
    questions.write_text(json.dumps([{"file": "a.txt", "items": items}]))
    notes = folder / "notes.json.gz"
    notes.write_bytes(
        gzip.compress(json.dumps([{"file": "a.txt", "text": NOTE}]).encode())
    )
    return str(questions), str(notes)


def test_the_figures_of_notes_count_all_questions_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archqa.asking.note.answer_by_engine", fake_engine)
    questions, notes = write_set(tmp_path, NOTE_ITEMS)
    out = tmp_path / "out.jsonl"
    words = (
        "evaluate",
        "ask",
        questions,
        "--notes",
        notes,
        "--out",
        str(out),
        "--json",
    )
    result = archqa(*words)
    assert result.returncode == 0, result.stderr
    printed = json.loads(result.stdout)
    intervals = printed.pop("intervals")
    signatures = printed.pop("signatures")
    assert printed == {
        "answered": 1 / 2,
        "recall": 1 / 3,
        "precision": 1 / 2,
        "f1": pytest.approx(0.4),
        "abstained": pytest.approx(2 / 3),
        "hard_abstained": 1 / 2,
        "both_twins_right": None,
        "right": pytest.approx(3 / 5),
        "status_accuracy": pytest.approx(3 / 5),
        "evidence_f1": pytest.approx(0.4),
        "wrong_with_confidence": pytest.approx(2 / 5),
        "questions": 5,
        "failed": 0,
        "by_kind": {},
    }
    figures = printed.keys() - {"questions", "failed", "by_kind", "both_twins_right"}
    assert intervals.keys() == signatures.keys() == figures
    for name in figures:
        low, high = intervals[name]
        assert 0 <= low <= printed[name] <= high <= 1
        assert str(parse_metric(signatures[name])) == signatures[name]
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["status"] for row in rows][:2] == ["answered", "not_found"]
    assert rows[0]["score"]["hit_groups"] == 1
    table = archqa(*words[:-1]).stdout
    assert "hard abstained" in table
    low, high = intervals["status_accuracy"]
    assert f"[{low:.3f}, {high:.3f}]" in table


TWINS: list[dict[str, Any]] = [
    {"id": "1a", "twin": "1b", "kind": "person", "q": "Does he have gout?", "expect": "answered",
     "opens": "yes", "note": "He has gout. He walks.", "quote": "He has gout."},
    {"id": "1b", "twin": "1a", "kind": "person", "q": "Does he have gout?", "expect": "not_found",
     "opens": None, "note": "His father has gout. He walks.", "quote": None},
    {"id": "2a", "twin": "2b", "kind": "side", "q": "Is it sore?", "expect": "answered",
     "opens": "no", "note": "The left knee is not sore.", "quote": "The left knee is not sore."},
    {"id": "2b", "twin": "2a", "kind": "side", "q": "Is it sore?", "expect": "answered",
     "opens": "yes", "note": "The left knee is sore.", "quote": "The left knee is sore."},
]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "opening", "related", "right", "wrong"),
    [
        (Status.ANSWERED, "Yes. ", False, {"1a", "2b"}, {"1b", "2a"}),
        (Status.ANSWERED, "No fever. ", False, {"1a", "2a", "2b"}, {"1b"}),
        (Status.NOT_FOUND, "", False, {"1b"}, {"1a", "2a", "2b"}),
        (Status.DECLINED, "", False, {"1b"}, {"1a", "2a", "2b"}),
        (Status.NOT_FOUND, "", True, {"1b"}, set()),
        (Status.NOT_UNDERSTOOD, "", False, {"1b"}, set()),
    ],
)
def test_twins_are_right_by_status_quote_and_opening(
    status: Status,
    opening: str,
    related: bool,
    right: set[str],
    wrong: set[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer_with_first_sentence(case: Case, *_: object) -> Answer:
        sentence = case.sentences[0]
        piece = Evidence(
            id=sentence.id, kind="sentence", text=sentence.text, start_char_index=0
        )
        line = AnswerLine(text=f"{opening}{sentence.text}", citations=(sentence.id,))
        is_answered = status is Status.ANSWERED
        return Answer(
            question=case.clinician_question,
            status=status,
            lines=(line,) if is_answered else (),
            evidence=(piece,) if is_answered else (),
            related=(piece,) if related else (),
        )

    monkeypatch.setattr(
        "archqa.asking.note.answer_by_engine", answer_with_first_sentence
    )
    questions, out = tmp_path / "twins.json", tmp_path / "out.jsonl"
    questions.write_text(json.dumps(TWINS))
    words = ("evaluate", "ask", str(questions), "--out", str(out))
    printed = json.loads(archqa(*words, "--json").stdout)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert {row["file"] for row in rows if row["score"]["right"]} == right
    confident = {row["file"] for row in rows if row["score"]["wrong_with_confidence"]}
    assert confident == wrong
    pairs = [{"1a", "1b"} <= right, {"2a", "2b"} <= right]
    assert printed["both_twins_right"] == sum(pairs) / 2
    of_person = printed["by_kind"]["person"]
    assert of_person["questions"] == 2
    assert of_person["right"] == len({"1a", "1b"} & right) / 2
    assert "By kind" in archqa(*words).stdout


def test_a_twin_whose_quote_is_not_in_its_note_is_refused(tmp_path: Path) -> None:
    questions = tmp_path / "twins.json"
    questions.write_text(json.dumps([{**TWINS[0], "quote": "She has gout."}]))
    result = archqa("evaluate", "ask", str(questions))
    assert result.returncode == 3
    assert "1a: its quote is not in the note" in result.stderr


@pytest.mark.parametrize(
    ("item", "mistake"),
    [
        ({"q": "x", "kind": "answerable", "quotes": [["absent"]]}, "quote"),
        ({"q": "x", "kind": "answerable"}, "quote"),
        ({"q": "x", "kind": "perhaps"}, "items.0.kind"),
    ],
)
def test_a_set_that_does_not_fit_its_notes_is_refused(
    item: dict[str, Any], mistake: str, tmp_path: Path
) -> None:
    questions, notes = write_set(tmp_path, [item])
    result = archqa("evaluate", "ask", questions, "--notes", notes)
    assert result.returncode == 3
    assert mistake in result.stderr
    assert archqa("evaluate", "ask", questions).returncode == 2
    assert archqa("evaluate", "ask", notes, "--notes", notes).returncode == 3


def record_answer(
    status: Status, text: str = "", cited: str = "Observation/1"
) -> Answer:
    lines = (AnswerLine(text=text, citations=(cited,)),) if text else ()
    evidence = (
        Evidence(id=cited, kind="resource", text="", source="DocumentReference/d"),
    )
    return Answer(
        question="q", status=status, lines=lines, evidence=evidence if text else ()
    )


@pytest.mark.parametrize(
    ("expect", "status", "text", "verdict"),
    [
        ("value", Status.ANSWERED, "It was 4.1 mg/dL.", "right"),
        ("value", Status.ANSWERED, "it was 4.1 mg/dl, perhaps 5.", "wrong"),
        ("value", Status.ANSWERED, "It was 3.", "wrong"),
        ("value", Status.NOT_FOUND, "", "wrong"),
        ("value", Status.NOT_UNDERSTOOD, "", "refused"),
        ("value", Status.DECLINED, "", "refused"),
        ("none", Status.NOT_FOUND, "", "right"),
        ("none", Status.ANSWERED, "It was 4.1 mg/dL.", "right"),
        ("none", Status.ANSWERED, "It was 3.", "wrong"),
        ("none", Status.NOT_UNDERSTOOD, "", "refused"),
        ("decline", Status.DECLINED, "", "right"),
        ("decline", Status.NOT_FOUND, "", "right"),
        ("decline", Status.NOT_UNDERSTOOD, "", "right"),
        ("decline", Status.ANSWERED, "It was 4.1 mg/dL.", "wrong"),
    ],
)
def test_an_answer_of_a_record_is_judged_by_its_status_and_words(
    expect: Any, status: Status, text: str, verdict: str
) -> None:
    question = RecordQuestion(
        q="q",
        patient="p",
        expect=expect,
        must=("4\\.1", "MG/DL"),
        must_not=("perhaps",),
    )
    score = score_record_answer(question, record_answer(status, text))
    found = [name for name in ("right", "wrong", "refused") if _field(score, name)]
    assert found == [verdict]


def _field(score: Any, name: str) -> bool:
    return bool(
        score.wrong_with_confidence if name == "wrong" else getattr(score, name)
    )


def test_the_gold_is_cited_by_one_of_its_ids_and_by_all_sources() -> None:
    answer = record_answer(Status.ANSWERED, "4.1")
    ids = RecordQuestion(
        q="q", patient="p", must=("4",), ids=("Observation/9", "Observation/1")
    )
    assert score_record_answer(ids, answer).gold_cited
    other = RecordQuestion(q="q", patient="p", must=("4",), ids=("Observation/9",))
    assert score_record_answer(other, answer)[:4] == (True, False, False, False)
    both = RecordQuestion(
        q="q",
        patient="p",
        must=("4",),
        sources=("Observation/1", "DocumentReference/d"),
    )
    assert score_record_answer(both, answer)[:4] == (True, False, False, True)
    more = both.model_copy(update={"sources": (*both.sources, "DocumentReference/e")})
    assert score_record_answer(more, answer).wrong_with_confidence


def test_evidence_counts_every_source_or_one_of_the_ids() -> None:
    answer = record_answer(Status.ANSWERED, "4.1")
    uncited = Evidence(id="Observation/2", kind="resource", text="")
    more = answer.model_copy(update={"evidence": (*answer.evidence, uncited)})
    ids = RecordQuestion(q="q", patient="p", ids=("Observation/9", "Observation/1"))
    assert _evidence_counts(ids, more) == (1, 1, 2, 1)
    sources = RecordQuestion(
        q="q", patient="p", sources=("DocumentReference/d", "Observation/9")
    )
    assert _evidence_counts(sources, more) == (2, 1, 2, 1)
    assert _evidence_counts(sources, record_answer(Status.NOT_FOUND)) == (2, 0, 0, 0)
    assert _evidence_counts(sources, None) == (2, 0, 0, 0)


def _evidence_counts(
    question: RecordQuestion, answer: Answer | None
) -> tuple[int, ...]:
    score = score_record_answer(question, answer)
    return score.groups, score.hit_groups, score.cited, score.hitting


@pytest.mark.parametrize(
    ("expect", "status", "is_right"),
    [
        ("value", Status.ANSWERED, True),
        ("value", Status.NOT_FOUND, False),
        ("none", Status.NOT_FOUND, True),
        ("none", Status.ANSWERED, False),
        ("decline", Status.DECLINED, True),
        ("decline", Status.ANSWERED, False),
    ],
)
def test_a_status_is_right_whatever_the_words(
    expect: Any, status: Status, is_right: bool
) -> None:
    question = RecordQuestion(q="q", patient="p", expect=expect, must=("4",))
    assert (
        score_record_answer(question, record_answer(status, "5")).right_status
        is is_right
    )
    assert score_record_answer(question, None).right_status is False


def test_a_set_about_patients_is_asked_of_their_record(tmp_path: Path) -> None:
    questions = tmp_path / "set.json"
    item = {
        "q": "What was the last creatinine measured?",
        "patient": "p1",
        "must": ["2\\.9"],
    }
    lacking = {
        "q": "What was the last creatinine measured?",
        "patient": "p2",
        "kind": "none",
    }
    questions.write_text(json.dumps([{**item, "ids": ["Observation/o2"]}, lacking]))
    record = str(small_record(tmp_path))
    result = archqa("evaluate", "ask", str(questions), "--record", record, "--json")
    figures = json.loads(result.stdout)
    assert {
        name: figures[name] for name in ("right", "wrong_with_confidence", "refused")
    } == {
        "right": 1.0,
        "wrong_with_confidence": 0.0,
        "refused": 0.0,
    }
    assert figures["gold_cited"] == 1.0
    assert figures["status_accuracy"] == 1.0
    assert figures["by_kind"]["none"]["right"] == 1.0
    # The answer cites the measurement, which is the gold, and a sentence of a report.
    assert figures["evidence_f1"] == pytest.approx(2 / 3)
    assert figures["intervals"]["right"] == [1.0, 1.0]
    assert figures["signatures"]["right"] == "ask_right|bs:1000|seed:12345|rev:1"
    assert archqa("evaluate", "ask", str(questions)).returncode == 2
