"""Sentence compression: clauses, asides and long-winded forms are dropped, numbers last of all.

The shortest variants are spans of the sentence (span_extraction.py), and variants without articles.
No variant has a part of a number.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from archqa.core.case import Sentence
from archqa.core.tables import TableRow, read_rows
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


_LIST_MARKER = re.compile(
    r"^\s*(?:[•*#]+|-(?!\d))*\s*(?:PROBLEM\b\s*)?(?:#?\s*\d{0,3}\s*[:.)](?!\d))?\s*",
    re.IGNORECASE,
)
"""Bullets and list numbers; not the start of a value (`1.5 mg`, `12:30`, `-2 L`)."""
_BRACKET = re.compile(r"\s*[(\[][^()\[\]]*[)\]](?!\w|\.\d)")
_SEMICOLON = re.compile(r"\s*;\s+")
_SUBJECT = r"(?:he|she|it|they|the|this|his|her|there|was|were|has|had|will|is)"
_CLAUSE_BOUNDARY = re.compile(rf",\s+(?=(?:and|so)\s+{_SUBJECT}\b)")
"""Between independent clauses; never before but, although or while, to keep contrasts whole."""
_REFERENCE_TO_CLAUSE_BEFORE = re.compile(
    r"^(?:and|so)\s+(?:it|they|this|was|were|has|had|will|is)\b", re.IGNORECASE
)
"""The start of a clause whose subject is the clause before, or in it."""
_TRAILING_CLAUSE = re.compile(
    r",\s+(?:which|who|whom|where|with|without|including|as well as|along with|in addition to|"
    r"status post|after|"
    r"per)\b[^,;]*$",
    re.IGNORECASE,
)
_CONTRAST = re.compile(
    r"\b(?:but|however|although|though|not everyone|only|unless|if|until|once)\b", re.IGNORECASE
)
_CONNECTIVE = re.compile(
    r"^(?:(?:and|so|next|then|also|however|therefore|in addition|additionally|furthermore|"
    r"moreover),?\s+)"
    r"(?=(?:the|he|she|they|it|his|her|we|i|a|an|there|this)\b)",
    re.IGNORECASE,
)
"""An opening that refers to the sentence before: a line of an answer stands by itself."""
_LABEL = re.compile(
    r"^(?:(?:brief )?hospital course|history of present illness|hpi|assessment|impression):\s+",
    re.I,
)
_ARTICLE = re.compile(
    r"(?:(?<![\w-])(?:the|an?)|^(?:The|An?))\s+(?=[a-z\d(])"
    r"(?!(?:few|little|lot|couple|bit|number|while|dozen|half|third|quarter|"
    r"minute|hour|day|night|week|month|year|and|or|fib|flutter|line)\b)"
)
"""An article; not in `a few`, `an hour`, `a fib` (atrial fibrillation) or `influenza a or b`."""
_LOWER_CASE_WORD = re.compile(r"^[a-z]+\b")
_NEGATIVE_NUMBER = re.compile(r"-\d")
MIN_CLAUSE_WORDS = 5
"""Words of the shortest clause that may replace its sentence: shorter ones depend on the rest."""
MIN_REST_WORDS = 4
"""Words that must be left when an opener or a trailing clause is dropped."""


class SentenceVariant(NamedTuple):
    """A shorter form of a sentence; `content_kept` is the share of its content that is left."""

    text: str
    content_kept: float

    @property
    def word_count(self) -> int:
        """Words as the scorer counts them."""
        return len(self.text.split())


def sentence_variants(
    sentence: Sentence, question_terms: frozenset[str] = frozenset()
) -> tuple[SentenceVariant, ...]:
    """Return variants from full to shortest, each shorter than the last; none without a word.

    Of variants of the same length, the one that keeps most content is returned. `question_terms`
    are stems and concepts of the question: the clause that shares most of them is preferred.
    """
    full_text = _clean(sentence.text)
    if not any(character.isalnum() for character in full_text):
        return ()
    full_content = max(_content(punctuate(full_text), question_terms), 1.0)
    variants: list[SentenceVariant] = []
    for text in _shortened_texts(full_text, question_terms):
        content_kept = _content(text, question_terms) / full_content
        variants.append(SentenceVariant(text, content_kept))
    return _best_of_each_length(variants)


def _best_of_each_length(variants: list[SentenceVariant]) -> tuple[SentenceVariant, ...]:
    """Return the first variant, then the best of each smaller number of words, longest first."""
    best = {variants[0].word_count: variants[0]}
    for variant in variants[1:]:
        rival = best.get(variant.word_count)
        if variant.word_count < variants[0].word_count and (
            rival is None or variant.content_kept > rival.content_kept
        ):
            best[variant.word_count] = variant
    return tuple(best[word_count] for word_count in sorted(best, reverse=True))


def _shortened_texts(full_text: str, question_terms: frozenset[str]) -> list[str]:
    """Return the full text, its compressions, and each of them without articles."""
    texts = [punctuate(text) for text in _compressions(full_text, question_terms)]
    return texts + [punctuate(_ARTICLE.sub("", text)) for text in texts]


def _compressions(text: str, question_terms: frozenset[str]) -> Iterator[str]:
    """Yield the text as more and more of it is dropped."""
    yield text
    text = _replace_long_forms(text)
    yield text
    for drop in (
        _drop_opener,
        _drop_brackets_without_numbers,
        _drop_trailing_clause,
        _drop_brackets,
    ):
        text = drop(text)
        yield text
    text = _drop_opener(_best_clause(text, question_terms))
    yield text
    yield from extract_spans(text, question_terms)


def punctuate(text: str) -> str:
    """Capitalise the first word (unless it is like iCa) and end with one full stop."""
    text = text.lstrip(" ,;:").rstrip(" ,;:-")
    if not _NEGATIVE_NUMBER.match(text):
        text = text.lstrip(" -")
    if _LOWER_CASE_WORD.match(text):
        text = text[:1].upper() + text[1:]
    if text.endswith((".", "!", "?")):
        return text
    return f"{text}."


def _clean(text: str) -> str:
    """Drop list numbers, section labels and connectives; a bar would end the citation."""
    one_line = " ".join(text.replace("|", "/").split())
    without_marker = _LIST_MARKER.sub("", one_line)
    without_label = _LABEL.sub("", without_marker)
    return _CONNECTIVE.sub("", without_label)


def _replace_long_forms(text: str) -> str:
    for long_form, short_form in _short_forms():
        text = long_form.sub(short_form, text)
    return " ".join(text.split())


def _drop_opener(text: str) -> str:
    head, comma, rest = text.partition(", ")
    if not comma or len(rest.split()) < MIN_REST_WORDS or _DIGIT.search(head):
        return text
    for opener in _openers():
        if opener.fullmatch(head):
            return rest
    return text


def _drop_brackets_without_numbers(text: str) -> str:
    def replacement(bracket: re.Match[str]) -> str:
        return bracket[0] if _DIGIT.search(bracket[0]) else ""

    return _BRACKET.sub(replacement, text)


def _drop_brackets(text: str) -> str:
    return _BRACKET.sub("", text)


def _drop_trailing_clause(text: str) -> str:
    shorter = _TRAILING_CLAUSE.sub("", text.rstrip(". "))
    if len(shorter.split()) < MIN_REST_WORDS:
        return text
    return shorter


def _best_clause(text: str, question_terms: frozenset[str]) -> str:
    """Return the independent clause with most content, the later of equals, or the whole text.

    The text stays whole where another clause contrasts with the best or limits it, and where a
    clause refers to the one before.
    """
    clauses: list[str] = []
    for part in _SEMICOLON.split(text):
        clauses += _CLAUSE_BOUNDARY.split(part)
    independent = [clause for clause in clauses if len(clause.split()) >= MIN_CLAUSE_WORDS]
    refers_back = any(_REFERENCE_TO_CLAUSE_BEFORE.match(clause) for clause in clauses)
    if len(independent) < 2 or refers_back:
        return text
    best = max(reversed(independent), key=lambda clause: _content(clause, question_terms))
    for clause in clauses:
        if clause is not best and _CONTRAST.search(clause):
            return text
    return best


def _content(text: str, question_terms: frozenset[str]) -> float:
    """Count words, numbers twice, and (doubly) the terms of the question."""
    words = text.split()
    numbers = _count_numbers(words)
    shared_terms = question_terms & {*stems(text), *topics_of(text)}
    return len(words) + numbers + 2.0 * len(shared_terms)


def _count_numbers(words: list[str]) -> int:
    return sum(1 for word in words if _DIGIT.search(word))


@cache
def _short_forms() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(row[1], re.IGNORECASE), row[2]) for row in _rows("shorter"))


@cache
def _openers() -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(row[1], re.IGNORECASE) for row in _rows("dropped"))


def _rows(kind: str) -> list[TableRow]:
    rows = read_rows("engine/data/rewording.tsv", 3, optional=1)
    return [row for row in rows if row[0] == kind]
