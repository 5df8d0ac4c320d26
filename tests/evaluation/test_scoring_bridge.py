"""`archqa score` for the subtasks of 2026, on invented notes; every expected number is derived in a comment."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands import ROOT
from tests.cli.test_commands import archqa as run

KEYS = {
    "task",
    "scores",
    "intervals",
    "signatures",
    "missing",
    "warnings",
    "cases",
    "cases_in_key",
    "baselines",
    "fingerprints",
    "key",
}
SENTENCES = [
    "Course:",
    "Fever rose to 39.",
    "Cultures stayed negative.",
    "He ate well.",
]
CASE = {
    "case_id": "3",
    "patient_narrative": "My father was kept so long and nobody told us why.",
    "clinician_question": "Why was the stay prolonged?",
    "sentences": [
        {"id": str(at), "text": text} for at, text in enumerate(SENTENCES, 1)
    ],
}
LABELS = ["not-relevant", "essential", "essential", "supplementary"]
KEY = {
    "case_id": "3",
    "answers": [
        {"sentence_id": str(at), "relevance": label}
        for at, label in enumerate(LABELS, 1)
    ],
    "clinician_answer": "He was kept because of fever. |2|\nCultures stayed negative. |3-4|",
}
OFFICIAL_KEY = {
    **KEY,
    "clinician_answer": "He was kept because of fever [2]. Cultures stayed negative [3,4].",
    "clinician_answer_without_citations": "He was kept because of fever. Cultures stayed negative.",
    "clinician_answer_sentences": [
        {"id": "1", "text": "He was kept because of fever.", "citations": ["2"]},
        {"id": "2", "text": "Cultures stayed negative.", "citations": "3,4"},
    ],
}


class Desk:
    """A folder with cases, their key and submissions."""

    def __init__(self, folder: Path, key: dict[str, Any] = KEY) -> None:
        self.folder = folder
        self.write("cases.json", [CASE, {**CASE, "case_id": "4"}])
        self.write("cases_key.json", [key, {**key, "case_id": "4"}])

    def write(self, name: str, content: Any) -> Path:
        (self.folder / name).write_text(json.dumps(content))
        return self.folder / name

    def score(
        self, *predictions: Any, arguments: str = "--key cases_key.json"
    ) -> dict[str, Any]:
        """The printed report on predictions for case 3, then case 4."""
        process = self.run(*predictions, arguments=arguments)
        assert process.returncode == 0, process.stderr
        report: dict[str, Any] = json.loads(process.stdout)
        return report

    def run(self, *predictions: Any, arguments: str = "--key cases_key.json") -> Any:
        rows = [
            {"case_id": case, "prediction": prediction}
            for case, prediction in zip("34", predictions, strict=False)
        ]
        self.write("given.json", rows)
        return run("score", "given.json", *arguments.split(), "--json", cwd=self.folder)


@pytest.fixture
def context(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


LINKS = [
    {"answer_id": "1", "evidence_id": ["2", "1"]},
    {"answer_id": "2", "evidence_id": ["3"]},
]


@pytest.mark.parametrize(
    "key", [KEY, OFFICIAL_KEY], ids=["lines with |ids|", "the organisers' sentences"]
)
def test_links_are_scored_against_either_form_of_key(
    key: dict[str, Any], tmp_path: Path
) -> None:
    report = Desk(tmp_path, key).score(LINKS, LINKS)
    # Of 3 links 2 are among the gold's 3 (1-2, 2-3, 2-4), in both cases.
    assert report["task"] == "archehr-2026-st4"
    assert report["scores"]["micro_precision"] == pytest.approx(200 / 3)
    assert report["scores"]["micro_recall"] == pytest.approx(200 / 3)
    assert report["scores"]["overall_score"] == report["scores"]["micro_f1"]
    # All 2 x 4 links hold the 3: precision 3/8, recall 1.
    assert report["baselines"]["link_everything"]["micro_f1"] == pytest.approx(
        100 * 2 * (3 / 8) / (11 / 8)
    )


def test_evidence_is_told_by_its_shape_and_stands_beside_citing_everything(
    context: Desk,
) -> None:
    report = context.score(["2", "4"], ["2", "4"])
    assert report["task"] == "archehr-2026-st2"
    assert (
        report["scores"]["strict_micro_precision"],
        report["scores"]["strict_micro_recall"],
    ) == (50, 50)
    # Leniently the supplementary 4 is dropped: precision 1, recall 1/2.
    assert report["scores"]["lenient_micro_f1"] == pytest.approx(100 * 2 / 3)
    assert report["baselines"]["cite_everything"]["strict_micro_f1"] == pytest.approx(
        100 * 2 / 3
    )


def test_a_second_reader_stands_beside_too(context: Desk) -> None:
    second_key = {**KEY, "answers": [{"sentence_id": "2", "relevance": "essential"}]}
    context.write("second.json", [second_key, {**second_key, "case_id": "4"}])
    report = context.score(
        ["2"], ["2"], arguments="--key cases_key.json --second-key second.json"
    )
    assert report["baselines"]["second_reader"]["strict_micro_recall"] == 50
    foreign = {**KEY, "answers": [{"sentence_id": "77", "relevance": "essential"}]}
    context.write("second.json", [foreign])
    process = context.run(
        ["2"], arguments="--key cases_key.json --second-key second.json"
    )
    assert (process.returncode, "second.json: case 3: labels 77" in process.stderr) == (
        3,
        True,
    )


@pytest.mark.parametrize(
    "key", [KEY, OFFICIAL_KEY], ids=["lines with |ids|", "the organisers' sentences"]
)
def test_answers_are_compared_with_the_clinicians_without_its_citations(
    key: dict[str, Any], tmp_path: Path
) -> None:
    arguments = (
        "--task archehr-2026-st3 --key cases_key.json --metric rouge1 --metric bleu"
    )
    whole = "He was kept because of fever. Cultures stayed negative."
    assert (
        Desk(tmp_path, key).score(whole, whole, arguments=arguments)["scores"]["rouge1"]
        == 100
    )
    # 3 of 3 words are among the reference's 9: precision 1, recall 1/3, F1 1/2.
    report = Desk(tmp_path, key).score(
        "He was kept", "He was kept", arguments=arguments
    )
    assert report["scores"]["rouge1"] == pytest.approx(50)


def test_interpreted_questions_are_scored_against_the_case_file_given_as_the_key(
    context: Desk,
) -> None:
    # 4 of 5 words in both directions.
    for arguments in (
        "--key cases.json",
        "--data cases.json",
        "--data cases.json --key cases_key.json",
    ):
        predictions = ("Why was the stay long?",) * 2
        report = context.score(
            *predictions,
            arguments=f"--task archehr-2026-st1 {arguments} --metric rouge1",
        )
        assert report["scores"]["rouge1"] == pytest.approx(80)
        assert report["warnings"] == []
    process = context.run(
        "Why?", arguments="--task archehr-2026-st1 --key cases_key.json"
    )
    assert process.returncode == 2
    assert "--data FILE" in process.stderr


def test_what_cannot_be_computed_here_is_missing_and_no_overall_score_is_invented(
    context: Desk,
) -> None:
    report = context.score(
        "Why?", "Why?", arguments="--task archehr-2026-st1 --key cases.json"
    )
    assert "alignscore" in report["missing"]
    assert "overall_score" not in report["scores"]
    assert "overall_score" in report["missing"]


@pytest.mark.parametrize(
    ("predictions", "either"), [(("Why?",), "-st1 or"), (([],), "-st2 or")]
)
def test_rows_that_fit_several_subtasks_get_one_error_that_names_task(
    predictions: Any, either: str, context: Desk
) -> None:
    process = context.run(*predictions)
    assert process.returncode == 2
    assert either in process.stderr
    assert "--task" in process.stderr


def test_the_report_has_the_agreed_keys_and_the_fingerprints_of_all_that_was_read(
    context: Desk,
) -> None:
    report = context.score(LINKS, LINKS)
    assert set(report) == KEYS
    files = {"submission": "given.json", "key": "cases_key.json", "data": "cases.json"}
    assert report["fingerprints"] == {
        name: hashlib.sha256((context.folder / file).read_bytes()).hexdigest()
        for name, file in files.items()
    }


def test_case_ids_narrow_the_key_as_the_organisers_flag_does(context: Desk) -> None:
    predictions = context.write(
        "g.json",
        [
            {"case_id": "4", "prediction": ["2", "3"]},
            {"case_id": "3", "prediction": []},
        ],
    )
    key = context.folder / "cases_key.json"
    process = run(
        "score", str(predictions), "--key", str(key), "--case-ids", "4-9 12", "--json"
    )
    report = json.loads(process.stdout)
    assert (report["cases"], report["scores"]["overall_score"]) == (1, 100)
    assert report["warnings"] == ["--case-ids: the key has no case 12."]
    assert "archqa: --case-ids: the key has no case 12." in process.stderr
    process = context.run(["2"], arguments="--key cases_key.json --case-ids 50-60")
    assert (process.returncode, "names no case" in process.stderr) == (2, True)


def test_an_unanswered_case_gets_the_floor_and_is_told_on_stderr(context: Desk) -> None:
    process = context.run(["2", "3"])
    assert json.loads(process.stdout)["scores"]["strict_macro_f1"] == 50
    assert "1 of 2 cases have no answer and get the floor: 4." in process.stderr


STRICT = "--key cases_key.json --strict"
UNKNOWN = (
    ["2", "9"],
    ["11", "a sentence that should never have been written where an id belongs"],
)


def test_all_unknown_ids_of_a_submission_are_listed_and_count_as_wrong(
    context: Desk,
) -> None:
    process = context.run(*UNKNOWN)
    assert process.returncode == 0
    assert process.stderr.count("the note has no sentence") == 2
    assert process.stderr.count("refuses the whole submission") == 2
    assert "'9'" in process.stderr
    assert "an id belongs" not in process.stdout + process.stderr
    # Of four predictions, one is among the four essential sentences of the two cases.
    scores = json.loads(process.stdout)["scores"]
    assert scores["strict_micro_precision"] == 25
    assert scores["strict_micro_recall"] == 25


def test_unknown_ids_refuse_the_submission_where_it_is_scored_strictly(
    context: Desk,
) -> None:
    process = context.run(*UNKNOWN, arguments=STRICT)
    assert process.returncode == 3
    assert process.stdout == ""
    assert "ValueError: [case 3]: the note has no sentence '9'" in process.stderr
    assert process.stderr.count("the note has no sentence") == 2
    assert "an id belongs" not in process.stderr


@pytest.mark.parametrize(
    ("task", "rows", "refusal", "warning"),
    [
        (
            2,
            [{"case_id": 3, "prediction": ["2"]}, {"case_id": "4", "prediction": []}],
            "ValueError: Case IDs in key but not in submission: {'3'}",
            "1 case ids are numbers",
        ),
        (
            2,
            [{"case_id": case, "prediction": []} for case in ("3", "4", "5")],
            "ValueError: Case IDs in submission but not in key: {'5'}",
            "answers are to cases that the key does not have and are not scored: 5.",
        ),
        (
            1,
            [
                {"case_id": "3", "prediction": " "},
                {"case_id": "4", "prediction": "Why?"},
            ],
            "ValueError: [case 3]: Empty prediction.",
            "case 3: has no words",
        ),
        (
            3,
            [
                {"case_id": "3", "prediction": ""},
                {"case_id": "4", "prediction": "Fever."},
            ],
            "ValueError: [case 3]: Empty prediction.",
            "case 3: has no words",
        ),
        (
            3,
            [
                {"case_id": "3", "prediction": "A \ud83d."},
                {"case_id": "4", "prediction": "Fever."},
            ],
            "UnicodeEncodeError: 'utf-8' codec can't encode character '\\ud83d' in position 2: "
            "surrogates not allowed",
            "case 3: has half of a surrogate pair",
        ),
    ],
    ids=[
        "numbers",
        "ids not in the key",
        "empty question",
        "empty answer",
        "surrogate",
    ],
)
def test_what_the_organisers_refuse_is_warned_of_and_refused_strictly(
    task: int, rows: list[dict[str, Any]], refusal: str, warning: str, context: Desk
) -> None:
    context.write("given.json", rows)
    command = (
        "score",
        "given.json",
        "--task",
        f"archehr-2026-st{task}",
        "--data",
        "cases.json",
    )
    process = run(*command, "--key", "cases_key.json", cwd=context.folder)
    assert process.returncode == 0, process.stderr
    assert warning in " ".join(process.stderr.split())
    process = run(*command, "--key", "cases_key.json", "--strict", cwd=context.folder)
    assert process.returncode == 3
    assert refusal in " ".join(process.stderr.split())


def test_a_submission_that_the_organisers_take_is_scored_strictly_too(
    context: Desk,
) -> None:
    assert (
        context.score(["2", "3"], ["2"], arguments=STRICT)["scores"]["overall_score"]
        > 0
    )


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ("Fever.", "AssertionError: [case 3]: No citations found."),
        ("|2|", "ZeroDivisionError: float division by zero"),
        ("Half \udc00 |2|", "surrogates not allowed"),
    ],
)
def test_answers_of_2025_are_refused_strictly_in_the_organisers_words(
    answer: str, refusal: str, context: Desk
) -> None:
    rows = [
        {"case_id": "3", "answer": answer},
        {"case_id": "4", "answer": "Fever. |2|"},
    ]
    context.write("given.json", rows)
    command = ("score", "given.json", "--data", "cases.json", "--key", "cases_key.json")
    assert run(*command, cwd=context.folder).returncode == 0
    process = run(*command, "--strict", cwd=context.folder)
    assert process.returncode == 3
    assert refusal in " ".join(process.stderr.split())


def test_all_malformed_links_are_listed_without_their_text(context: Desk) -> None:
    secret = "He confided this to the nurse"
    process = context.run(
        [{"answer_id": "1", "evidence_id": secret}, secret],
        [{"answer_id": ["1"], "evidence_id": []}],
    )
    assert process.returncode == 3
    for link in ("case 3: link 0", "case 3: link 1", "case 4: link 0"):
        assert link in process.stderr
    assert secret not in process.stderr


def test_a_key_and_cases_that_do_not_belong_together_are_refused(context: Desk) -> None:
    context.write("others.json", [{**CASE, "case_id": "77"}])
    process = context.run(
        LINKS, LINKS, arguments="--key cases_key.json --data others.json"
    )
    assert process.returncode == 3
    assert "others.json: has no cases 3, 4, which the key has." in process.stderr


def test_an_unknown_metric_is_the_callers_mistake_and_a_bad_file_is_the_files(
    context: Desk,
) -> None:
    assert (
        context.run(
            ["2"], arguments="--key cases_key.json --metric nonsense"
        ).returncode
        == 2
    )
    assert (
        context.run(
            ["2"], arguments="--key cases_key.json --task archehr-2026-st1"
        ).returncode
        == 2
    )
    assert (
        context.run(
            "text", arguments="--key cases_key.json --task archehr-2026-st2"
        ).returncode
        == 3
    )


@pytest.mark.parametrize("content", ["{", "5", '{"a": 1}', "[" * 100_000, "\ufffe"])
def test_what_is_no_submission_gets_one_clear_error(
    content: str, context: Desk
) -> None:
    (context.folder / "given.json").write_text(content)
    process = run("score", "given.json", "--key", "cases_key.json", cwd=context.folder)
    assert process.returncode == 3
    assert "given.json: is not" in process.stderr


def test_the_official_file_holds_the_numbers_alone_and_the_rest_stands_beside(
    context: Desk,
) -> None:
    report = context.score(
        LINKS, LINKS, arguments="--key cases_key.json --official-json scores.json"
    )
    official = json.loads((context.folder / "scores.json").read_text())
    # Ours: the second sentence is linked to its own words, the first to one of its three.
    assert {**official, "line_support": 50} == report["scores"]
    assert json.loads((context.folder / "scores.about.json").read_text()) == report


def test_the_table_is_printed_for_readers(context: Desk) -> None:
    context.write("given.json", [{"case_id": "3", "prediction": LINKS}])
    process = run(
        "score",
        "given.json",
        "--key",
        "cases_key.json",
        "--per-case",
        cwd=context.folder,
    )
    assert "archehr-2026-st4, 2 cases" in process.stdout
    assert "link everything: micro_f1 54.5" in process.stdout
    assert "macro_f1 by case, worst first" in process.stdout


@pytest.mark.parametrize("task", ["archehr-2026-st3", "archehr-2026-st4"])
def test_the_dev_cases_can_be_scored_in_the_subtasks_of_2026(
    task: str, tmp_path: Path
) -> None:
    """What the key itself says scores 100, since `data/dev_key.json` cites line by line."""
    key = json.loads((ROOT / "data" / "dev_key.json").read_text())
    (tmp_path / "given.json").write_text(
        json.dumps([_as_said(row, task) for row in key])
    )
    arguments = [
        "--task",
        task,
        "--key",
        str(ROOT / "data" / "dev_key.json"),
        "--json",
        "--bootstrap",
        "0",
    ]
    process = run(
        "score",
        "given.json",
        *arguments,
        *(["--metric", "rougeLsum"] if task.endswith("3") else []),
        cwd=tmp_path,
    )
    report = json.loads(process.stdout)
    assert report["cases"] == 28
    assert report["scores"][
        "rougeLsum" if task.endswith("3") else "overall_score"
    ] == pytest.approx(100)


def _as_said(row: dict[str, Any], task: str) -> dict[str, Any]:
    lines = [line.split("|") for line in row["clinician_answer"].splitlines()]
    if task.endswith("3"):
        return {
            "case_id": row["case_id"],
            "prediction": " ".join(line[0].strip() for line in lines),
        }
    links = [
        {"answer_id": str(at), "evidence_id": line[1].split(",")}
        for at, line in enumerate(lines, 1)
    ]
    return {"case_id": row["case_id"], "prediction": links}
