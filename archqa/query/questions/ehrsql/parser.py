"""The embedded parser: a question, its context and the patient's record to a typed query.

Names are found first, so that "less than 96 consecutive hours" within a procedure is no comparison;
then numbers, times, visits and ordinals are masked; the rest are cue words. A word that none of
them explains is a refusal.
"""

import re

from pydantic import ValidationError
from rapidfuzz import fuzz, process

from archqa.errors import NotUnderstood
from archqa.fhir import Record
from archqa.fhir.values.text import normalise_text
from archqa.query.model import Query
from archqa.query.questions.ehrsql import assembly, limits, scan
from archqa.query.questions.ehrsql.names import (
    Candidate,
    NameKind,
    PatientNames,
    RecordVocabulary,
    Vocabulary,
    find_candidates,
    record_vocabulary,
)
from archqa.query.questions.ehrsql.scan import NAME_KINDS, ParseResult
from archqa.query.questions.ehrsql.text import (
    QuestionContext,
    correct_spelling,
    extract_clock,
    normalize_question,
    parse_context,
)
from archqa.query.questions.lexer import Token, letters_and_numbers, lookup_key
from archqa.terminology.words import word_list

_MIN_SIMILARITY = 87
_MAX_NAMES = 8
_KINDS_WITH_UNKNOWN_NAMES = frozenset(
    {
        "lab",
        "vital",
        "medication",
        "procedure",
        "diagnosis",
        "output",
        "care_unit",
        "susceptibility",
    }
)
_MAX_UNEXPLAINED = 1
"""Tokens that may stay unexplained in a question with a name; more are a refusal."""

# Words that change what is asked: ignoring them would answer a different question.
_LIMITING = word_list("limiting")


_DOSES = word_list("unit of a dose")
_DOSE = re.compile(r"\d+(?:\.\d+)? ?(?:mg|mcg|g|ml|units?|meq|%)")
_BEFORE_NAME = re.compile(
    r"(?:\b(?:of|for|with|called|named|prescribed|receive|received|given|taking|take|took|on|an?|the|or|and|undergo|"
    r"undergone|had|have|as)|[,:\"']) ?$"
)
_AFTER_NAME = re.compile(
    r"^[\"',]? ?(?:lab|laboratory|test|level|value|result|procedure|surgery|operation|treatment|output|drain|"
    r"prescription|order|dose|medication|drug|diagnosis|disease|microbiology|culture|specimen|careunit|unit|ward|reading|"
    r"measurement|prescribed|ordered|given|administered|performed|checked|measured|drawn|dosage|started)"
)
_LIST_MARKS_BEFORE = (",", " or", " and", "/")
_LIST_MARKS_AFTER = (",", "or ", "and ", "/")
_LISTED_KINDS = frozenset({"medication", "lab", "procedure", "diagnosis"})


def resolve_unresolved(
    result: ParseResult, vocabulary: Vocabulary, patient_names: PatientNames
) -> None:
    """Resolve every unexplained token, changing the parse state.

    Raises `NotUnderstood` with the words that have no meaning.
    """
    state = result.state
    if state.what == "medication":
        result = _without_drug_details(result)
    if not result.unresolved:
        return
    kind = NAME_KINDS.get(state.what)
    if kind is not None and _resolve_as_name(result, kind, vocabulary, patient_names):
        return
    has_subject = bool(result.candidates or state.visits)
    is_ignorable = len(result.unresolved) <= _MAX_UNEXPLAINED and has_subject
    changes_meaning = any(
        token.text in _LIMITING or token.text[0].isdigit()
        for token in result.unresolved
    )
    if changes_meaning or not is_ignorable:
        raise NotUnderstood(_phrase(state.text, result.unresolved))


def _without_drug_details(result: ParseResult) -> ParseResult:
    """The result without tokens for a strength ("81 mg") or a route ("an oral drug")."""
    state = result.state
    unresolved = []
    for token in result.unresolved:
        is_strength = token.text in _DOSES or _DOSE.match(state.text[token.start :])
        if is_strength and result.candidates:
            continue
        codes = limits.route_codes(token.text) if len(token.text) > 2 else ()
        if codes:
            state.routes = state.routes or codes
        else:
            unresolved.append(token)
    return result._replace(unresolved=unresolved)


def _resolve_as_name(
    result: ParseResult,
    kind: NameKind,
    vocabulary: Vocabulary,
    patient_names: PatientNames,
) -> bool:
    """Whether the unresolved tokens, perhaps with the names next to them, became a name."""
    state, unresolved = result.state, result.unresolved
    if len(unresolved) > _MAX_NAMES or any(
        token.text in _LIMITING for token in unresolved
    ):
        return False
    if state.what == "microbiology_test":
        return _resolve_as_culture(result, vocabulary)
    name_tokens: list[Token] = []
    for candidate in result.candidates:
        name_tokens += letters_and_numbers(state.text[candidate.start : candidate.end])
    names = _similar_names([*name_tokens, *unresolved], kind, vocabulary, patient_names)
    if names:
        state.names = names
        return True
    phrase = _phrase(state.text, unresolved)
    if result.candidates:
        # "X, Y or Z" of which the record does not have Y.
        text_before, text_after = _surroundings(result)
        is_after_mark = text_before.rstrip().endswith(_LIST_MARKS_BEFORE)
        is_before_mark = text_after.lstrip().startswith(_LIST_MARKS_AFTER)
        is_listed = is_after_mark or is_before_mark
        if is_listed and state.what in _LISTED_KINDS:
            state.names = (*state.names, phrase)
        return is_listed
    state.names = (
        _similar_names(unresolved, kind, vocabulary, patient_names)
        or _similar_names(letters_and_numbers(phrase), kind, vocabulary, patient_names)
        or _unknown_name(result, phrase)
    )
    return bool(state.names)


