"""What a case asks."""

from archqa.core.case import Case


def question_text(case: Case) -> str:
    """The clinician's question, or failing it the patient's own words."""
    own = " ".join(phrase.text for phrase in case.patient_question)
    return case.clinician_question.strip() or own.strip() or case.patient_narrative.strip()
