"""Span extraction: the neighbouring segments of a sentence that share most with the question.

A segment is the text between two commas or semicolons. A span is used only where it is complete by
itself: it has the subject of its predicate, and the rest of the sentence has no negation, doubt,
contrast or condition that the span would lose.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from archqa.terminology.topics import topics_of
from archqa.terminology.words import stems

MAX_WORDS = (16, 11, 7)
"""Word limits, longest first: the best span within each is returned."""
MIN_WORDS = 3
MAX_SEGMENTS = 16
"""Segments of a span: more could not fit the longest limit."""
MAX_COUNTED_NUMBERS = 3
REASON_SCORE, NORMAL_FINDING_SCORE = 1.5, -2.0
_SEGMENT_BREAK = re.compile(
    r"\s*[,;]\s+(?!(?:(?<=\d,\s)|(?<=\d\s,\s))\d{3}\b)(?:and\s+)?"
    r"(?!\d+(?:\.\d+)?,?\s+(?:and|or|to)\b)"
)
"""Between segments, but not within `at 4, 8 and 12 months` or a number written `38, 000`."""
_SCOPE_WORD = re.compile(
    r"\b(?:no|not|none|nor|never|neither|without|denie[sd]|deny|negative|absent|unlikely|"
    r"less likely|ruled? out|r/o|"
    r"free of|if|unless|until|once|or|versus|vs|but|although|though|however|while|despite|instead|"
    r"rather|except|only|"
    r"either|possib\w+|probab\w+|likely|may|might|could|would|should|suspect\w*|suggest\w*|"
    r"appear\w*|questionable|"
    r"concern\w*|felt|thought|judged|believed|consider\w*|history|h/o|father|mother|brother|sister|"
    r"family|"
    r"attempt\w*|refus\w*|hold|held|stop\w*|discontinu\w*|avoid\w*|declin\w*|cannot|unable|"
    r"un\w+ed)\b|n't\b|\?",
    re.IGNORECASE,
)
"""Words whose scope is the whole sentence: without them, a span would mean something else."""
_DANGLING = re.compile(
    r"^(?:and|or|but|vs|versus|if|unless|although|though|until|since|once|which|who|whom|that|where|when|"
    r"while|then|to|of|in|on|"
    r"at|by|from|for|as|than|with|without|after|because|due|per|incl\w*|given|already|also|still|"
    r"so|plus|may|might|can|"
    r"will|would|should|must|has|had|have|does|did|is|are|his|her|its|\w+ing)\b"
    r"|\b(?:and|or|the|a|an|of|to|in|on|at|by|for|with|was|were|is|are|his|her|any|not|\w+ly)[.]?$",
    re.IGNORECASE,
)
_PREDICATE = re.compile(
    r"^(?:already|also|still|again|then|later|may|might|can|will|would|should|must|has|had|have|"
    r"does|did|is|are|was|"
    r"were|show(?:s|ed)?|reveal(?:s|ed)?|demonstrate[sd]?|grew|remain(?:s|ed)?|became|"
    r"consistent with|c/w|"
    r"compatible with|concerning for|considered|recogni[sz]ed|felt|judged|thought|regarded|"
    r"attributed|presumed)\b",
    re.IGNORECASE,
)
"""The start of a segment whose subject is an earlier segment: neither is complete alone."""
_CARRIER = re.compile(
    r"^(?:(?:the\s+)?(?:patient|pt)|he|she|it)\s+(?:was|is|were|are)\s+(?=\w)(?!to\b)",
    re.IGNORECASE,
)
_VERB = re.compile(r"\b(?:was|were|is|are|has|had|have|did|will)\b", re.IGNORECASE)
_STATEMENT = re.compile(
    r"\d|->|\b(?:was|were|is|are|has|had|have|did|will|due to|\w{3,}ed)\b", re.IGNORECASE
)
"""What a later segment must have; else it may be the end of a list (`fatigue, nausea, fever`)."""
_HEADING = re.compile(r"^[A-Z][\w/ -]{0,24}:\s")
_NORMAL = re.compile(
    r"\b(?:no|not|negative|normal|absent|without|unremarkable|stable)\b", re.IGNORECASE
)
_LIST_PREDICATE = re.compile(
    r"\b(?:unremarkable|normal|wnl|neg(?:ative)?|pos(?:itive)?|elevated|intact|stable)$",
    re.IGNORECASE,
)
"""The end of a list whose items it describes all (`ANCA, anti-GBM, SPEP unremarkable`)."""
_VALUE_OR_VERB = re.compile(r"(?<!\S)[<>~]?\d|\b(?:was|were|is|are|has|had|have|\w{3,}ed)\b")
_REASON = re.compile(
    r"\b(?:because|due to|caused?|given|since|so|therefore|2/2|from)\b|->", re.IGNORECASE
)


_DIGIT = re.compile(r"\d")


class Segment(NamedTuple):
    """A part of a sentence, from `start` to `end`.

    `terms` are its concepts and the terms it shares with the question; `has_scope_word` whether it
    has a word whose scope is the whole sentence.
    """

    start: int
    end: int
    text: str
    terms: frozenset[str]
    has_scope_word: bool
    score: float


class Span(NamedTuple):
    """A run of segments that is complete by itself."""

    score: float
    text: str

    @property
    def word_count(self) -> int:
        """Words as the scorer counts them."""
        return len(self.text.split())


def extract_spans(text: str, question_terms: frozenset[str]) -> Iterator[str]:
    """Yield the best span within each of `MAX_WORDS`; nothing where no span is complete."""
    heading_match = _HEADING.match(text)
    heading = heading_match[0] if heading_match else ""
    body = text[len(heading) :]
    spans = list(_complete_spans(body.rstrip(". "), question_terms))
    for max_words in MAX_WORDS:
        fitting = [span for span in spans if span.word_count <= max_words]
        if not fitting:
            continue
        best = max(fitting, key=lambda span: (span.score, -span.word_count, span.text))
        text_before = body[: body.index(best.text)]
        applicable_heading = "" if ";" in text_before else heading
        yield applicable_heading + _drop_carrier(best.text)


def _complete_spans(body: str, question_terms: frozenset[str]) -> Iterator[Span]:
    """Yield every span that is complete, shorter than the sentence and of positive score."""
    segments = _segments(body, question_terms)
    last_predicate = _last_predicate(segments)
    scope_words = _count_scope_words(segments)
    for start in range(len(segments)):
        is_opening = start == 0
        max_end = min(start + MAX_SEGMENTS, len(segments))
        for end in range(start + 1, max_end + 1):
            run = segments[start:end]
            is_whole_sentence = len(run) == len(segments)
            loses_scope = _count_scope_words(run) < scope_words
            has_its_subject = start > last_predicate or (is_opening and end > last_predicate)
            if is_whole_sentence or loses_scope or not has_its_subject:
                continue
            if _loses_predicate(run[-1], segments[end:]):
                continue
            text = body[run[0].start : run[-1].end]
            score = _score(run, question_terms)
            if score > 0 and _is_complete(text, is_opening=is_opening):
                yield Span(score, text)


def scope_words(text: str) -> frozenset[str]:
    """Return the words of the text whose scope is all of it: negation, doubt, contrast, condition."""
    return frozenset(match[0].lower() for match in _SCOPE_WORD.finditer(text))


def _count_scope_words(segments: list[Segment]) -> int:
    return sum(segment.has_scope_word for segment in segments)


def _loses_predicate(last: Segment, rest: list[Segment]) -> bool:
    """Whether the run ends with an item of a list that a later item describes."""
    if not rest or _VALUE_OR_VERB.search(last.text):
        return False
    return _LIST_PREDICATE.search(rest[0].text) is not None


def _last_predicate(segments: list[Segment]) -> int:
    """Return the index of the last segment whose subject is an earlier segment, or -1."""
    last = -1
    for index, segment in enumerate(segments):
        if _PREDICATE.match(segment.text):
            last = index
    return last


def _score(run: list[Segment], question_terms: frozenset[str]) -> float:
    terms: set[str] = set()
    segment_scores = 0.0
    for segment in run:
        terms |= segment.terms
        segment_scores += segment.score
    return segment_scores + len(terms) + len(terms & question_terms)


def _segments(body: str, question_terms: frozenset[str]) -> list[Segment]:
    segments = []
    start = 0
    for segment_break in _SEGMENT_BREAK.finditer(body):
        if start < segment_break.start():
            segments.append(_segment(body, start, segment_break.start(), question_terms))
        start = segment_break.end()
    if start < len(body):
        segments.append(_segment(body, start, len(body), question_terms))
    return segments


def _segment(body: str, start: int, end: int, question_terms: frozenset[str]) -> Segment:
    """Score numbers and reasons; a normal finding loses unless the question asks about it."""
    text = body[start:end]
    terms = topics_of(text) | (question_terms & frozenset(stems(text)))
    numbers = sum(1 for word in text.split() if _DIGIT.search(word))
    score = float(min(numbers, MAX_COUNTED_NUMBERS))
    if _REASON.search(text):
        score += REASON_SCORE
    if _NORMAL.search(text) and not terms & question_terms:
        score += NORMAL_FINDING_SCORE
    return Segment(
        start=start,
        end=end,
        text=text,
        terms=terms,
        has_scope_word=_SCOPE_WORD.search(text) is not None,
        score=score,
    )


def _is_complete(text: str, *, is_opening: bool) -> bool:
    """Whether the text is long enough, has no loose ends and makes a statement.

    The opening of a sentence counts as a statement.
    """
    if len(text.split()) < MIN_WORDS or _DANGLING.search(text):
        return False
    return is_opening or _STATEMENT.search(text) is not None


def _drop_carrier(text: str) -> str:
    """Drop an opening such as `she was`, unless a verb of another clause depends on it."""
    shorter = _CARRIER.sub("", text)
    if _VERB.search(shorter) or len(shorter.split()) < MIN_WORDS:
        return text
    return shorter