def _unknown_name(result: ParseResult, phrase: str) -> tuple[str, ...]:
    """The phrase as a name that the record does not have, if it stands where a name stands."""
    state = result.state
    may_be_unknown = state.what in _KINDS_WITH_UNKNOWN_NAMES
    if (
        may_be_unknown
        and state.mentions("what", state.what, 2.2)
        and _is_in_name_position(result)
    ):
        return (phrase,)
    return ()


def _is_in_name_position(result: ParseResult) -> bool:
    """Whether the tokens stand as a name: "a ... lab test", not "was ... in any procedure"."""
    text_before, text_after = _surroundings(result)
    return bool(_BEFORE_NAME.search(text_before) or _AFTER_NAME.search(text_after))


def _surroundings(result: ParseResult) -> tuple[str, str]:
    text, unresolved = result.state.text, result.unresolved
    return text[: unresolved[0].start], text[unresolved[-1].end :]


def _resolve_as_culture(result: ParseResult, vocabulary: Vocabulary) -> bool:
    state, unresolved = result.state, result.unresolved
    if specimens := _similar_names(unresolved, "specimen", vocabulary, frozenset()):
        state.specimens = (*state.specimens, *specimens)
    elif tests := _similar_names(
        unresolved, "microbiology_test", vocabulary, frozenset()
    ):
        state.names = tests
    elif organisms := _similar_names(unresolved, "organism", vocabulary, frozenset()):
        state.organisms = organisms
    elif (
        not result.candidates and len(unresolved) <= 4 and _is_in_name_position(result)
    ):
        state.specimens = (_phrase(state.text, unresolved),)
    else:
        return False
    return True


def _similar_names(
    tokens: list[Token],
    kind: NameKind,
    vocabulary: Vocabulary,
    patient_names: PatientNames,
) -> tuple[str, ...]:
    """Names of the same words in another order, of similar spelling, or with all of these words."""
    names_by_key = vocabulary.names_of_kind(kind)
    query_words = {token.text for token in tokens}
    same_words: dict[str, None] = {}
    containing: list[str] = []
    for key, names in names_by_key.items():
        key_words = set(key.split())
        if query_words == key_words:
            same_words.update(dict.fromkeys(names))
        if query_words <= key_words:
            containing += names
    if same_words:
        return tuple(same_words)
    similar = _similar_key(" ".join(token.text for token in tokens), names_by_key)
    if similar is not None:
        return tuple(names_by_key[similar])
    # The names in the patient's own resources; without any, all names unless they are too many.
    own_names = [
        name for name in containing if (kind, normalise_text(name)) in patient_names
    ]
    if not own_names and len(containing) > _MAX_NAMES:
        return ()
    return tuple(dict.fromkeys(own_names or containing))


def _similar_key(phrase: str, names_by_key: dict[str, list[str]]) -> str | None:
    match = process.extractOne(
        phrase, names_by_key.keys(), scorer=fuzz.ratio, score_cutoff=_MIN_SIMILARITY
    )
    # Numbers must be the same: 25 mg is not 50 mg.
    if match is None or _numbers(str(match[0])) != _numbers(phrase):
        return None
    return str(match[0])


def _numbers(phrase: str) -> list[str]:
    return [word for word in phrase.split() if word[0].isdigit()]


def _phrase(text: str, tokens: list[Token]) -> str:
    return text[tokens[0].start : tokens[-1].end]


class Parser:
    """Parses questions about the patients of one record. Safe to use from several threads."""

    def __init__(self, record: Record) -> None:
        self._names: RecordVocabulary = record_vocabulary(record)

    def parse(self, question: str, assumption: str = "", patient: str = "") -> Query:
        """The query that a question asks. `patient` is the id of the Patient resource.

        Raises `NotUnderstood`, which names the part, rather than guess.
        """
        question, clock = extract_clock(question)
        question_context = parse_context(assumption)
        if question_context.now is None:
            question_context = question_context._replace(now=clock)
        vocabulary = self._names.vocabulary
        patient_names: PatientNames = frozenset()
        if patient:
            patient_names = self._names.patient_names(patient)
        text = normalize_question(question)
        text = correct_spelling(text, vocabulary.words, vocabulary.single_words)
        candidates = find_candidates(text, vocabulary, patient_names)
        candidates = _apply_record_names(text, question_context, candidates)
        result = scan.parse_question(text, question_context, candidates)
        resolve_unresolved(result, vocabulary, patient_names)
        try:
            return assembly.build_query(result.state)
        except ValueError as error:
            if not isinstance(error, ValidationError):
                reason = str(error)
            else:
                messages = []
                for detail in error.errors():
                    message = str(detail["msg"])
                    messages.append(message.removeprefix("Value error, "))
                reason = "; ".join(messages) or str(error)
            raise NotUnderstood(
                question, f"holds parts that do not go together ({reason})"
            ) from None


def parse(question: str, assumption: str, record: Record, patient: str) -> Query:
    """The query that a question about a patient asks; the record's vocabulary is cached.

    Raises `NotUnderstood`.
    """
    return Parser(record).parse(question, assumption, patient)


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


def _record_name(
    text: str, context: QuestionContext, candidate: Candidate
) -> str | None:
    tokens = letters_and_numbers(text[candidate.start : candidate.end])
    phrase = " ".join(token.text for token in tokens)
    if phrase in context.record_names:
        return context.record_names[phrase]
    candidate_keys = set(map(lookup_key, candidate.names))
    for question_phrase, name in context.record_names.items():
        if (
            lookup_key(name) in candidate_keys
            or lookup_key(question_phrase) in candidate_keys
        ):
            return name
    return None
