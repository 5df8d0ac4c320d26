"""`python -m scoring` takes the organisers' flags and writes their leaderboard."""

import hashlib
import json
from pathlib import Path

import pytest

from scoring.__main__ import main

XML = """<annotations><case id="3"><patient_narrative>
Why so long?
</patient_narrative><clinician_question>Why was the stay prolonged?</clinician_question>
<note_excerpt_sentences><sentence id="1">Course:</sentence><sentence id="2">
He had fever.
</sentence></note_excerpt_sentences>
<answer_sentences><sentence id="1">Fever.</sentence></answer_sentences></case></annotations>"""
KEY = [
    {
        "case_id": "3",
        "answers": [
            {"sentence_id": "1", "relevance": "not-relevant"},
            {"sentence_id": "2", "relevance": "essential"},
        ],
        "clinician_answer_without_citations": "He had fever.",
        "clinician_answer_sentences": [
            {"id": "1", "text": "He had fever.", "citations": "2"}
        ],
    }
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "data.xml").write_text(XML)
    (tmp_path / "key.json").write_text(json.dumps(KEY))
    return tmp_path


def run(files: Path, submission: object, *more: str, key: str = "key.json") -> int:
    (files / "submission.json").write_text(json.dumps(submission))
    paths = {
        "submission": "submission.json",
        "key": key,
        "data": "data.xml",
        "out_file": "out.json",
    }
    return main(
        [
            *(
                part
                for flag, name in paths.items()
                for part in (f"--{flag}_path", str(files / name))
            ),
            *more,
        ]
    )


def test_the_leaderboard_is_written_with_what_it_rests_on_beside_it(
    files: Path,
) -> None:
    assert run(files, [{"case_id": "3", "answer": "He had fever. |2|"}]) == 0
    leaderboard = json.loads((files / "out.json").read_text())
    about = json.loads((files / "out.about.json").read_text())
    assert leaderboard["overall_factuality_score"] == 100
    assert all(isinstance(value, float) for value in leaderboard.values())
    assert (
        about["sha256"]["key"]
        == hashlib.sha256((files / "key.json").read_bytes()).hexdigest()
    )
    assert about["signatures"]["strict_micro_f1"].startswith(
        "citation_f1|credit:strict"
    )
    assert "overall_score" in about["missing"]


