"""Baselines of FHIR-AgentBench: declining every question, and the usual answer of each template."""

from collections import Counter
from collections.abc import Mapping, Sequence

from archqa.tasks.scoring.score_report import Baselines
from scoring.tasks import fhir_agentbench
from scoring.tasks.fhir_agentbench import NO_ANSWER, Question


def baselines(questions: Sequence[Question]) -> Baselines:
    """Scores of retrieving nothing and declining, and of the most frequent answer of a template."""
    question_ids = [question.question_id for question in questions]
    always_no_answer = dict.fromkeys(question_ids, NO_ANSWER)
    scores = {"always_no_answer": _scores(questions, always_no_answer)}
    has_templates = any(question.template for question in questions)
    if has_templates:
        scores["majority_per_template"] = _scores(questions, _majority_answers(questions))
    return scores


def _scores(questions: Sequence[Question], answers: Mapping[str, str]) -> dict[str, float]:
    rows = []
    for question_id, answer in answers.items():
        rows.append({"question_id": question_id, "agent_answer": answer})
    scores: dict[str, float] = fhir_agentbench.score(rows, questions, bootstrap=0).scores
    return scores


def _majority_answers(questions: Sequence[Question]) -> dict[str, str]:
    """Question id → the most frequent answer of the template's other questions, its own excluded."""
    counts: dict[str, Counter[str]] = {}
    for question in questions:
        template_counts = counts.setdefault(question.template, Counter())
        template_counts[question.reference] += 1
    answers = {}
    for question in questions:
        other_answers = counts[question.template].copy()
        other_answers[question.reference] -= 1
        [(answer, count)] = other_answers.most_common(1)
        answers[question.question_id] = answer if count else NO_ANSWER
    return answers
