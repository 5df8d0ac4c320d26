"""The embedded parser: a question, its context and the patient's record to a typed query.

Names are found first, so that "less than 96 consecutive hours" within a procedure is no comparison;
then numbers, times, visits and ordinals are masked; the rest are cue words. A word that none of
them explains is a refusal.
"""

from pydantic import ValidationError

from archqa.errors import NotUnderstood
from archqa.fhir import Record
from archqa.query.model import Query
from archqa.query.questions.ehrsql import assembly, context, scan, spelling, unresolved
from archqa.query.questions.ehrsql.context import QuestionContext
from archqa.query.questions.ehrsql.names import Candidate, find_candidates
from archqa.query.questions.ehrsql.text import lookup_key, normalize_question, tokenize
from archqa.query.questions.ehrsql.vocabulary import (
    PatientNames,
    RecordVocabulary,
    record_vocabulary,
)


class Parser:
    """Parses questions about the patients of one record. Safe to use from several threads."""

    def __init__(self, record: Record) -> None:
        self._names: RecordVocabulary = record_vocabulary(record)

    def parse(self, question: str, assumption: str = "", patient: str = "") -> Query:
        """The query that a question asks. `patient` is the id of the Patient resource.

        Raises `NotUnderstood`, which names the part, rather than guess.
        """
        question, clock = context.extract_clock(question)
        question_context = context.parse_context(assumption)
        if question_context.now is None:
            question_context = question_context._replace(now=clock)
        vocabulary = self._names.vocabulary
        patient_names: PatientNames = frozenset()
        if patient:
            patient_names = self._names.patient_names(patient)
        text = normalize_question(question)
        text = spelling.correct_spelling(text, vocabulary.words, vocabulary.single_words)
        candidates = find_candidates(text, vocabulary, patient_names)
        candidates = _apply_record_names(text, question_context, candidates)
        result = scan.parse_question(text, question_context, candidates)
        unresolved.resolve_unresolved(result, vocabulary, patient_names)
        try:
            return assembly.build_query(result.state)
        except ValueError as error:
            raise NotUnderstood(
                question, f"holds parts that do not go together ({_reason(error)})"
            ) from None


def parse(question: str, assumption: str, record: Record, patient: str) -> Query:
    """The query that a question about a patient asks; the record's vocabulary is cached.

    Raises `NotUnderstood`.
    """
    return Parser(record).parse(question, assumption, patient)


def _reason(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return str(error)
    messages = []
    for detail in error.errors():
        message = str(detail["msg"])
        messages.append(message.removeprefix("Value error, "))
    return "; ".join(messages) or str(error)


def _apply_record_names(
    text: str, context: QuestionContext, candidates: list[Candidate]
) -> list[Candidate]:
    """Prefer the context's names ("Search for 'Daily Weight' to find weight") for charted items."""
    renamed: dict[Candidate, str] = {}
    for candidate in candidates:
        if candidate.kind != "vital":
            continue
        name = _record_name(text, context, candidate)
        if name:
            renamed[candidate] = name
    result = []
    for candidate in candidates:
        if candidate in renamed:
            names = (renamed[candidate],)
            result.append(candidate._replace(names=names, match_type="exact"))
        elif candidate.kind == "vital" or not candidate.overlaps_any(renamed):
            result.append(candidate)
    return result


def _record_name(text: str, context: QuestionContext, candidate: Candidate) -> str | None:
    tokens = tokenize(text[candidate.start : candidate.end])
    phrase = " ".join(token.text for token in tokens)
    if phrase in context.record_names:
        return context.record_names[phrase]
    candidate_keys = set(map(lookup_key, candidate.names))
    for question_phrase, name in context.record_names.items():
        if lookup_key(name) in candidate_keys or lookup_key(question_phrase) in candidate_keys:
            return name
    return None
