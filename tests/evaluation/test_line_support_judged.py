"""`archqa score --judge-model` for ArchEHR-QA: an invented note, lines judged by a script, numbers by hand."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import CallerError
from archqa.evaluation.judges import JudgePanel
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from scoring.metric import parse_metric
from tests.cli.test_commands import archqa as run
from tests.fakes.replies import refusal_reply
from tests.fakes.server import FakeServer
from tests.safety.trap import Trap

SENTENCES = [
    "Course:",
    "Fever rose to 39.",
    "Cultures stayed negative.",
    "She ate well.",
]
CASES = [
    {
        "case_id": case_id,
        "patient_narrative": "Why was my mother kept so long?",
        "clinician_question": "Why was the stay prolonged?",
        "sentences": [
            {"id": str(at), "text": text} for at, text in enumerate(SENTENCES, 1)
        ],
    }
    for case_id in "34"
]
KEYS = [
    {
        "case_id": case_id,
        "answers": [
            {"sentence_id": "1", "relevance": "not-relevant"},
            {"sentence_id": "2", "relevance": "essential"},
            {"sentence_id": "3", "relevance": "essential"},
            {"sentence_id": "4", "relevance": "supplementary"},
        ],
        "clinician_answer": "She was kept because of fever. |2|\nCultures stayed negative. |3|",
    }
    for case_id in "34"
]
ANSWERS = {
    "3": "She ran a high temperature. |2|\nNo germ was grown. |3,99|\nShe was kept for tests.\nOK |2|",
    "4": "She had no appetite. |4|",
}
"""Five lines, of which one cites nothing and one is too short to count: three are judged."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "cases.json").write_text(json.dumps(CASES))
    (tmp_path / "cases_key.json").write_text(json.dumps(KEYS))
    write_answers(tmp_path, ANSWERS)
    return tmp_path


def write_answers(folder: Path, answers: dict[str, str]) -> None:
    rows = [
        {"case_id": case_id, "answer": answer} for case_id, answer in answers.items()
    ]
    (folder / "answers.json").write_text(json.dumps(rows))


def finding(unsupported: str, verdict: str = "not") -> ScriptedModel:
    """A judge that finds every line supported but those with these words."""
    return ScriptedModel(lambda request: ruling(request, unsupported, verdict))


def ruling(request: Request, unsupported: str, verdict: str) -> str:
    lines = []
    for line in request.messages[1].content.splitlines():
        if line.startswith("Line "):
            number, _, text = line.removeprefix("Line ").partition(":")
            said = verdict if unsupported in text else "supported"
            reason = "" if said == "supported" else "It says otherwise."
            lines.append({"line": number, "verdict": said, "reason": reason})
    return json.dumps({"lines": lines})


def judged(
    folder: Path, model: ScriptedModel, votes: int = 1, **more: Any
) -> ScoreReport:
    panel = JudgePanel("judge:8b", votes, model=model)
    return score(
        folder / "answers.json", data=folder / "cases.json", judge=panel, **more
    )


def rows_of(path: Path | None) -> list[dict[str, Any]]:
    assert path is not None
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_score_is_the_share_of_lines_that_the_judge_finds_supported(
    folder: Path,
) -> None:
    report = judged(folder, finding("appetite"))
    # Of four lines that count, the judge carries two; one is not supported, one cites nothing.
    assert report.scores.scores["line_support_judged"] == 50
    assert report.scores.per_case["3"]["line_support_judged"] == pytest.approx(200 / 3)
    assert report.scores.per_case["4"]["line_support_judged"] == 0
    low, high = report.scores.intervals["line_support_judged"]
    assert low == 0
    assert high == pytest.approx(200 / 3)
    assert "line_support" in report.scores.scores


def test_the_signature_names_the_judge_and_its_prompt(folder: Path) -> None:
    signature = judged(folder, finding("appetite")).scores.signatures[
        "line_support_judged"
    ]
    assert signature == (
        "line_support_judged|judge:judge:8b|prompt:line_support/v1|votes:1|bs:1000|seed:12345|rev:1"
    )
    assert str(parse_metric(signature)) == signature


