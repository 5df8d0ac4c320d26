"""What a score should be read against: doing everything, doing nothing, and the second reader where there is one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from archqa.evaluation.references import Gold
from scoring import Scores
from scoring.tasks import archehr2025, archehr2026
from scoring.tasks import fhir_agentbench as fhir
from scoring.tasks.fhir_agentbench import NO_ANSWER, Question

Baselines = dict[str, dict[str, float]]

_STRICT = ("strict_micro_precision", "strict_micro_recall", "strict_micro_f1")
_LINKED = ("micro_precision", "micro_recall", "micro_f1")


def archehr_2025(gold: Gold[archehr2025.Reference]) -> Baselines:
    """Citing every sentence, and the second reader's essential sentences."""
    found = {"cite_everything": archehr2025.cite_everything(gold.references)}
    if gold.second:
        found["second_reader"] = archehr2025.cite_essential(gold.second)
    return {
        name: archehr2025.score(rows, gold.references, metrics=_STRICT, bootstrap=0).scores
        for name, rows in found.items()
    }


def archehr_2026(gold: Gold[archehr2026.Reference], subtask: archehr2026.Subtask) -> Baselines:
    """Subtask 2: every sentence, and the second reader's essential ones. Subtask 4: every link. Texts have none."""
    if subtask == 2:
        found = {"cite_everything": [_row(each, list(each.labels)) for each in gold.references]}
        if gold.second:
            found["second_reader"] = [
                _row(each, sorted(each.labelled("essential"))) for each in gold.second
            ]
        return {name: _scores_2026(rows, gold, subtask, _STRICT) for name, rows in found.items()}
    if subtask == 4:
        rows = [_row(each, _every_link(each)) for each in gold.references]
        return {"link_everything": _scores_2026(rows, gold, subtask, _LINKED)}
    return {}


def fhir_agentbench(questions: Sequence[Question]) -> Baselines:
    """Retrieving nothing and declining every question, or giving the usual answer of its template."""
    found = {"always_no_answer": dict.fromkeys((each.question_id for each in questions), NO_ANSWER)}
    if any(each.template for each in questions):
        found["majority_per_template"] = _majority(questions)
    return {name: _answering(questions, answers) for name, answers in found.items()}


def _answering(questions: Sequence[Question], answers: Mapping[str, str]) -> dict[str, float]:
    rows = [{"question_id": one, "agent_answer": answer} for one, answer in answers.items()]
    scores: Scores = fhir.score(rows, questions, bootstrap=0)
    return scores.scores


def _majority(questions: Sequence[Question]) -> dict[str, str]:
    """Question id → the most frequent answer of the template's other questions: its own is not looked at."""
    usual: dict[str, Counter[str]] = {}
    for each in questions:
        usual.setdefault(each.template, Counter())[each.reference] += 1
    answers = {}
    for each in questions:
        others = usual[each.template].copy()
        others[each.reference] -= 1
        [(answer, count)] = others.most_common(1)
        answers[each.question_id] = answer if count else NO_ANSWER
    return answers


def _row(reference: archehr2026.Reference, prediction: list[Any]) -> dict[str, Any]:
    return {"case_id": reference.case_id, "prediction": prediction}


def _every_link(reference: archehr2026.Reference) -> list[dict[str, Any]]:
    sentences = list(reference.sentences)
    return [{"answer_id": answer, "evidence_id": sentences} for answer in reference.citations]


def _scores_2026(
    rows: Sequence[dict[str, Any]],
    gold: Gold[archehr2026.Reference],
    subtask: archehr2026.Subtask,
    metrics: Sequence[str],
) -> dict[str, float]:
    return archehr2026.score(
        rows, gold.references, subtask=subtask, metrics=metrics, bootstrap=0
    ).scores
