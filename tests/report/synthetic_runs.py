"""Synthetic runs: random judgements on synthetic cases with a known key. No engine, no model."""

import csv
import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from archqa import tasks
from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case
from archqa.core.judgement import Judgement, Relevance, mean_probabilities
from archqa.core.question import Item, RecordQuestion
from archqa.core.step import Step
from archqa.core.usage import Usage
from archqa.runs.folder import RunFolder
from archqa.runs.record import (
    AgentBackend,
    CaseRecord,
    CaseStatus,
    DataFingerprint,
    RunManifest,
    RunStatus,
)
from archqa.runs.run import Run, write_cases
from archqa.tasks import dump_json
from archqa.tasks.fhir_agentbench.task import RecordResult
from tests.fakes.cases import synthetic_cases

AGENTS = ("general expert", "cardiology", "nephrology", "internal medicine")
SPECIALTIES = ("cardiology", "surgery", "oncology")


def cases_with_specialties(count: int, sentences: int = 23) -> list[Case]:
    """Synthetic cases of three specialties."""
    return [
        case.model_copy(update={"clinical_specialty": SPECIALTIES[index % 3]})
        for index, case in enumerate(synthetic_cases(count, sentences))
    ]


def create_run(
    folder: Path,
    cases: Sequence[Case],
    *,
    seed: int = 1,
    name: str = "run",
    with_key: bool = True,
    threshold: float = 0.5,
) -> Path:
    """Create a finished run, its case file and its key; the same seed gives the same run."""
    data = folder / "cases.json"
    data.write_text(dump_json(cases), encoding="utf-8")
    gold = {case.id: gold_of(case) for case in cases}
    if with_key:
        (folder / "cases_key.json").write_text(
            json.dumps([_key(case, gold[case.id]) for case in cases])
        )
    run = _folder(folder / name, "archehr-2025", "dmis", data, cases)
    generator = random.Random(seed)
    for case in cases:
        _end(run, case, gold[case.id], generator, threshold)
    return run.path


def create_judged_run(
    folder: Path, sentences: Sequence[tuple[float, bool, bool]]
) -> Path:
    """Create a run of one case, with one agent: its probability of each sentence, whether the
    answer cites the sentence (at least one), and whether the key calls it essential.
    """
    [case] = synthetic_cases(1, len(sentences))
    data = folder / "cases.json"
    data.write_text(dump_json([case]), encoding="utf-8")
    judgements = []
    gold = {}
    cited = []
    for sentence_id, (probability, is_cited, is_essential) in zip(
        case.sentence_ids, sentences, strict=True
    ):
        judgements.append(
            Judgement(
                sentence_id=sentence_id,
                label=Relevance.ESSENTIAL,
                rationale="",
                probability=probability,
            )
        )
        gold[sentence_id] = (
            Relevance.ESSENTIAL if is_essential else Relevance.NOT_RELEVANT
        )
        if is_cited:
            cited.append(sentence_id)
    (folder / "cases_key.json").write_text(json.dumps([_key(case, gold)]))
    run = _folder(folder / "run", "archehr-2025", "dmis", data, [case])
    claims = tuple(
        Claim(text="So it is.", citations=(sentence_id,)) for sentence_id in cited
    )
    run.add(
        CaseRecord(
            id=case.id,
            status=CaseStatus.ANSWERED,
            answer=CitedAnswer(claims=claims),
            evidence=tuple(cited),
            judgements={AGENTS[0]: tuple(judgements)},
        )
    )
    return run.path


def create_fhir_run(
    folder: Path, task: str, items: Sequence[Item], results: Sequence[dict[str, Any]]
) -> Path:
    """Create a finished run of questions or tasks on a FHIR record, with these results."""
    run = _folder(folder / "run", task, "embedded", folder / "gone.json", items)
    result_type = tasks.find(task).result_type
    for item, result in zip(items, results, strict=True):
        typed_result = result_type.from_json(result) if result_type and result else None
        run.add(CaseRecord(id=item.id, status=CaseStatus.ANSWERED, result=typed_result))
    return run.path


def create_fhir_run_of_questions(
    folder: Path, count: int, name: str = "questions"
) -> Path:
    """Create a run of questions of FHIR-AgentBench with their gold: every fifth is answered wrongly.

    Every hundredth failed.
    """
    data = folder / "questions.csv"
    with data.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(
            ("split", *_QUESTION_FIELDS, "true_answer", "true_fhir_ids", "template")
        )
        for at in range(count):
            gold = (f"[[{at}]]", f"{{'Observation': ['o{at}']}}")
            writer.writerow(
                ("dev", f"q{at:04}", _question(at), "", f"p{at % 90}", *gold, "t")
            )
    items = [
        RecordQuestion(
            id=f"q{at:04}", question=_question(at), patient_fhir_id=f"p{at % 90}"
        )
        for at in range(count)
    ]
    run = _folder(folder / name, "fhir-agentbench", "embedded", data, items)
    for at, item in enumerate(items):
        run.add(_answered_question(at, item))
    run.write_json("submission.json", Run.open(run.path).submission())
    return run.path