@pytest.mark.parametrize(
    ("subtask", "prediction", "name", "value"),
    [
        (1, "Why was the stay prolonged?", "rougeLsum", 100),
        (2, ["2"], "overall_score", 100),
        (3, "He had fever.", "rougeLsum", 100),
        (4, [{"answer_id": "1", "evidence_id": ["2"]}], "overall_score", 100),
    ],
)
def test_the_subtasks_of_2026_are_scored_too(
    files: Path, subtask: int, prediction: object, name: str, value: float
) -> None:
    key = "data.xml" if subtask == 1 else "key.json"
    more = ("--task", f"archehr-2026-st{subtask}", "--case_ids_to_score", "2-4", "7")
    assert run(files, [{"case_id": "3", "prediction": prediction}], *more, key=key) == 0
    assert json.loads((files / "out.json").read_text())[name] == value


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [{"case_id": "3", "answer": "Fever."}],
            "AssertionError: [case 3]: No citations found.",
        ),
        (
            [{"case_id": "8", "answer": "Fever. |2|"}],
            "ValueError: Case IDs in key but not in submission: {'3'}",
        ),
        (
            [{"case_id": case, "answer": "Fever. |2|"} for case in ("9", "3", "8")],
            "ValueError: Case IDs in submission but not in key: {'8', '9'}",
        ),
        (
            [{"case_id": 3, "answer": "Fever. |2|"}],
            "ValueError: Case IDs in key but not in submission: {'3'}",
        ),
        (
            [{"case_id": "3", "answer": "Fever \ud83d |2|"}],
            "UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud83d' in position 6: "
            "surrogates not allowed",
        ),
        (
            [{"case_id": "3", "answer": "|2|"}],
            "ZeroDivisionError: float division by zero",
        ),
        (
            {"case_id": "3"},
            'a submission is a list of {"case_id": …, "answer": …}, not a dict.',
        ),
    ],
)
def test_a_refused_submission_ends_with_the_reason_and_no_file(
    files: Path, rows: object, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(files, rows) == 3
    assert capsys.readouterr().err.strip() == words
    assert not (files / "out.json").exists()


LINKS = [{"answer_id": "1", "evidence_id": ["2"]}]


@pytest.mark.parametrize(
    ("subtask", "rows", "words"),
    [
        (
            1,
            [{"case_id": "3", "prediction": "\n"}],
            "ValueError: [case 3]: Empty prediction.",
        ),
        (
            1,
            [{"case_id": "3", "prediction": "Why \udc00?"}],
            "UnicodeEncodeError: 'utf-8' codec can't encode character '\\udc00' in position 4: "
            "surrogates not allowed",
        ),
        (
            2,
            [{"case_id": 3, "prediction": ["2"]}],
            "ValueError: Case IDs in key but not in submission: {'3'}",
        ),
        (
            2,
            [{"case_id": "3", "prediction": ["2", "9"]}],
            "ValueError: [case 3]: the note has no sentence '9'",
        ),
        (
            2,
            [{"case_id": case, "prediction": ["2"]} for case in ("3", "5")],
            "ValueError: Case IDs in submission but not in key: {'5'}",
        ),
        (
            3,
            [{"case_id": "3", "prediction": ""}],
            "ValueError: [case 3]: Empty prediction.",
        ),
        (
            4,
            [
                {
                    "case_id": "3",
                    "prediction": [{"answer_id": "8", "evidence_id": ["2"]}],
                }
            ],
            "ValueError: [case 3]: the answer has no sentence '8'",
        ),
        (
            4,
            [{"case_id": "8", "prediction": LINKS}],
            "ValueError: Case IDs in key but not in submission: {'3'}",
        ),
    ],
)
def test_a_subtask_refuses_what_its_script_refuses(
    files: Path,
    subtask: int,
    rows: object,
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    key = "data.xml" if subtask == 1 else "key.json"
    assert run(files, rows, "--task", f"archehr-2026-st{subtask}", key=key) == 3
    assert capsys.readouterr().err.strip() == words
    assert not (files / "out.json").exists()


def test_each_subtask_takes_the_flags_of_its_script(files: Path) -> None:
    predictions = {
        1: ("data.xml", "Why was the stay prolonged?"),
        2: ("key.json", ["2"]),
        4: ("key.json", LINKS),
    }
    for subtask, (key, prediction) in predictions.items():
        rows = [{"case_id": "3", "prediction": prediction}]
        (files / "submission.json").write_text(json.dumps(rows))
        flags = {
            "--submission_path": files / "submission.json",
            "--key_path": files / key,
            "--out_file_path": files / "out.json",
            "--task": f"archehr-2026-st{subtask}",
        }
        assert main([str(part) for flag in flags.items() for part in flag]) == 0


def test_subtask_3_needs_the_narrative(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "submission.json").write_text(
        json.dumps([{"case_id": "3", "prediction": "Fever."}])
    )
    flags = {
        "--submission_path": files / "submission.json",
        "--key_path": files / "key.json",
        "--task": "archehr-2026-st3",
    }
    assert main([str(part) for flag in flags.items() for part in flag]) == 3
    assert "--data_path archehr-qa.xml" in capsys.readouterr().err


def test_case_ids_to_score_select_cases_of_key_and_submission(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / "key.json").write_text(json.dumps([*KEY, {**KEY[0], "case_id": "4"}]))
    rows = [{"case_id": "3", "prediction": ["2"]}, {"case_id": "4", "prediction": []}]
    more = ("--task", "archehr-2026-st2")
    assert run(files, rows, *more, "--case_ids_to_score", "1-3", "9") == 0
    assert json.loads((files / "out.json").read_text())["overall_score"] == 100
    assert run(files, rows, *more) == 0
    assert json.loads((files / "out.json").read_text())["strict_macro_recall"] == 50
    assert run(files, rows[:1], *more) == 3
    assert "not in submission: {'4'}" in capsys.readouterr().err


def test_the_script_of_2025_has_no_flag_for_cases(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(
            files,
            [{"case_id": "3", "answer": "Fever. |2|"}],
            "--case_ids_to_score",
            "3",
        )
    assert ended.value.code == 2
    assert "is a flag of 2026" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("key.json", "{", "key.json: not JSON"),
        ("key.json", '{"case_id": "3"}', "key.json: a key is a list of objects"),
        (
            "key.json",
            '[{"case_id": "3", "answers": [{"sentence_id": "1", "relevance": "vital"}]}]',
            "has the labels vital",
        ),
        ("data.xml", "<annotations>", "data.xml: not XML"),
        (
            "data.xml",
            '<!DOCTYPE a [<!ENTITY b "c">]><annotations/>',
            "document type declaration",
        ),
    ],
)
def test_a_malformed_file_is_named(
    files: Path, name: str, content: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (files / name).write_text(content)
    assert run(files, [{"case_id": "3", "answer": "Fever. |2|"}]) == 3
    assert words in capsys.readouterr().err


def test_a_key_without_citations_is_no_gold_for_subtask_4(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = [
        {"case_id": "3", "clinician_answer_sentences": [{"id": "1", "text": "Fever."}]}
    ]
    (files / "key.json").write_text(json.dumps(bare))
    assert (
        run(files, [{"case_id": "3", "prediction": []}], "--task", "archehr-2026-st4")
        == 3
    )
    assert "no case has the gold of subtask 4" in capsys.readouterr().err
