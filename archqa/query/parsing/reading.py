"""One pass over a question: names, numbers, times, visits, ordinals and cue words, each claiming what it explains."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from archqa.errors import NotUnderstood
from archqa.query.parsing import clock, deciding, limits
from archqa.query.parsing.context import Context
from archqa.query.parsing.cues import Cues, cue_words, glue
from archqa.query.parsing.heard import Heard
from archqa.query.parsing.naming import Candidate, chosen
from archqa.query.parsing.text import Sentence, Word, words
from archqa.query.parsing.visits import FoundVisit, positions, visits
from archqa.query.parsing.vocabulary import Kind

KINDS: dict[str, Kind] = {
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
_ORDINAL = re.compile(r"^(?:first|last|second|third|daily|monthly|yearly|current|initial|final|total)\b")
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


class Reading(NamedTuple):
    """What was read, and the words that nothing explains."""

    read: Heard
    names: list[Candidate]
    leftover: list[Word]


def read(text: str, context: Context, candidates: list[Candidate]) -> Reading:
    """Read a question in plain text. Raises `NotUnderstood` if nothing says what it is about."""
    sentence = Sentence(text)
    _mask_names(sentence, candidates)
    test = limits.value_test(sentence)
    spans = clock.spans(sentence)
    seen = visits(sentence)
    routed = sentence.copy()
    routes = limits.routes(routed)
    cues = Cues(_without_adverbs(sentence.open))
    candidates = [each for each in candidates if not _is_claimed(sentence, each)]
    _refuse_two_in_one(text, cues)
    what = deciding.subject(cues, candidates, seen, place=context.place, has_route=bool(routes))
    if what is None:
        raise NotUnderstood(text, "does not say what it is about: a lab, a drug, a visit …")
    if what == "medication":
        sentence = routed
    ordinals = positions(sentence)
    seen = _placed(seen, cues)
    yes_or_no = deciding.asks_yes_or_no(cues, text, is_ordered=bool(ordinals))
    found = Heard(
        text=text, what=what, cues=cues, context=context, yes_or_no=yes_or_no,
        routes=routes if what == "medication" else (), test=test, visits=seen, spans=spans, positions=ordinals,
    )  # fmt: skip
    names = _choose(found, candidates, cues)
    return Reading(found, names, _leftover(sentence, cues, names))


_INTERVAL = re.compile(r"\b(?:time|days?|hours?|weeks?|interval|gap|long) (?:\w+ )?between\b")


def _refuse_two_in_one(text: str, cues: Cues) -> None:
    """What no query can say: the time between two things, or the spread of values."""
    if found := _INTERVAL.search(text):
        raise NotUnderstood(found.group(), "asks for the time between two things, which a query cannot say")
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


def _placed(seen: list[FoundVisit], cues: Cues) -> list[FoundVisit]:
    """ "The last stay" beside "in the ICU" is the last ICU stay."""
    if not cues.weight("what", "icu_stay"):
        return seen
    return [
        each if each.placed else each._replace(visit=each.visit.model_copy(update={"kind": "icu"}), placed=True)
        for each in seen
    ]


def _mask_names(sentence: Sentence, candidates: Iterable[Candidate]) -> None:
    """Names of several words are blotted out, so that no number or cue word is read inside them."""
    units = _UNITS.search(sentence.text)
    for each in candidates:
        hidden = each.words > 1 or any(sign.isdecimal() for sign in sentence.text[each.start : each.end])
        is_unit = each.kind == "care_unit" and (units or "Emergency" not in each.names[0])
        is_source = each.kind == "admission_source" and _THROUGH.search(sentence.text[: each.start])
        if (
            each.kind == "route"
            or (each.kind == "admission_source" and not is_source)
            or (each.kind == "care_unit" and not is_unit)
        ):
            hidden = False
        if hidden and (_is_quoted(sentence.text, each) or not _ORDINAL.match(sentence.text[each.start : each.end])):
            sentence.claim(each.start, each.end)
            sentence.named.append((each.start, each.end))


def _is_quoted(text: str, each: Candidate) -> bool:
    return text[max(0, each.start - 1) : each.start] in {"'", '"'}


def _is_claimed(sentence: Sentence, each: Candidate) -> bool:
    """Whether a date, number or visit has taken the words of a name."""
    if any(start <= each.start and each.end <= end for start, end in sentence.named):
        return False
    return "\x01" in sentence.open[each.start : each.end]


def _choose(found: Heard, candidates: list[Candidate], cues: Cues) -> list[Candidate]:
    real = [each for each in candidates if not _is_plain_word(found, each, cues)]
    kind = KINDS.get(found.what)
    picked = chosen(real, kind) if kind else []
    if found.what == "care_unit" and not picked:
        picked = chosen(candidates, "care_unit")
    if found.what == "hospital_visit":
        picked = chosen(real, "admission_source")
        found.sources = tuple(name for each in picked for name in each.names)
    elif found.what == "microbiology_test" or found.what == "susceptibility":
        picked = _choose_cultures(found, real, picked)
    else:
        found.names = _names(picked)
    return picked


def _choose_cultures(found: Heard, real: list[Candidate], tests: list[Candidate]) -> list[Candidate]:
    """A specimen goes before a test of the same words; an organism only where it is no specimen."""
    specimens = chosen(real, "specimen")
    tests = [
        each
        for each in tests
        if not any(each.overlaps(one.start, one.end) and one.words >= each.words for one in specimens)
    ]
    specimens = [each for each in specimens if not any(each.overlaps(one.start, one.end) for one in tests)]
    organisms = [
        each
        for each in chosen(real, "organism")
        if not any(each.overlaps(one.start, one.end) for one in (*tests, *specimens))
    ]
    found.names, found.specimens, found.organisms = _names(tests), _names(specimens), _names(organisms)
    return [*tests, *specimens, *organisms]


def _names(picked: Iterable[Candidate]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for each in picked for name in each.names))


def _is_plain_word(found: Heard, each: Candidate, cues: Cues) -> bool:
    """Whether a name of one word is more likely a word of the question."""
    word = found.text[each.start : each.end]
    if each.words > 1 or each.kind == "output" or (found.what == "care_unit" and each.said == "exact"):
        return False
    inside = any(start <= each.start and each.end <= end and end - start > len(word) for start, end in cues.places)
    return word in glue() or (word in cue_words() and inside)


def _leftover(sentence: Sentence, cues: Cues, names: list[Candidate]) -> list[Word]:
    taken = [*cues.places, *((each.start, each.end) for each in names)]
    text = sentence.open
    for start, end in sentence.named:
        # What is hidden as a name counts as explained only if the name was chosen.
        text = text[:start] + sentence.text[start:end] + text[end:]
    return [
        word
        for word in words(text)
        if not any(start <= word.start and word.end <= end for start, end in taken)
        and word.text not in glue()
        and not (names and word.text in _HARMLESS)
        and len(word.text) > 1
    ]
