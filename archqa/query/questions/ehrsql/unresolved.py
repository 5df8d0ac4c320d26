"""Tokens that no rule explained.

They become a variant of a name, a name that the record does not have, or a refusal.
"""

import re
from collections.abc import Iterable

from rapidfuzz import fuzz, process

from archqa.errors import NotUnderstood
from archqa.fhir.values.text import normalise_text
from archqa.query.questions.ehrsql import limits
from archqa.query.questions.ehrsql.scan import NAME_KINDS, ParseResult
from archqa.query.questions.ehrsql.text import TextToken, tokenize
from archqa.query.questions.ehrsql.vocabulary import NameKind, PatientNames, Vocabulary

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
_LIMITING = frozenset(
    [
        "without",
        "except",
        "excluding",
        "besides",
        "unless",
        "because",
        "why",
        "normal",
        "abnormal",
        "abnormally",
        "should",
        "recommended",
        "risk",
        "predict",
        "must",
        "shall",
        "expected",
        "likely",
        "after",
        "before",
        "while",
        "simultaneously",
        "together",
    ]
)


_DOSES = frozenset(
    [
        "mg",
        "mcg",
        "ml",
        "meq",
        "units",
        "unit",
        "tablet",
        "tablets",
        "tab",
        "tabs",
        "capsule",
        "capsules",
        "cap",
        "caps",
        "injection",
        "infusion",
    ]
)
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
    if not is_ignorable or _changes_meaning(result.unresolved):
        raise NotUnderstood(_phrase(state.text, result.unresolved))


def _without_drug_details(result: ParseResult) -> ParseResult:
    """The result without tokens for a strength ("81 mg") or a route ("an oral drug")."""
    state = result.state
    unresolved = []
    for token in result.unresolved:
        if result.candidates and _is_strength(state.text, token):
            continue
        codes = limits.route_codes(token.text) if len(token.text) > 2 else ()
        if codes:
            state.routes = state.routes or codes
        else:
            unresolved.append(token)
    return result._replace(unresolved=unresolved)


def _is_strength(text: str, token: TextToken) -> bool:
    """Whether a token says which product of a drug it was, not which drug."""
    return token.text in _DOSES or _DOSE.match(text[token.start :]) is not None


def _changes_meaning(unresolved: Iterable[TextToken]) -> bool:
    return any(token.text in _LIMITING or token.text[0].isdigit() for token in unresolved)


def _resolve_as_name(
    result: ParseResult, kind: NameKind, vocabulary: Vocabulary, patient_names: PatientNames
) -> bool:
    """Whether the unresolved tokens, perhaps with the names next to them, became a name."""
    state, unresolved = result.state, result.unresolved
    if len(unresolved) > _MAX_NAMES or any(token.text in _LIMITING for token in unresolved):
        return False
    if state.what == "microbiology_test":
        return _resolve_as_culture(result, vocabulary)
    name_tokens: list[TextToken] = []
    for candidate in result.candidates:
        name_tokens += tokenize(state.text[candidate.start : candidate.end])
    names = _similar_names([*name_tokens, *unresolved], kind, vocabulary, patient_names)
    if names:
        state.names = names
        return True
    phrase = _phrase(state.text, unresolved)
    if result.candidates:
        return _resolve_as_list_item(result, phrase)
    state.names = (
        _similar_names(unresolved, kind, vocabulary, patient_names)
        or _similar_names(tokenize(phrase), kind, vocabulary, patient_names)
        or _unknown_name(result, phrase)
    )
    return bool(state.names)


def _unknown_name(result: ParseResult, phrase: str) -> tuple[str, ...]:
    """The phrase as a name that the record does not have, if it stands where a name stands."""
    state = result.state
    if state.what not in _KINDS_WITH_UNKNOWN_NAMES:
        return ()
    has_cue = state.mentions("what", state.what, 2.2)
    if not has_cue or not _is_in_name_position(result):
        return ()
    return (phrase,)


def _is_in_name_position(result: ParseResult) -> bool:
    """Whether the tokens stand as a name: "a ... lab test", not "was ... in any procedure"."""
    text_before, text_after = _surroundings(result)
    return bool(_BEFORE_NAME.search(text_before) or _AFTER_NAME.search(text_after))


def _surroundings(result: ParseResult) -> tuple[str, str]:
    text, unresolved = result.state.text, result.unresolved
    return text[: unresolved[0].start], text[unresolved[-1].end :]


def _resolve_as_list_item(result: ParseResult, phrase: str) -> bool:
    """ "X, Y or Z" of which the record does not have Y."""
    text_before, text_after = _surroundings(result)
    is_after_mark = text_before.rstrip().endswith(_LIST_MARKS_BEFORE)
    is_before_mark = text_after.lstrip().startswith(_LIST_MARKS_AFTER)
    is_listed = is_after_mark or is_before_mark
    if is_listed and result.state.what in _LISTED_KINDS:
        result.state.names = (*result.state.names, phrase)
    return is_listed


def _resolve_as_culture(result: ParseResult, vocabulary: Vocabulary) -> bool:
    state, unresolved = result.state, result.unresolved
    if specimens := _similar_names(unresolved, "specimen", vocabulary, frozenset()):
        state.specimens = (*state.specimens, *specimens)
    elif tests := _similar_names(unresolved, "microbiology_test", vocabulary, frozenset()):
        state.names = tests
    elif organisms := _similar_names(unresolved, "organism", vocabulary, frozenset()):
        state.organisms = organisms
    elif not result.candidates and len(unresolved) <= 4 and _is_in_name_position(result):
        state.specimens = (_phrase(state.text, unresolved),)
    else:
        return False
    return True


def _similar_names(
    tokens: list[TextToken],
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
    return _own_or_few(containing, kind, patient_names)


def _own_or_few(names: list[str], kind: NameKind, patient_names: PatientNames) -> tuple[str, ...]:
    """The names in the patient's own resources; without any, all names unless they are too many."""
    own_names: dict[str, None] = {}
    for name in names:
        if (kind, normalise_text(name)) in patient_names:
            own_names[name] = None
    if own_names:
        return tuple(own_names)
    if len(names) > _MAX_NAMES:
        return ()
    return tuple(dict.fromkeys(names))


def _similar_key(phrase: str, names_by_key: dict[str, list[str]]) -> str | None:
    match = process.extractOne(
        phrase, names_by_key.keys(), scorer=fuzz.ratio, score_cutoff=_MIN_SIMILARITY
    )
    if match is None:
        return None
    key = str(match[0])
    # Numbers must be the same: 25 mg is not 50 mg.
    if _numbers(key) != _numbers(phrase):
        return None
    return key


def _numbers(phrase: str) -> list[str]:
    return [word for word in phrase.split() if word[0].isdigit()]


def _phrase(text: str, tokens: list[TextToken]) -> str:
    return text[tokens[0].start : tokens[-1].end]
