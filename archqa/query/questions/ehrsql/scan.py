"""One pass over a question: names, numbers, times, visits, ordinals and cue words.

Every step masks the words it explains. The weights of cue words and names decide the subject.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

from archqa.errors import NotUnderstood
from archqa.query.model import Query, RowKind, ValueTest
from archqa.query.questions.calendar import FoundSpan
from archqa.query.questions.ehrsql import limits
from archqa.query.questions.ehrsql.limits import (
    FoundPosition,
    FoundVisit,
    find_positions,
    find_visits,
)
from archqa.query.questions.ehrsql.names import Candidate, NameKind, non_overlapping
from archqa.query.questions.ehrsql.text import (
    MASK,
    LexiconMatches,
    MaskedText,
    QuestionContext,
    lexicon_words,
    stop_words,
)
from archqa.query.questions.lexer import Token, letters_and_numbers
from archqa.query.scope import When
from archqa.terminology.cues import names_by_code
from archqa.terminology.words import word_list

NUMERIC_AGGREGATIONS = ("minimum", "maximum", "average", "sum")
_UNIT_OF_ABBREVIATION = {"min": "minute", "hr": "hour"}


@dataclass
class ParseState:
    """All that was recognised in a question."""

    text: str
    what: "Subject"
    lexicon_matches: LexiconMatches
    context: QuestionContext
    is_yes_no: bool
    names: tuple[str, ...] = ()
    specimens: tuple[str, ...] = ()
    organisms: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    admission_sources: tuple[str, ...] = ()
    value_test: ValueTest | None = None
    visits: list[FoundVisit] = field(default_factory=list)
    spans: list[FoundSpan] = field(default_factory=list)
    positions: list[FoundPosition] = field(default_factory=list)

    def mentions(self, slot: str, value: str, min_weight: float = 0.1) -> bool:
        """Whether the cues for a value have enough weight."""
        return self.lexicon_matches.weight(slot, value) >= min_weight

    def contains_words(self, pattern: str) -> bool:
        """Whether the words of a pattern occur."""
        return re.search(rf"\b(?:{pattern})\b", self.text) is not None

    @property
    def numeric_aggregation(self) -> Any:
        """A minimum, maximum, average or sum, if one is requested."""
        return self.lexicon_matches.best("summary", NUMERIC_AGGREGATIONS, 3)

    @property
    def when(self) -> When:
        """The visit, the spans and the position."""
        visits = [found_visit.visit for found_visit in self.visits]
        spans = [span for found_span in self.spans for span in found_span.spans]
        positions = [found_position.position for found_position in self.positions]
        return When(
            visit=next(iter(visits), None),
            spans=tuple(spans),
            position=next(iter(positions), None),
        )

    def requested_unit(self, returns: str) -> str | None:
        """The unit in which a length of time is requested."""
        if returns not in {"elapsed", "length_of_stay"}:
            return None
        match = re.search(r"\b(minute|min|hour|hr|day|week|month|year)s?\b", self.text)
        if match is None:
            return "day"
        unit = match[1]
        return _UNIT_OF_ABBREVIATION.get(unit, unit)

    def make_query(self, **fields: Any) -> Query:
        """A query with the limits of its rows. Raises ValueError if the parts contradict."""
        what = fields.setdefault("what", self.what)
        if self.value_test is not None:
            fields["value"] = self.value_test
        return Query(now=self.context.now, **{**self._limits(what), **fields})

    def _limits(self, what: str) -> dict[str, Any]:
        if what in {"icu_stay", "patient"}:
            return {}
        if what == "hospital_visit":
            return {"admission_sources": self.admission_sources}
        if what == "medication":
            return {"names": self.names, "routes": self.routes}
        if what in {"microbiology_test", "organism", "susceptibility"}:
            limits: dict[str, Any] = {
                "names": self.names,
                "specimens": self.specimens,
                "organisms": self.organisms,
            }
            asks_organism = self.mentions("returns", "organism", 4) or bool(
                self.organisms
            )
            if what == "susceptibility":
                result = self.lexicon_matches.best("result")
                if result is not None:
                    limits["results"] = (result,)
            elif what == "microbiology_test" and asks_organism:
                limits["grew"] = True
            return limits
        return {"names": self.names}


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
"""The kind of names that the rows of a question have."""

_THROUGH = re.compile(r"\b(?:via|through|from|by|as) (?:the |an? )?['\"]?$")
_UNIT_WORD = re.compile(r"\bcare ?units?\b|\bwards?\b|\btransferred\b|\bfloor\b")
_ORDINAL = re.compile(
    r"^(?:first|last|second|third|daily|monthly|yearly|current|initial|final|total)\b"
)
# Words that qualify a value without changing which one is meant.
_QUALIFIERS = word_list("qualifier")


_ADVERB = re.compile(
    r"(?P<before>.{0,12})\b(?:for |on |at )?(?:the |their |his |her )?(?:very )?"
    r"(?:first|last|second|third|final|initial|latest|most recent) (?:time|occasion)\b"
)
_ASKED = re.compile(
    r"(?:^|[:;.]|\b(?:what|what's|whats|which|is|was|were|me|find|show|give|get|provide|report|"
    r"know|of)) ?(?:the )?$"
)
_INTERVAL = re.compile(
    r"\b(?:time|days?|hours?|weeks?|interval|gap|long) (?:\w+ )?between\b"
)


class ParseResult(NamedTuple):
    """The parse state, the names it uses, and the words that nothing explains."""

    state: ParseState
    candidates: list[Candidate]
    unresolved: list[Token]


def parse_question(
    text: str, context: QuestionContext, candidates: list[Candidate]
) -> ParseResult:
    """Parse a normalized question. Raises `NotUnderstood` if it has no recognisable subject."""
    question = MaskedText(text)
    _mask_names(question, candidates)
    value_test = limits.find_value_test(question)
    spans = limits.find_spans(question)
    visits = find_visits(question)
    question_without_routes = question.copy()
    routes = limits.find_routes(question_without_routes)
    cues = LexiconMatches(_without_adverbs(question.masked))
    candidates = [
        candidate for candidate in candidates if not _is_masked(question, candidate)
    ]
    _refuse_unsupported(text, cues)
    what = classify_subject(
        cues,
        candidates,
        visits,
        row_kind=context.row_kind,
        has_route=bool(routes),
    )
    if what is None:
        raise NotUnderstood(
            text, "does not say what it is about: a lab, a drug, a visit …"
        )
    if what == "medication":
        question = question_without_routes
    positions = find_positions(question)
    if cues.weight("what", "icu_stay"):
        # "The last stay" in a question about the ICU is the last ICU stay.
        visits = [
            visit if visit.is_explicit else visit.as_icu_stay() for visit in visits
        ]
    state = ParseState(
        text=text,
        what=what,
        lexicon_matches=cues,
        context=context,
        is_yes_no=asks_yes_or_no(cues, text, is_ordered=bool(positions)),
        routes=routes if what == "medication" else (),
        value_test=value_test,
        visits=visits,
        spans=spans,
        positions=positions,
    )
    names = _choose_names(state, candidates)
    return ParseResult(state, names, _unresolved_tokens(question, cues, names))


def _refuse_unsupported(text: str, cues: LexiconMatches) -> None:
    """Refuse what no query can express: the time between two events, or the range of values."""
    interval = _INTERVAL.search(text)
    if interval:
        raise NotUnderstood(
            interval.group(),
            "asks for the time between two things, which a query cannot say",
        )
    asks_minimum = cues.weight("summary", "minimum") >= 4
    asks_maximum = cues.weight("summary", "maximum") >= 4
    if asks_minimum and asks_maximum:
        raise NotUnderstood(text, "asks for the lowest and the highest in one")


def _without_adverbs(text: str) -> str:
    """ "For the last time" does not ask for a time; "what was the last time" does."""

    def mask_adverb(match: re.Match[str]) -> str:
        text_before = text[: match.end("before")]
        is_introduction = (
            text[match.end() :].startswith(",") and not text_before.strip()
        )
        is_asked = _ASKED.search(text_before.rstrip()) or _ASKED.search(text_before)
        if is_asked and not is_introduction:
            return match.group()
        before = match["before"]
        adverb_length = len(match.group()) - len(before)
        return before + MASK * adverb_length

    return _ADVERB.sub(mask_adverb, text)


def _mask_names(question: MaskedText, candidates: Iterable[Candidate]) -> None:
    """Mask names of several words, so that no number or cue word is found within them."""
    for candidate in candidates:
        if _is_maskable(question.text, candidate):
            question.mask(candidate.start, candidate.end)
            question.name_spans.append((candidate.start, candidate.end))


def _is_maskable(text: str, candidate: Candidate) -> bool:
    phrase = text[candidate.start : candidate.end]
    if candidate.word_count == 1 and not any(map(str.isdecimal, phrase)):
        return False
    if candidate.kind == "route":
        return False
    if candidate.kind == "admission_source" and not _THROUGH.search(
        text[: candidate.start]
    ):
        return False
    is_emergency = candidate.kind == "care_unit" and "Emergency" in candidate.names[0]
    if is_emergency and not _UNIT_WORD.search(text):
        return False
    is_quoted = text[max(0, candidate.start - 1) : candidate.start] in {"'", '"'}
    return is_quoted or not _ORDINAL.match(phrase)


def _is_masked(question: MaskedText, candidate: Candidate) -> bool:
    """Whether a date, number or visit uses the words of a name."""
    if any(candidate.lies_within(start, end) for start, end in question.name_spans):
        return False
    return MASK in question.masked[candidate.start : candidate.end]


def _choose_names(state: ParseState, candidates: list[Candidate]) -> list[Candidate]:
    """Choose the names that the query uses, and store them in the state."""
    plausible = [
        candidate for candidate in candidates if not _is_plain_word(state, candidate)
    ]
    if state.what == "hospital_visit":
        sources = non_overlapping(plausible, "admission_source")
        state.admission_sources = _record_names(sources)
        return sources
    kind = NAME_KINDS.get(state.what)
    names = non_overlapping(plausible, kind) if kind else []
    if state.what in {"microbiology_test", "susceptibility"}:
        return _choose_microbiology_names(state, plausible, names)
    if state.what == "care_unit" and not names:
        names = non_overlapping(candidates, "care_unit")
    state.names = _record_names(names)
    return names


def _choose_microbiology_names(
    state: ParseState, candidates: list[Candidate], tests: list[Candidate]
) -> list[Candidate]:
    """Prefer a specimen to a test of the same words, and both of them to an organism."""
    specimens = non_overlapping(candidates, "specimen")
    tests = [test for test in tests if not _is_specimen(test, specimens)]
    specimens = [specimen for specimen in specimens if not specimen.overlaps_any(tests)]
    organisms = []
    for organism in non_overlapping(candidates, "organism"):
        if not organism.overlaps_any([*tests, *specimens]):
            organisms.append(organism)
    state.names = _record_names(tests)
    state.specimens = _record_names(specimens)
    state.organisms = _record_names(organisms)
    return [*tests, *specimens, *organisms]


def _is_specimen(test: Candidate, specimens: list[Candidate]) -> bool:
    overlapping = [specimen for specimen in specimens if specimen.overlaps(test)]
    return any(specimen.word_count >= test.word_count for specimen in overlapping)


def _record_names(candidates: Iterable[Candidate]) -> tuple[str, ...]:
    names: list[str] = []
    for candidate in candidates:
        names += candidate.names
    return tuple(dict.fromkeys(names))


def _is_plain_word(state: ParseState, candidate: Candidate) -> bool:
    """Whether a name of one word is more likely a plain word of the question."""
    if candidate.word_count > 1 or candidate.kind == "output":
        return False
    if state.what == "care_unit" and candidate.match_type == "exact":
        return False
    word = state.text[candidate.start : candidate.end]
    if word in stop_words():
        return True
    if word not in lexicon_words():
        return False
    for start, end in state.lexicon_matches.matched_spans:
        is_longer = end - start > len(word)
        if is_longer and candidate.lies_within(start, end):
            return True
    return False


def _unresolved_tokens(
    question: MaskedText, cues: LexiconMatches, names: list[Candidate]
) -> list[Token]:
    explained_spans = list(cues.matched_spans)
    for name in names:
        explained_spans.append((name.start, name.end))
    text = question.masked
    for start, end in question.name_spans:
        # A masked name is explained only if it was chosen.
        text = text[:start] + question.text[start:end] + text[end:]
    unresolved = []
    for token in letters_and_numbers(text):
        if len(token.text) == 1 or token.text in stop_words():
            continue
        if names and token.text in _QUALIFIERS:
            continue
        if not any(
            start <= token.start and token.end <= end for start, end in explained_spans
        ):
            unresolved.append(token)
    return unresolved


Subject = RowKind | Literal["emergency"]

# A name of this kind is evidence for these rows.
_SUBJECT_OF = names_by_code("subject of a name")
# Their names are everyday words ("urine", "medicine"): without a cue word they say little.
_NEEDS_CUE = frozenset(
    {"microbiology_test", "care_unit", "output", "susceptibility", "hospital_visit"}
)
_MIN_SCORE = 1.5
_STAYS: tuple[Subject, ...] = ("hospital_visit", "icu_stay", "emergency")


def classify_subject(
    cues: LexiconMatches,
    candidates: list[Candidate],
    visits: list[FoundVisit],
    *,
    row_kind: str | None,
    has_route: bool,
) -> Subject | None:
    """The kind of rows that is asked about; None if nothing in the question says."""
    weights = cues.weights("what")
    name_scores = _name_scores(candidates, weights)
    scores = dict(weights)
    for rows, name_score in name_scores.items():
        scores[rows] = scores.get(rows, 0.0) + name_score
    if row_kind:
        scores[row_kind] = scores.get(row_kind, 0.0) + 3
    if has_route:
        scores["medication"] = scores.get("medication", 0.0) + 1.5
    if weights.get("susceptibility", 0.0) < 5:
        scores.pop("susceptibility", None)
    _adjust_stay_scores(scores, weights, visits)
    subject = max(scores, key=scores.__getitem__, default=None)
    if subject is None or scores[subject] < _MIN_SCORE:
        return None
    return cast("Subject", subject)


def _name_scores(
    candidates: list[Candidate], weights: dict[str, float]
) -> dict[str, float]:
    scores: dict[str, float] = {}
    for candidate in candidates:
        rows = _SUBJECT_OF[candidate.kind]
        score = candidate.weight
        needs_cue = rows in _NEEDS_CUE and not _is_clear(candidate, candidates)
        if needs_cue and weights.get(rows, 0.0) < 2.5:
            score = score / 2
        score += _adjustment(candidate, candidates)
        scores[rows] = max(scores.get(rows, 0.0), score)
    return scores


def _adjustment(candidate: Candidate, candidates: list[Candidate]) -> float:
    """Charted items share names with labs: the exact name means the lab, a synonym the vital."""
    if any(_is_part_of(candidate, longer) for longer in candidates):
        return -1.5
    if candidate.kind == "vital":
        if candidate.match_type == "synonym":
            return 1.0
        return 0.0
    if candidate.kind != "lab":
        return 0.0
    for rival in candidates:
        is_exact_vital = rival.kind == "vital" and rival.match_type == "exact"
        if is_exact_vital and rival.start == candidate.start:
            if candidate.match_type == "exact":
                return 1.0
            return 1.5
    return 0.0


def _is_part_of(candidate: Candidate, longer: Candidate) -> bool:
    has_more_words = longer.word_count > candidate.word_count
    return has_more_words and candidate.lies_within(longer.start, longer.end)


def _is_clear(candidate: Candidate, candidates: list[Candidate]) -> bool:
    """Whether a name that usually needs a cue word is clear without: "foley", "MICU"."""
    has_several_words = candidate.word_count > 1
    if candidate.kind == "care_unit":
        is_specific = has_several_words or candidate.match_type == "synonym"
        return is_specific and "Emergency" not in candidate.names[0]
    if candidate.kind == "admission_source":
        return has_several_words
    if candidate.kind in {"specimen", "microbiology_test"}:
        return has_several_words and candidate.has_culture_word
    of_other_kinds = [rival for rival in candidates if rival.kind != candidate.kind]
    return candidate.kind == "output" and not candidate.overlaps_any(of_other_kinds)


def _adjust_stay_scores(
    scores: dict[str, float], weights: dict[str, float], visits: list[FoundVisit]
) -> None:
    non_stay_scores = [score for rows, score in scores.items() if rows not in _STAYS]
    best_non_stay = max(non_stay_scores, default=0.0)
    for stay in ("hospital_visit", "icu_stay"):
        # "Potassium when he was admitted" asks for a potassium.
        if best_non_stay >= 3.5 and stay in scores:
            scores[stay] *= 0.6
    if best_non_stay < 2.5:
        visit_kinds = {found_visit.visit.kind for found_visit in visits}
        if "icu" in visit_kinds:
            scores["icu_stay"] = scores.get("icu_stay", 0.0) + 2.5
        if "hospital" in visit_kinds:
            scores["hospital_visit"] = scores.get("hospital_visit", 0.0) + 2.0
    if (
        "icu_stay" in scores
        and "hospital_visit" in scores
        and weights.get("icu_stay", 0.0) > 0
    ):
        scores["icu_stay"] += 1.0
    if weights.get("emergency", 0.0) and scores.get("hospital_visit", 0.0):
        scores["emergency"] += 1.0


_FACTS = (
    "dose",
    "name",
    "route",
    "specimen",
    "length_of_stay",
    "elapsed",
    "admission_type",
    "admission_source",
    "value_of",
)
_ASKS = re.compile(
    r"\b(?:what|what's|whats|which|when|when's|how|where|who|list|show|give|provide|count|calculate|retrieve|name|report|"
    r"tell|know|inform|confirm|let|display|find|get|enumerate|return|fetch|pull|compute|gather|present|identify|determine)\b"
)


_CONDITIONAL = re.compile(
    r"\b(?:whether|if)\b(?! multiple| there are multiple| more than| several| any)"
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|did|does|do|been|received|prescribed|undergone|underwent|"
    r"got|given|visited|diagnosed|done|checked|drawn|sent|performed|ordered|tested|administered|"
    r"started|admitted|hospitali[sz]ed|seen|ever|any)\b"
)


def asks_yes_or_no(cues: LexiconMatches, text: str, *, is_ordered: bool) -> bool:
    """Whether the answer is yes or no: an auxiliary verb or "whether" precedes question words."""
    main_clause = text.split("whether")[0].split(" if ")[0]
    is_open_question = re.search(r"\b(?:what|which|when|how)\b", main_clause)
    if _CONDITIONAL.search(text) and not is_open_question:
        return True
    question_word = _ASKS.search(text)
    auxiliary_offset = cues.first_offsets.get(("summary", "exists"))
    weight = cues.weight("summary", "exists")
    # Whether a value, a time or a fact is requested:
    if is_ordered or cues.weight("returns", "time") >= 2:
        asks_value = True
    else:
        aggregation = cues.best("summary", ("minimum", "maximum", "average", "sum"), 4)
        asks_value = bool(
            aggregation or cues.best("per") or cues.best("returns", _FACTS, 3)
        )
    if auxiliary_offset is None or (weight < 4 and asks_value):
        is_statement = _VERB.search(text) is not None
        return question_word is None and not asks_value and is_statement
    return question_word is None or auxiliary_offset < question_word.start()