def test_the_judge_sees_the_cited_lines_of_an_answer_at_once_and_nothing_else(
    folder: Path,
) -> None:
    model = finding("appetite")
    judged(folder, model)
    first, second = (request.messages[1].content for request in model.asked)
    assert "She ran a high temperature." in first
    assert "cites [3]: Cultures stayed negative." in first
    for hidden in ("99", "kept for tests", "OK", "She ate well", "mother", "prolonged"):
        assert hidden not in first
    assert "She had no appetite." in second


def test_lines_without_support_are_written_with_the_reason_for_their_owner_only(
    folder: Path,
) -> None:
    report = judged(folder, finding("appetite", "partly"))
    assert report.unsupported_lines_path == folder / "unsupported_lines.jsonl"
    uncited, unsupported = rows_of(report.unsupported_lines_path)
    assert (uncited["line"], uncited["verdicts"]) == ("She was kept for tests.", [])
    assert unsupported["case_id"] == "4"
    assert unsupported["cited"] == [{"id": "4", "text": "She ate well."}]
    assert (unsupported["verdicts"], unsupported["why"]) == (
        ["partly"],
        ["It says otherwise."],
    )
    assert stat.S_IMODE((folder / "unsupported_lines.jsonl").stat().st_mode) == 0o600
    write_answers(folder, {"3": "Fever rose to 39. |2|", "4": "She ate well. |4|"})
    judged(folder, finding("appetite"))
    assert rows_of(folder / "unsupported_lines.jsonl") == [], (
        "an earlier judge's would mislead"
    )


def test_the_majority_of_the_votes_counts_and_split_votes_are_written_down(
    folder: Path,
) -> None:
    write_answers(
        folder, {"3": "She ran a high temperature. |2|", "4": "She had no meal. |4|"}
    )
    said = iter(["supported", "not", "supported", "not", "supported", "partly"])
    model = ScriptedModel(
        lambda _: json.dumps(
            {"lines": [{"line": "1", "verdict": next(said), "reason": "x"}]}
        )
    )
    report = judged(folder, model, votes=3)
    assert len({request.digest for request in model.asked}) == 6
    assert report.scores.scores["line_support_judged"] == 50
    assert [row["counted"] for row in rows_of(report.disagreements_path)] == [
        True,
        False,
    ]


def test_a_second_scoring_asks_nobody(folder: Path) -> None:
    first = judged(folder, finding("appetite"))
    again = judged(folder, ScriptedModel([]))
    assert again.scores.scores == first.scores.scores
    assert again.judge_usage is not None
    assert (again.judge_usage.calls, again.judge_usage.cached_calls) == (0, 2)


def test_a_judge_that_declines_counts_against_the_lines_aloud(folder: Path) -> None:
    report = judged(folder, ScriptedModel(lambda _: refusal_reply()))
    assert report.scores.scores["line_support_judged"] == 0
    warning = "3 verdicts of the judge were unusable and count against the line."
    assert warning in report.scores.warnings


def test_nobody_is_asked_when_another_score_is_wanted_or_the_answers_are_malformed(
    folder: Path,
) -> None:
    silent = ScriptedModel([])
    other = judged(folder, silent, settings=ScoreSettings(metrics=("strict_micro_f1",)))
    assert "line_support_judged" not in other.scores.scores
    with pytest.raises(CallerError):
        judged(folder, silent, settings=ScoreSettings(metrics=("line_support_judgd",)))
    assert silent.asked == []


def test_the_score_can_be_asked_for_alone_and_says_what_it_needs_without_a_judge(
    folder: Path,
) -> None:
    alone = ScoreSettings(metrics=("line_support_judged",))
    report = judged(folder, finding("appetite"), settings=alone)
    assert report.scores.scores == {"line_support_judged": 50}
    assert report.scores.missing == {}
    without = score(folder / "answers.json", data=folder / "cases.json", settings=alone)
    assert "--judge-model" in without.scores.missing["line_support_judged"]


def test_answers_that_cite_nothing_are_refused_before_anyone_is_asked(
    folder: Path,
) -> None:
    write_answers(
        folder, {"3": "She was kept for tests.", "4": "She had no appetite. |99|"}
    )
    silent = ScriptedModel([])
    with pytest.raises(CallerError, match="No line of this submission cites"):
        judged(folder, silent)
    assert silent.asked == []


