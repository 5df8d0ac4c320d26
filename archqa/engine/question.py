"""The question of a case."""

from archqa.core.case import Case


def question_text(case: Case) -> str:
    """Return the clinician's question, else the patient's phrases, else the patient's message."""
    if clinician_question := case.clinician_question.strip():
        return clinician_question
    phrases = " ".join(phrase.text for phrase in case.patient_question)
    return phrases.strip() or case.patient_narrative.strip()


def question_with_phrases(case: Case, separator: str = " ") -> str:
    """Return the question followed by the patient's phrases."""
    phrases = [phrase.text for phrase in case.patient_question]
    return separator.join([question_text(case), *phrases])
