"""Questions about a patient: from the resources of a record and from the notes among them."""

from archqa.asking.chart.ask_patient import (
    GIVEN_NOTE,
    AnsweredChart,
    answer_patient,
    ask_patient,
    check_patient_settings,
    patient_destinations,
)

__all__ = [
    "GIVEN_NOTE",
    "AnsweredChart",
    "answer_patient",
    "ask_patient",
    "check_patient_settings",
    "patient_destinations",
]
