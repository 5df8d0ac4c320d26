"""The question of a case."""

import re
from functools import cache
from itertools import combinations
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.tables import read_rows


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


MAX_WORDS = 15
"""Words of a question that are scored (ArchEHR-QA 2026, subtask 1)."""
MIN_CLAUSE_WORDS = 4
OPENING_CHARACTERS = 200
"""Characters of a message in which its subject is named."""

_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_CLAUSE = re.compile(r"[,;:]|\s-\s")
_INTERROGATIVE = re.compile(
    r"^(?:why|what|when|how|who|where|which|was|were|is|are|did|do|does|can|could|should|will|would|"
    r"has|have|am)\b",
    re.IGNORECASE,
)
_FIRST_PERSON = re.compile(
    r"^\W*(?:i|i'm|my (?!mom|mother|mum|wife|sister|daughter|dad|father|husband|son|brother))\b",
    re.IGNORECASE,
)


class Pronouns(NamedTuple):
    """How the patient is referred to in the third person."""

    who: str
    whose: str
    whom: str


_PRONOUNS = {
    "she": Pronouns("she", "her", "her"),
    "he": Pronouns("he", "his", "him"),
    "": Pronouns("the patient", "the", "the patient"),
}


class Substitution(NamedTuple):
    """A pattern and what replaces it."""

    pattern: re.Pattern[str]
    replacement: str


def derive_clinician_question(message: str, max_words: int = MAX_WORDS) -> str:
    """Return the question behind a message; its first words where the message asks nothing."""
    questions = []
    for extracted in extract_questions(message):
        question = _third_person(extracted, message)
        if len(question.split()) > 1:
            questions.append(question)
    if not questions:
        return _punctuate(_first_words(_third_person(message, message), max_words))
    best = max(reversed(questions), key=_information)
    # The best question is joined with another one where both fit, in the order of the message.
    fitting_pairs = []
    for earlier, later in combinations(questions, 2):
        pair = f"{earlier}, and {later[:1].lower()}{later[1:]}"
        if best in (earlier, later) and len(pair.split()) <= max_words:
            fitting_pairs.append(pair)
    question = max(fitting_pairs, key=_information, default=_shorten(best, max_words))
    return _punctuate(_first_words(question, max_words))


def extract_questions(message: str) -> list[str]:
    """Return the sentences of a message that ask something, without question marks."""
    one_line = " ".join(message.split())
    sentences = [sentence.strip() for sentence in _SENTENCE.split(one_line)]
    questions = [sentence for sentence in sentences if "?" in sentence]
    if not questions:
        questions = [
            sentence
            for sentence in sentences
            if _INTERROGATIVE.match(_drop_openers(sentence))
        ]
    return [question.rstrip("?!. ") for question in questions]


def _third_person(text: str, message: str) -> str:
    pronouns = _PRONOUNS[_patient_gender(message)]
    text = _drop_openers(text)
    for pattern, replacement in substitutions("word"):
        text = pattern.sub(replacement.format(**pronouns._asdict()), text)
    for pattern, _ in substitutions("ending"):
        text = pattern.sub("", text)
    return " ".join(text.split())


def _drop_openers(text: str) -> str:
    """Drop openers such as `I was wondering`, until none is left."""
    previous = None
    while previous != text:
        previous = text
        for pattern, _ in substitutions("opener"):
            text = pattern.sub("", text)
    return text


def _patient_gender(message: str) -> str:
    """Return "she" or "he" by the first relation that the message names, "" for the writer."""
    if _FIRST_PERSON.search(message):
        return ""
    opening = message[:OPENING_CHARACTERS]
    relations = []
    for gender in ("she", "he"):
        for relation in substitutions(gender)[0].pattern.finditer(opening):
            relations.append((relation.start(), gender))
    if not relations:
        return ""
    _, gender = min(relations)
    return gender


def _information(question: str) -> float:
    """Score clinical mentions and an interrogative; penalise words beyond the limit."""
    from archqa.terminology.topics import (
        topics_of,
    )  # A clinician's question is not scored.

    score = float(len(topics_of(question)))
    if _INTERROGATIVE.match(question):
        score += 0.5
    excess_words = max(0, len(question.split()) - MAX_WORDS)
    return score - 0.05 * excess_words


def _shorten(question: str, max_words: int) -> str:
    """Return the first clause that asks and fits; else the question as it is."""
    if len(question.split()) <= max_words:
        return question
    for clause in _CLAUSE.split(question):
        text = clause.strip()
        fits = MIN_CLAUSE_WORDS <= len(text.split()) <= max_words
        if fits and _INTERROGATIVE.match(text):
            return text
    return question


def _first_words(text: str, max_words: int) -> str:
    return " ".join(text.split()[:max_words])


def _punctuate(text: str) -> str:
    text = text.strip(" ,;:.!?").replace("|", "/")
    if not text:
        return "What happened?"
    return f"{text[:1].upper()}{text[1:]}?"


@cache
def substitutions(kind: str) -> tuple[Substitution, ...]:
    """Return the rows of `data/rewording.tsv` of one kind."""
    rows = []
    for row_kind, pattern, replacement in read_rows(
        "engine/data/rewording.tsv", 3, optional=1
    ):
        if row_kind == kind:
            compiled = re.compile(pattern, re.IGNORECASE)
            rows.append(Substitution(compiled, replacement))
    return tuple(rows)


def is_worded(kind: str, text: str) -> bool:
    """Whether a pattern of one kind in `data/rewording.tsv` fits a text."""
    return any(pattern.search(text) for pattern, _ in substitutions(kind))