_QUESTION_FIELDS = ("question_id", "question", "assumption", "patient_fhir_id")


def _question(at: int) -> str:
    return f"What was {('glucose', 'heart rate', 'weight')[at % 3]} number {at} of the patient?"


def _answered_question(at: int, item: RecordQuestion) -> CaseRecord:
    if at % 100 == 99:
        return CaseRecord(
            id=item.id, status=CaseStatus.FAILED, error="ModelError: no reply."
        )
    answer = "nothing" if at % 5 == 0 else str(at)
    rows = (
        {"time": "2150-01-01T06:00:00", "name": "Glucose", "value": at, "chosen": True},
    )
    cited = {"Observation": (f"o{at}",)}
    result = RecordResult(answer=answer, retrieved=cited, cited=cited, rows=rows)
    return CaseRecord(
        id=item.id,
        status=CaseStatus.ANSWERED,
        result=result,
        seconds=(at * 37 % 1000) / 100,
    )


def keep_first_cases(run: Path, count: int, status: str = "running") -> None:
    """Make a run look as it did when `count` of its cases had ended."""
    records = run / "cases.jsonl"
    lines = records.read_text(encoding="utf-8").splitlines(keepends=True)
    records.write_text("".join(lines[:count]), encoding="utf-8")
    manifest = json.loads((run / "run.json").read_text(encoding="utf-8"))
    manifest["status"] = status
    (run / "run.json").write_text(json.dumps(manifest), encoding="utf-8")


def gold_of(case: Case) -> dict[str, Relevance]:
    """Every fifth sentence is essential, the one after it supplementary."""
    labels = {0: Relevance.ESSENTIAL, 1: Relevance.SUPPLEMENTARY}
    return {
        sentence_id: labels.get(index % 5, Relevance.NOT_RELEVANT)
        for index, sentence_id in enumerate(case.sentence_ids)
    }


def _folder(
    path: Path, task: str, pipeline: str, data: Path, items: Sequence[Item]
) -> RunFolder:
    run = RunFolder.create(path)
    now = datetime(2026, 3, 1, 12, tzinfo=UTC)
    run.write_manifest(
        RunManifest(
            run=path.name,
            status=RunStatus.FINISHED,
            started_at=now,
            ended_at=now,
            task=task,
            pipeline=pipeline,
            data=DataFingerprint(path=str(data), sha256="0" * 64),
            case_ids=tuple(item.id for item in items),
            settings={"model": "m1"},
            backends={
                "decision": AgentBackend(
                    kind="model", name="m1", server="http://127.0.0.1"
                )
            },
            prompts={},
            versions={"archqa": "0.1.0"},
            seconds=12.0,
        )
    )
    write_cases(run, task, items)
    return run


def _end(
    run: RunFolder,
    case: Case,
    gold: dict[str, Relevance],
    generator: random.Random,
    threshold: float,
) -> None:
    judgements = {}
    for agent in AGENTS:
        judgements[agent] = tuple(
            _judgement(sentence_id, gold[sentence_id], generator)
            for sentence_id in case.sentence_ids
        )
    means = mean_probabilities(judgements)
    above = [
        sentence_id
        for sentence_id in case.sentence_ids
        if means[sentence_id] >= threshold
    ]
    cited = tuple(above) or case.sentence_ids[:1]
    claims = tuple(
        Claim(text=f"As sentence {sentence_id} says.", citations=(sentence_id,))
        for sentence_id in cited
    )
    usage = Usage(
        calls=2, prompt_tokens=900, completion_tokens=80, cost_usd=0.01, seconds=1.5
    )
    run.add_step(
        case.id,
        Step(
            agent="decision",
            backend="model",
            model="m1",
            reply="What the model said.",
            usage=usage,
        ),
    )
    run.add(
        CaseRecord(
            id=case.id,
            status=CaseStatus.ANSWERED,
            answer=CitedAnswer(claims=claims),
            evidence=cited,
            judgements=judgements,
            experts=AGENTS[1:],
            usage=usage,
            seconds=1.5,
        )
    )


def _judgement(sentence: str, label: Relevance, generator: random.Random) -> Judgement:
    probability = min(
        max(generator.gauss(0.7 if label is Relevance.ESSENTIAL else 0.3, 0.2), 0.01),
        0.99,
    )
    return Judgement(
        sentence_id=sentence,
        label=Relevance.ESSENTIAL if probability >= 0.5 else Relevance.NOT_RELEVANT,
        rationale=f"Because of what {sentence} says of the question, {probability:.3f}.",
        probability=probability,
    )


def _key(case: Case, gold: dict[str, Relevance]) -> dict[str, Any]:
    answers = [
        {"sentence_id": sentence_id, "relevance": label.value}
        for sentence_id, label in gold.items()
    ]
    return {"case_id": case.id, "answers": answers}
