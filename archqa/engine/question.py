"""The question of a case."""

from archqa.core.case import Case


def question_text(case: Case) -> str:
    """Return the clinician's question, else the patient's phrases, else the patient's message."""
    if clinician_question := case.clinician_question.strip():
        return clinician_question
    phrases = " ".join(_phrases(case)).strip()
    if phrases:
        return phrases
    return case.patient_narrative.strip()


def question_with_phrases(case: Case, separator: str = " ") -> str:
    """Return the question followed by the patient's phrases."""
    texts = [question_text(case)]
    texts += _phrases(case)
    return separator.join(texts)


def _phrases(case: Case) -> list[str]:
    return [phrase.text for phrase in case.patient_question]
