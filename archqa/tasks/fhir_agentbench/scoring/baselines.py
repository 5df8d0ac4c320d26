"""Baselines of FHIR-AgentBench: declining every question, and the usual answer of each template."""

from collections import Counter
from collections.abc import Mapping, Sequence

from archqa.tasks.scoring import Baselines
from scoring.tasks import fhir_agentbench
from scoring.tasks.fhir_agentbench import NO_ANSWER, Question


def baselines(questions: Sequence[Question]) -> Baselines:
    """Scores of retrieving nothing and declining, and of the most frequent answer of a template."""
    answers = {
        "always_no_answer": dict.fromkeys(
            (question.question_id for question in questions), NO_ANSWER
        )
    }
    if any(question.template for question in questions):
        answers["majority_per_template"] = _majority_answers(questions)
    return {name: _scores(questions, by_question) for name, by_question in answers.items()}


def _scores(questions: Sequence[Question], answers: Mapping[str, str]) -> dict[str, float]:
    rows = [
        {"question_id": question_id, "agent_answer": answer}
        for question_id, answer in answers.items()
    ]
    scores: dict[str, float] = fhir_agentbench.score(rows, questions, bootstrap=0).scores
    return scores


def _majority_answers(questions: Sequence[Question]) -> dict[str, str]:
    """Question id → the most frequent answer of the template's other questions, its own excluded."""
    counts: dict[str, Counter[str]] = {}
    for question in questions:
        counts.setdefault(question.template, Counter())[question.reference] += 1
    answers = {}
    for question in questions:
        other_answers = counts[question.template].copy()
        other_answers[question.reference] -= 1
        [(answer, count)] = other_answers.most_common(1)
        answers[question.question_id] = answer if count else NO_ANSWER
    return answers