@pytest.mark.parametrize(
    ("task", "prediction"),
    [("archehr-2026-st1", "Why was she kept?"), ("archehr-2026-st2", ["2"])],
)
def test_predictions_without_cited_lines_are_refused(
    task: str, prediction: Any, folder: Path
) -> None:
    rows = [{"case_id": case_id, "prediction": prediction} for case_id in "34"]
    (folder / "predictions.json").write_text(json.dumps(rows))
    with Trap() as trap:
        process = run(
            "score", "predictions.json", "--task", task, "--data", "cases.json",
            "--judge-model", "fake", "--base-url", trap.base_url, cwd=folder,
        )  # fmt: skip
    assert (process.returncode, trap.connections) == (2, 0)
    assert f"nothing to read in {task}" in process.stderr


LINKS = [
    {"answer_id": "1", "evidence_id": ["1"]},
    {"answer_id": "1", "evidence_id": ["2"]},
    {"answer_id": "2", "evidence_id": ["3", "99"]},
]


def test_the_links_of_subtask_4_are_read_beside_the_clinicians_sentences(
    folder: Path,
) -> None:
    rows = [
        {"case_id": "3", "prediction": LINKS},
        {"case_id": "4", "prediction": LINKS[1:2]},
    ]
    (folder / "answers.json").write_text(json.dumps(rows))
    model = finding("fever")
    report = judged(folder, model)
    assert report.scores.task == "archehr-2026-st4"
    first = model.asked[0].messages[1].content
    assert "Line 1: She was kept because of fever." in first
    assert (
        "cites [1]: Course:\n  cites [2]: Fever rose to 39.\nLine 2: Cultures" in first
    )
    # Only the second sentence of case 3 is supported; that of case 4 has no link.
    assert report.scores.scores["line_support_judged"] == 25
    assert report.scores.scores["line_support"] == 25
    assert [row["case_id"] for row in report.unsupported_lines] == ["3", "4", "4"]


def test_of_subtask_3_a_run_knows_what_its_lines_cite_and_a_file_does_not(
    folder: Path,
) -> None:
    path = predict(
        folder / "cases.json", task="archehr-2026-st3", out=folder / "run"
    ).path
    model = finding("Fever")
    report = score(
        path, key=folder / "cases_key.json", judge=JudgePanel("m", model=model)
    )
    assert report.scores.task == "archehr-2026-st3"
    # The embedded engine answers with two sentences of the note; the judge refuses the first.
    assert report.scores.scores["line_support"] == 100
    assert report.scores.scores["line_support_judged"] == 50
    prose = json.loads((path / "submission.json").read_text())[0]["prediction"]
    assert report.unsupported_lines[0]["line"] in prose
    bare: dict[str, Any] = {"task": "archehr-2026-st3", "data": folder / "cases.json"}
    alone = ScoreSettings(metrics=("line_support",))
    of_file = score(path / "submission.json", settings=alone, **bare)
    assert "needs lines with citations" in of_file.scores.missing["line_support"]
    with pytest.raises(CallerError, match="No line of this submission cites"):
        score(
            path / "submission.json",
            judge=JudgePanel("m", model=ScriptedModel([])),
            **bare,
        )


def test_a_run_keeps_the_score_and_its_text_goes_only_to_the_server_that_was_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    path = predict("cases.json", out=folder / "run").path
    with FakeServer(keep_bodies=True) as server, Trap() as trap:
        process = run(
            "score", "run", "--json", "--judge-model", "fake", "--base-url", server.base_url,
            cwd=folder, OPENAI_BASE_URL=trap.base_url, OPENAI_API_KEY="sk-ambient-4711",
        )  # fmt: skip
        assert process.returncode == 0, process.stderr
        assert trap.connections == 0
        assert {
            body["response_format"]["json_schema"]["name"] for body in server.bodies
        } == {"line_support"}
    assert "record text goes to 127.0.0.1" in process.stderr
    assert "the judge was asked" in process.stderr
    kept = json.loads((path / "scores.json").read_text())
    assert kept == json.loads(process.stdout)
    assert kept["signatures"]["line_support_judged"].startswith(
        "line_support_judged|judge:fake|"
    )


def test_the_organisers_file_has_no_score_of_ours(folder: Path) -> None:
    official = folder / "official.json"
    judged(folder, finding("appetite"), official=official)
    assert (
        not {"line_support", "line_support_judged"}
        & json.loads(official.read_text()).keys()
    )
    about = json.loads((folder / "official.about.json").read_text())
    assert about["scores"]["line_support_judged"] == 50
