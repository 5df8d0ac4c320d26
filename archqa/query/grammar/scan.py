"""One pass over a question: names, numbers, times, visits, ordinals and cue words, each claiming what it explains."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from archqa.errors import NotUnderstood
from archqa.query.grammar import limits, subject, times
from archqa.query.grammar.context import QuestionContext
from archqa.query.grammar.lexicon import LexiconMatches, lexicon_words, stop_words
from archqa.query.grammar.names import Candidate, non_overlapping
from archqa.query.grammar.parse_state import ParseState
from archqa.query.grammar.text import MaskedText, TextToken, tokenize
from archqa.query.grammar.visits import FoundVisit, find_positions, find_visits
from archqa.query.grammar.vocabulary import NameKind

NAME_KINDS: dict[str, NameKind] = {
    "lab": "lab",
    "vital": "vital",
    "output": "output",
    "medication": "medication",
    "procedure": "procedure",
    "diagnosis": "diagnosis",
    "care_unit": "care_unit",
    "microbiology_test": "microbiology_test",
    "susceptibility": "antibiotic",
}
"""Which names the rows of a question have."""

_THROUGH = re.compile(r"\b(?:via|through|from|by|as) (?:the |an? )?['\"]?$")
_UNITS = re.compile(r"\bcare ?units?\b|\bwards?\b|\btransferred\b|\bfloor\b")
_ORDINAL = re.compile(
    r"^(?:first|last|second|third|daily|monthly|yearly|current|initial|final|total)\b"
)
# Said of a value without changing which one is meant.
_HARMLESS = frozenset(
    [
        "serum",
        "blood",
        "plasma",
        "venous",
        "arterial",
        "whole",
        "sample",
        "specimen",
        "fluid",
        "rate",
        "pressure",
        "level",
        "drip",
        "drug",
    ]
)


class ParseResult(NamedTuple):
    """What was read, and the words that nothing explains."""

    read: ParseState
    names: list[Candidate]
    unresolved: list[TextToken]


def parse_question(text: str, context: QuestionContext, candidates: list[Candidate]) -> ParseResult:
    """Read a question in plain text. Raises `NotUnderstood` if nothing says what it is about."""
    sentence = MaskedText(text)
    _mask_names(sentence, candidates)
    test = limits.find_value_test(sentence)
    spans = times.find_spans(sentence)
    seen = find_visits(sentence)
    routed = sentence.copy()
    routes = limits.find_routes(routed)
    cues = LexiconMatches(_without_adverbs(sentence.open))
    candidates = [each for each in candidates if not _is_claimed(sentence, each)]
    _refuse_two_in_one(text, cues)
    what = subject.classify_subject(
        cues, candidates, seen, place=context.place, has_route=bool(routes)
    )
    if what is None:
        raise NotUnderstood(text, "does not say what it is about: a lab, a drug, a visit …")
    if what == "medication":
        sentence = routed
    ordinals = find_positions(sentence)
    seen = _placed(seen, cues)
    yes_or_no = subject.asks_yes_or_no(cues, text, is_ordered=bool(ordinals))
    found = ParseState(
        text=text, what=what, lexicon_matches=cues, context=context, is_yes_no=yes_or_no,
        routes=routes if what == "medication" else (), test=test, visits=seen, spans=spans, positions=ordinals,
    )  # fmt: skip
    names = _choose(found, candidates, cues)
    return ParseResult(found, names, _leftover(sentence, cues, names))


_INTERVAL = re.compile(r"\b(?:time|days?|hours?|weeks?|interval|gap|long) (?:\w+ )?between\b")


def _refuse_two_in_one(text: str, cues: LexiconMatches) -> None:
    """What no query can say: the time between two things, or the spread of values."""
    if found := _INTERVAL.search(text):
        raise NotUnderstood(
            found.group(), "asks for the time between two things, which a query cannot say"
        )
    both = cues.weight("summary", "minimum") >= 4 and cues.weight("summary", "maximum") >= 4
    if both:
        raise NotUnderstood(text, "asks for the lowest and the highest in one")


_ADVERB = re.compile(
    r"(?P<before>.{0,12})\b(?:for |on |at )?(?:the |their |his |her )?(?:very )?"
    r"(?:first|last|second|third|final|initial|latest|most recent) (?:time|occasion)\b"
)
_ASKED = re.compile(
    r"(?:^|[:;.]|\b(?:what|what's|whats|which|is|was|were|me|find|show|give|get|provide|report|know|of)) ?(?:the )?$"
)


def _without_adverbs(text: str) -> str:
    """ "For the last time" asks for no time; "what was the last time" does."""

    def blotted(found: re.Match[str]) -> str:
        words_before = text[: found.end("before")]
        if text[found.end() :].startswith(",") and not words_before.strip():
            return found["before"] + "\x01" * (len(found.group()) - len(found["before"]))
        if _ASKED.search(words_before.rstrip()) or _ASKED.search(words_before):
            return found.group()
        return found["before"] + "\x01" * (len(found.group()) - len(found["before"]))

    return _ADVERB.sub(blotted, text)


def _placed(seen: list[FoundVisit], cues: LexiconMatches) -> list[FoundVisit]:
    """ "The last stay" beside "in the ICU" is the last ICU stay."""
    if not cues.weight("what", "icu_stay"):
        return seen
    return [
        each
        if each.is_explicit
        else each._replace(visit=each.visit.model_copy(update={"kind": "icu"}), is_explicit=True)
        for each in seen
    ]


def _mask_names(sentence: MaskedText, candidates: Iterable[Candidate]) -> None:
    """Names of several words are blotted out, so that no number or cue word is read inside them."""
    units = _UNITS.search(sentence.text)
    for each in candidates:
        hidden = each.words > 1 or any(
            sign.isdecimal() for sign in sentence.text[each.start : each.end]
        )
        is_unit = each.kind == "care_unit" and (units or "Emergency" not in each.names[0])
        is_source = each.kind == "admission_source" and _THROUGH.search(sentence.text[: each.start])
        if (
            each.kind == "route"
            or (each.kind == "admission_source" and not is_source)
            or (each.kind == "care_unit" and not is_unit)
        ):
            hidden = False
        if hidden and (
            _is_quoted(sentence.text, each)
            or not _ORDINAL.match(sentence.text[each.start : each.end])
        ):
            sentence.mask(each.start, each.end)
            sentence.name_spans.append((each.start, each.end))


def _is_quoted(text: str, each: Candidate) -> bool:
    return text[max(0, each.start - 1) : each.start] in {"'", '"'}


def _is_claimed(sentence: MaskedText, each: Candidate) -> bool:
    """Whether a date, number or visit has taken the words of a name."""
    if any(start <= each.start and each.end <= end for start, end in sentence.name_spans):
        return False
    return "\x01" in sentence.open[each.start : each.end]


def _choose(
    found: ParseState, candidates: list[Candidate], cues: LexiconMatches
) -> list[Candidate]:
    real = [each for each in candidates if not _is_plain_word(found, each, cues)]
    kind = NAME_KINDS.get(found.what)
    picked = non_overlapping(real, kind) if kind else []
    if found.what == "care_unit" and not picked:
        picked = non_overlapping(candidates, "care_unit")
    if found.what == "hospital_visit":
        picked = non_overlapping(real, "admission_source")
        found.sources = tuple(name for each in picked for name in each.names)
    elif found.what == "microbiology_test" or found.what == "susceptibility":
        picked = _choose_cultures(found, real, picked)
    else:
        found.names = _names(picked)
    return picked


def _choose_cultures(
    found: ParseState, real: list[Candidate], tests: list[Candidate]
) -> list[Candidate]:
    """A specimen goes before a test of the same words; an organism only where it is no specimen."""
    specimens = non_overlapping(real, "specimen")
    tests = [
        each
        for each in tests
        if not any(
            each.overlaps(one.start, one.end) and one.words >= each.words for one in specimens
        )
    ]
    specimens = [
        each for each in specimens if not any(each.overlaps(one.start, one.end) for one in tests)
    ]
    organisms = [
        each
        for each in non_overlapping(real, "organism")
        if not any(each.overlaps(one.start, one.end) for one in (*tests, *specimens))
    ]
    found.names, found.specimens, found.organisms = (
        _names(tests),
        _names(specimens),
        _names(organisms),
    )
    return [*tests, *specimens, *organisms]


def _names(picked: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in picked for name in each.names))


def _is_plain_word(found: ParseState, each: Candidate, cues: LexiconMatches) -> bool:
    """Whether a name of one word is more likely a word of the question."""
    word = found.text[each.start : each.end]
    if (
        each.words > 1
        or each.kind == "output"
        or (found.what == "care_unit" and each.said == "exact")
    ):
        return False
    inside = any(
        start <= each.start and each.end <= end and end - start > len(word)
        for start, end in cues.places
    )
    return word in stop_words() or (word in lexicon_words() and inside)


def _leftover(
    sentence: MaskedText, cues: LexiconMatches, names: list[Candidate]
) -> list[TextToken]:
    taken = [*cues.places, *((each.start, each.end) for each in names)]
    text = sentence.open
    for start, end in sentence.name_spans:
        # What is hidden as a name counts as explained only if the name was chosen.
        text = text[:start] + sentence.text[start:end] + text[end:]
    return [
        word
        for word in tokenize(text)
        if not any(start <= word.start and word.end <= end for start, end in taken)
        and word.text not in stop_words()
        and not (names and word.text in _HARMLESS)
        and len(word.text) > 1
    ]
