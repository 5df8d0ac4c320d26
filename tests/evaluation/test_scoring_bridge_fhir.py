"""`archqa score` for FHIR-AgentBench: four invented questions, numbers by hand, a scripted judge.

a  [[70.3]], gold o1 o2     replied 70.3 kg; retrieved o1 x      precision 1/2, recall 0 (strictly 1/2)
b  two drugs, gold m1 r1    right in prose that no rule decides  precision 1, recall 1
c  nothing, no gold         replied "no answer"                  precision 1, recall 1
d  a time, gold e1          ended in an error                    no precision, recall 0
"""

import csv
import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from archqa.errors import CallerError
from archqa.evaluation.judges import JudgePanel
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.llm.scripted import ScriptedModel
from archqa.runs.folder import RunFolder
from archqa.runs.record import DataFingerprint, RunManifest, RunStatus
from tests.cli.test_commands import archqa as run
from tests.fakes.replies import refusal_reply
from tests.fakes.server import FakeServer

PROSE = "He was given Senna first, later Lactulose."
DRUGS = {"Medication": ["m1"], "MedicationRequest": ["r1"]}
COLUMNS = (
    "question_id",
    "question",
    "assumption",
    "patient_fhir_id",
    "true_answer",
    "true_fhir_ids",
    "template",
)
QUESTIONS = (
    ("a", "How much did he weigh?", "None.", "p", "[[70.3]]", "{'Observation': ['o1', 'o2']}", "weight [t]"),
    ("b", "Which drugs?", "", "p", "[['Senna']\n ['Lactulose']]", str(DRUGS), "drug"),
    ("c", "Was he given any drug?", "", "p", "[[0]]", "{}", "drug"),
    ("d", "When was his last visit?", "", "p", "[['2133-05-02 08:00:00']]", "{'Encounter': ['e1']}", "visit"),
)  # fmt: skip
RECORDS: tuple[dict[str, Any], ...] = (
    {"question_id": "a", "agent_answer": "70.3 kg", "agent_fhir_resources": {"Observation": ["o1", "x"]}},
    {"question_id": "b", "agent_answer": PROSE, "agent_fhir_resources": DRUGS},
    {"question_id": "c", "agent_answer": "no answer", "agent_fhir_resources": {}, "trace": ["looked"]},
    {"question_id": "d", "agent_answer": None, "agent_fhir_resources": None, "error": "timeout"},
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with (tmp_path / "questions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([COLUMNS, *QUESTIONS])
    (tmp_path / "results.json").write_text(json.dumps(RECORDS))
    return tmp_path


def printed(folder: Path, *arguments: str) -> dict[str, Any]:
    process = run(
        "score",
        "results.json",
        "--key",
        "questions.csv",
        "--json",
        *arguments,
        cwd=folder,
    )
    assert process.returncode == 0, process.stderr
    report: dict[str, Any] = json.loads(process.stdout)
    return report


def judged(
    folder: Path,
    model: ScriptedModel,
    votes: int = 1,
    name: str = "judge:8b",
    **more: Any,
) -> ScoreReport:
    panel = JudgePanel(name, votes, model=model)
    return score(
        folder / "results.json", key=folder / "questions.csv", judge=panel, **more
    )


def saying(*votes: bool) -> ScriptedModel:
    return ScriptedModel(
        [json.dumps({"rationale": "Compared.", "correct": vote}) for vote in votes]
    )


def test_retrieval_and_answers_are_scored_officially_and_strictly(folder: Path) -> None:
    scores = printed(folder)["scores"]
    assert scores["precision"] == pytest.approx((1 / 2 + 1 + 1) / 3)
    assert scores["recall"] == (0 + 1 + 1 + 0) / 4
    assert scores["f1"] == pytest.approx(5 / 8)
    assert scores["strict_recall"] == (1 / 2 + 1 + 1 + 0) / 4
    assert scores["answer_correctness"] == 2 / 4


def test_what_only_a_judge_could_decide_counts_wrong_aloud_without_one(
    folder: Path,
) -> None:
    process = run("score", "results.json", "--key", "questions.csv", cwd=folder)
    assert (
        "archqa: 1 replies only a judge could decide; without one they count as wrong."
        in process.stderr
    )
    assert "archqa: 1 records ended in an error and count as wrong." in process.stderr


def test_all_break_downs_are_printed_and_stand_among_the_scores(folder: Path) -> None:
    process = run("score", "results.json", "--key", "questions.csv", cwd=folder)
    tables = (
        "by_resource_type",
        "by_template",
        "by_answer_kind",
        "by_gold_size",
        "by_precision",
    )
    assert all(name.replace("_", " ") in process.stdout for name in tables)
    assert "weight [t]" in process.stdout
    scores = printed(folder)["scores"]
    assert scores["by_resource_type"]["{Medication, MedicationRequest}"]["recall"] == 1
    assert scores["by_template"]["drug"]["questions"] == 2
    assert scores["by_template"]["drug"]["answer_correctness"] == 1 / 2
    assert scores["by_gold_size"]["2-5"]["precision"] == 3 / 4
    assert scores["by_precision"] == {
        "0.8-1.0": {**scores["by_precision"]["0.8-1.0"], "questions": 2}
    }


def test_declining_every_question_is_the_baseline(folder: Path) -> None:
    baseline = printed(folder)["baselines"]["always_no_answer"]
    assert (baseline["answer_correctness"], baseline["recall"]) == (1 / 4, 1 / 4)


def test_cited_resources_are_scored_where_records_have_them(folder: Path) -> None:
    assert "cited_f1" in printed(folder)["missing"]
    cited = [
        {**record, "cited_fhir_resources": {"Observation": ["o1"]}}
        for record in RECORDS[:1]
    ]
    (folder / "results.json").write_text(json.dumps(cited))
    report = printed(folder, "--case-ids", "a")
    assert (
        report["cases"],
        report["scores"]["strict_cited_recall"],
        report["scores"]["cited_precision"],
    ) == (
        1,
        0.5,
        1,
    )


def test_the_official_files_are_written_as_the_benchmark_writes_them(
    folder: Path,
) -> None:
    for _ in range(2):
        printed(folder, "--official-json", "results_eval.json")
    records = {
        row["question_id"]: row
        for row in json.loads((folder / "results_eval.json").read_text())
    }
    assert (
        records["a"]["precision"],
        records["a"]["recall"],
        records["a"]["answer_correctness"],
    ) == (0.5, 0, 1)
    assert (
        records["d"]["precision"],
        records["d"]["recall"],
        records["d"]["answer_correctness"],
    ) == (None, 0, 0)
    assert (
        records["c"]["true_answer_extracted"],
        records["c"]["agent_answer_normalized"],
    ) == (
        "no answer",
        "no answer",
    )
    assert (records["c"]["trace"], records["a"]["assumption"]) == (["looked"], "None.")
    assert records["b"]["true_fhir_resource_types"] == [
        "Medication",
        "MedicationRequest",
    ]
    assert stat.S_IMODE((folder / "results_eval.json").stat().st_mode) == 0o600
    with (folder / "performance_summary.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 5
    assert rows[0]["fhir_resource_type"] == "Overall"
    assert (rows[0]["questions"], rows[0]["f1_score"], rows[0]["accuracy"]) == (
        "4",
        "0.625",
        "0.5",
    )
    assert {row["fhir_resource_type"] for row in rows} >= {
        "{Medication, MedicationRequest}",
        "{}",
    }
    about = json.loads((folder / "results_eval.about.json").read_text())
    assert set(about["fingerprints"]) == {"submission", "key"}


def test_the_judge_is_asked_only_where_no_rule_is_sure_and_signs_the_score(
    folder: Path,
) -> None:
    model = saying(True)
    report = judged(folder, model)
    assert len(model.asked) == 1
    assert PROSE in model.asked[0].messages[-1].content
    assert report.scores.scores["answer_correctness"] == 3 / 4
    assert "judge:judge:8b|votes:1" in report.scores.signatures["answer_correctness"]
    assert not (folder / "disagreements.jsonl").exists()


def test_split_votes_are_counted_by_majority_and_written_down_for_its_owner_only(
    folder: Path,
) -> None:
    report = judged(folder, saying(True, False, True), votes=3)
    assert report.scores.scores["answer_correctness"] == 3 / 4
    assert "the judge's votes were split on 1 replies." in report.scores.warnings
    path = folder / "disagreements.jsonl"
    (row,) = (json.loads(line) for line in path.read_text().splitlines())
    assert (row["question_id"], row["reply"], row["counted"]) == ("b", PROSE, True)
    assert sorted(row["votes"]) == [False, True, True]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert report.disagreements_path == path
    judged(folder, saying(True), name="another")
    assert path.read_text() == "", "what an earlier judge left would mislead"


def test_each_vote_is_a_question_of_its_own_and_is_paid_once(folder: Path) -> None:
    model = saying(True, False, True)
    report = judged(folder, model, votes=3)
    assert len({request.digest for request in model.asked}) == 3
    again = judged(folder, ScriptedModel([]), votes=3)
    assert again.scores.scores == report.scores.scores
    assert again.judge_usage is not None
    assert (again.judge_usage.calls, again.judge_usage.cached_calls) == (0, 3)


def test_a_ruling_against_the_strict_comparer_is_a_disagreement(folder: Path) -> None:
    # 70.4 is the same as 70.3 when rounded, beside another number; to 1e-6 it is surely wrong.
    vague = {"question_id": "a", "agent_answer": "First 68.1 kg, then 70.4 kg."}
    (folder / "results.json").write_text(json.dumps([vague]))
    report = judged(folder, saying(True), case_ids=("a",))
    assert report.scores.scores["answer_correctness"] == 1
    assert report.scores.scores["strict_answer_correctness"] == 0
    assert [(row["strict_comparer"], row["votes"]) for row in report.disagreements] == [
        (False, [True])
    ]


def test_a_judge_that_declines_counts_against_the_reply_aloud(folder: Path) -> None:
    report = judged(folder, ScriptedModel(lambda _: refusal_reply()))
    assert report.scores.scores["answer_correctness"] == 2 / 4
    assert (
        "1 votes of the judge were unusable and count against the reply."
        in report.scores.warnings
    )
    assert report.disagreements[0]["votes"] == [None]


async def test_a_judge_works_where_a_loop_runs_already(folder: Path) -> None:
    assert judged(folder, saying(True)).scores.scores["answer_correctness"] == 3 / 4


def test_nobody_is_asked_when_the_answers_are_not_scored_or_the_metric_is_misspelt(
    folder: Path,
) -> None:
    silent = ScriptedModel([])
    judged(folder, silent, settings=ScoreSettings(metrics=("recall",)))
    with pytest.raises(CallerError):
        judged(folder, silent, settings=ScoreSettings(metrics=("answer_correctnes",)))
    assert silent.asked == []


def test_the_command_asks_the_judge_at_its_server_and_says_what_that_took(
    folder: Path,
) -> None:
    arguments = (
        "score",
        "results.json",
        "--key",
        "questions.csv",
        "--json",
        "--judge-model",
        "fake",
        "--judge-votes",
        "3",
    )
    with FakeServer() as server:  # It says true to everything.
        process = run(*arguments, "--base-url", server.base_url, cwd=folder)
        assert json.loads(process.stdout)["scores"]["answer_correctness"] == 3 / 4
        assert "the judge was asked 3 times" in process.stderr
        again = run(*arguments, cwd=folder, OPENAI_BASE_URL=server.base_url)
        assert (
            "asked 0 times for $0.00; 3 more replies came from the cache"
            in again.stderr
        )
        assert server.count == 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--judge-votes", "3"], 2, "--judge-model"),
        (["--judge-model", "m", "--base-url", "nonsense"], 2, "is not a URL"),
        (["--judge-model", "m"], 4, "OPENAI_API_KEY"),
        (["--metric", "nonsense"], 2, "nonsense"),
        (["--task", "fhir-agentbenc"], 2, "Did you mean fhir-agentbench?"),
        (["--task", "archehr-2025", "--data", "questions.csv"], 3, "questions.csv"),
        (["--official-json", "absent/x.json"], 3, "cannot be written"),
    ],
)
def test_a_wrong_call_gets_one_clear_error(
    arguments: list[str], code: int, message: str, folder: Path
) -> None:
    process = run(
        "score", "results.json", "--key", "questions.csv", *arguments, cwd=folder
    )
    assert (process.returncode, "Traceback" in process.stderr) == (code, False), (
        process.stderr
    )
    assert message in process.stderr


def test_without_a_key_the_error_says_which_file_to_name(folder: Path) -> None:
    process = run("score", "results.json", cwd=folder)
    assert (process.returncode, "--key FILE" in process.stderr) == (2, True)


def test_all_malformed_records_are_listed_at_once_without_their_text(
    folder: Path,
) -> None:
    secret = "He confided this to the nurse"
    rows = [
        {"agent_answer": secret},
        {"question_id": "a", "agent_fhir_resources": {"Observation": secret}},
        {"question_id": "b", "cited_fhir_resources": {"Medication": [{"id": secret}]}},
        {"question_id": "b"},
        secret,
    ]
    (folder / "results.json").write_text(json.dumps(rows))
    process = run("score", "results.json", "--key", "questions.csv", cwd=folder)
    assert process.returncode == 3
    for problem in (
        "record 0",
        "question a: agent_fhir",
        "question b: cited_fhir",
        "question_id b: answered 2",
        "record 4",
    ):
        assert problem in process.stderr
    assert secret not in process.stderr


def test_a_malformed_key_is_refused_with_all_its_mistakes(folder: Path) -> None:
    text = (
        (folder / "questions.csv")
        .read_text()
        .replace("[[70.3]]", "70.3 kg")
        .replace("{'Encounter'", "Encounter")
    )
    (folder / "questions.csv").write_text(text)
    process = run("score", "results.json", "--key", "questions.csv", cwd=folder)
    assert process.returncode == 3
    assert "questions.csv:2: true_answer" in process.stderr
    assert "true_fhir_ids" in process.stderr


def test_nan_as_pandas_writes_it_is_no_answer_and_no_error(folder: Path) -> None:
    (folder / "results.json").write_text(
        '[{"question_id": "c", "agent_answer": "none", "error": NaN}]'
    )
    assert printed(folder, "--case-ids", "c")["scores"]["answer_correctness"] == 1


def test_a_run_knows_its_questions_and_keeps_its_scores(folder: Path) -> None:
    path = folder / "run"
    run_folder = RunFolder.create(path)
    run_folder.write_manifest(
        RunManifest(
            run="run", started_at=datetime.now(UTC), task="fhir-agentbench", pipeline="embedded",
            status=RunStatus.FINISHED, case_ids=tuple("abcd"),
            data=DataFingerprint(path=str(folder / "questions.csv"), sha256="0" * 64),
            settings={}, backends={}, prompts={}, versions={}, git_revision=None,
        )
    )  # fmt: skip
    run_folder.write_json("submission.json", RECORDS)
    process = run("score", str(path), "--json")
    assert process.returncode == 0, process.stderr
    assert json.loads((path / "scores.json").read_text()) == json.loads(process.stdout)
    assert json.loads(process.stdout)["scores"]["answer_correctness"] == 2 / 4
    assert run("score", str(path), "--task", "archehr-2025").returncode == 2
    assert run("score", str(path), "--task", "fhir-agentbench").returncode == 0


def test_every_gold_answer_of_the_dev_questions_scores_1_without_a_judge(
    shared: Path, folder: Path
) -> None:
    from archqa.tasks.fhir_agentbench.task import load_questions

    key = shared / "fhir" / "fhir-agentbench" / "questions_dev.csv"
    rows = [
        {
            "question_id": question.question_id,
            "agent_answer": question.true_answer,
            "agent_fhir_resources": question.true_fhir_ids,
        }
        for question in load_questions(key).questions
    ]
    (folder / "results.json").write_text(json.dumps(rows))
    report = score(
        folder / "results.json", key=key, settings=ScoreSettings(bootstrap=0)
    )
    assert report.scores.cases == 2522
    assert report.scores.warnings == []
    assert {
        report.scores.scores[name]
        for name in ("f1", "strict_f1", "strict_answer_correctness")
    } == {1}
    # 592 of the 2,522 questions have no gold resources, and 2 have some whose value is text, so that [[None]] is right.
    assert report.baselines["always_no_answer"]["answer_correctness"] == pytest.approx(
        594 / 2522
    )
