"""The everyday grammar: short questions about one patient's record as typed queries.

    reading = read_question("last A1c?", patient_vocabulary(record, patient))

Every word is taken into a query, known to carry nothing, or named as not understood.
"""

from archqa.query.questions.everyday.declining import (
    Declined,
    NotUnderstood,
    Reading,
    Understood,
)
from archqa.query.questions.everyday.reader import read_question
from archqa.query.questions.everyday.vocabulary import (
    Name,
    NameIndex,
    PatientVocabulary,
    Vocabulary,
    patient_vocabulary,
)

__all__ = [
    "Declined",
    "Name",
    "NameIndex",
    "NotUnderstood",
    "PatientVocabulary",
    "Reading",
    "Understood",
    "Vocabulary",
    "patient_vocabulary",
    "read_question",
]
