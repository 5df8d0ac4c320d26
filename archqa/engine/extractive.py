"""The extractive answer: selected sentences, compressed until they fit, each with its citation.

How many words each sentence gets is a knapsack problem: a variant of a sentence is worth the square
of the sentence's probability times the share of its content that is left. A sentence without a line
of its own is cited on a line that it supports, else on a last line that states nothing
(`SEE_ALSO`): the contest counts every citation, and no line may cite what does not support it.

Compression drops clauses, asides and long-winded forms, numbers last of all; the shortest variants
are spans of the sentence. No variant has a part of a number.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from archqa.core.answer import SEE_ALSO, CitedAnswer, Claim
from archqa.core.case import Case, Sentence
from archqa.engine.question import is_worded, question_with_phrases, substitutions
from archqa.errors import CallerError
from archqa.terminology.topics import topics_of
from archqa.terminology.words import stems

MAX_WORDS = (16, 11, 7)
"""Word limits, longest first: the best span within each is returned."""
MIN_SPAN_WORDS = 3
MAX_SEGMENTS = 16
"""Segments of a span: more could not fit the longest limit."""
MAX_COUNTED_NUMBERS = 3
REASON_SCORE, NORMAL_FINDING_SCORE = 1.5, -2.0
_SEGMENT_BREAK = re.compile(
    r"(?:(?<!\s)\s++)?[,;]\s+(?!(?:(?<=\d,\s)|(?<=\d\s,\s))\d{3}\b)(?:and\s+)?"
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
_CARRIER = re.compile(
    r"^(?:(?:the\s+)?(?:patient|pt)|he|she|it)\s+(?:was|is|were|are)\s+(?=\w)(?!to\b)",
    re.IGNORECASE,
)
_HEADING = re.compile(r"^[A-Z][\w/ -]{0,24}:\s")
_VALUE_OR_VERB = re.compile(
    r"(?<!\S)[<>~]?\d|\b(?:was|were|is|are|has|had|have|\w{3,}ed)\b"
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
        # An opening such as `she was` is dropped, unless a verb of another clause depends on it.
        shorter = _CARRIER.sub("", best.text)
        is_needed = is_worded("verb", shorter) or len(shorter.split()) < MIN_SPAN_WORDS
        yield applicable_heading + (best.text if is_needed else shorter)


def _complete_spans(body: str, question_terms: frozenset[str]) -> Iterator[Span]:
    """Yield every span that is complete, shorter than the sentence and of positive score.

    It is long enough, has no loose ends and makes a statement, as the opening of a sentence does.
    """
    segments = _segments(body, question_terms)
    scope_count = sum(segment.has_scope_word for segment in segments)
    # The last segment whose subject is an earlier segment.
    last_predicate = -1
    for index, segment in enumerate(segments):
        if is_worded("predicate", segment.text):
            last_predicate = index
    for start in range(len(segments)):
        is_opening = start == 0
        max_end = min(start + MAX_SEGMENTS, len(segments))
        for end in range(start + 1, max_end + 1):
            run = segments[start:end]
            loses_scope = sum(segment.has_scope_word for segment in run) < scope_count
            has_its_subject = start > last_predicate or (
                is_opening and end > last_predicate
            )
            if len(run) == len(segments) or loses_scope or not has_its_subject:
                continue
            # A later item may describe the list that the run ends with.
            is_described = end < len(segments) and is_worded(
                "list predicate", segments[end].text
            )
            if is_described and not _VALUE_OR_VERB.search(run[-1].text):
                continue
            text = body[run[0].start : run[-1].end]
            if len(text.split()) < MIN_SPAN_WORDS or is_worded("dangling", text):
                continue
            score = _score(run, question_terms)
            if score > 0 and (is_opening or is_worded("statement", text)):
                yield Span(score, text)


def _score(run: list[Segment], question_terms: frozenset[str]) -> float:
    terms: set[str] = set()
    segment_scores = 0.0
    for segment in run:
        terms |= segment.terms
        segment_scores += segment.score
    return segment_scores + len(terms) + len(terms & question_terms)


def scope_words(text: str) -> frozenset[str]:
    """Return the words of the text whose scope is all of it: negation, doubt, contrast, condition."""
    return frozenset(match[0].lower() for match in _SCOPE_WORD.finditer(text))


def _segments(body: str, question_terms: frozenset[str]) -> list[Segment]:
    segments = []
    start = 0
    breaks = [segment_break.span() for segment_break in _SEGMENT_BREAK.finditer(body)]
    for end, next_start in (*breaks, (len(body), len(body))):
        if start < end:
            segments.append(_segment(body, start, end, question_terms))
        start = next_start
    return segments


def _segment(
    body: str, start: int, end: int, question_terms: frozenset[str]
) -> Segment:
    """Score numbers and reasons; a normal finding loses unless the question asks about it."""
    text = body[start:end]
    terms = topics_of(text) | (question_terms & frozenset(stems(text)))
    numbers = sum(1 for word in text.split() if _DIGIT.search(word))
    score = float(min(numbers, MAX_COUNTED_NUMBERS))
    if is_worded("reason", text):
        score += REASON_SCORE
    if is_worded("normal", text) and not terms & question_terms:
        score += NORMAL_FINDING_SCORE
    return Segment(
        start=start,
        end=end,
        text=text,
        terms=terms,
        has_scope_word=_SCOPE_WORD.search(text) is not None,
        score=score,
    )


_LIST_MARKER = re.compile(
    r"^\s*(?:[•*#]+|-(?!\d))*\s*(?:PROBLEM\b\s*)?(?:#?\s*\d{0,3}\s*[:.)](?!\d))?\s*",
    re.IGNORECASE,
)
"""Bullets and list numbers; not the start of a value (`1.5 mg`, `12:30`, `-2 L`)."""
_BRACKET = re.compile(r"(?:(?<!\s)\s++)?[(\[][^()\[\]]*[)\]](?!\w|\.\d)")
_SEMICOLON = re.compile(r"(?:(?<!\s)\s++)?;\s+")
_SUBJECT = r"(?:he|she|it|they|the|this|his|her|there|was|were|has|had|will|is)"
_CLAUSE_BOUNDARY = re.compile(rf",\s+(?=(?:and|so)\s+{_SUBJECT}\b)")
"""Between independent clauses; never before but, although or while, to keep contrasts whole."""
_TRAILING_CLAUSE = re.compile(
    r",\s+(?:which|who|whom|where|with|without|including|as well as|along with|in addition to|"
    r"status post|after|"
    r"per)\b[^,;]*$",
    re.IGNORECASE,
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
    full_text = " ".join(
        sentence.text.replace("|", "/").split()
    )  # A bar would end the citation.
    for pattern in (_LIST_MARKER, _LABEL, _CONNECTIVE):
        full_text = pattern.sub("", full_text)
    if not any(map(str.isalnum, full_text)):
        return ()
    full_content = max(_content(punctuate(full_text), question_terms), 1.0)
    compressions = list(_compressions(full_text, question_terms))
    without_articles = [_ARTICLE.sub("", text) for text in map(punctuate, compressions)]
    best: dict[int, SentenceVariant] = {}
    full_words = 0
    for text in map(punctuate, (*compressions, *without_articles)):
        content_kept = _content(text, question_terms) / full_content
        variant = SentenceVariant(text, content_kept)
        rival = best.get(variant.word_count)
        if not best:
            full_words = variant.word_count
            best[full_words] = variant
        elif variant.word_count < full_words and (
            rival is None or variant.content_kept > rival.content_kept
        ):
            best[variant.word_count] = variant
    return tuple(best[word_count] for word_count in sorted(best, reverse=True))


def _compressions(text: str, question_terms: frozenset[str]) -> Iterator[str]:
    """Yield the text as more and more of it is dropped."""
    yield text
    for long_form, short_form in substitutions("shorter"):
        text = long_form.sub(short_form, text)
    text = " ".join(text.split())
    yield text
    text = _drop_opener(text)
    yield text
    # Brackets without a number, then the last clause, then all brackets.
    text = _BRACKET.sub(
        lambda bracket: bracket[0] if _DIGIT.search(bracket[0]) else "", text
    )
    yield text
    shorter = _TRAILING_CLAUSE.sub("", text.rstrip(". "))
    if len(shorter.split()) >= MIN_REST_WORDS:
        text = shorter
    yield text
    text = _BRACKET.sub("", text)
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


def _drop_opener(text: str) -> str:
    head, comma, rest = text.partition(", ")
    if not comma or len(rest.split()) < MIN_REST_WORDS or _DIGIT.search(head):
        return text
    is_opener = any(opener.fullmatch(head) for opener, _ in substitutions("dropped"))
    return rest if is_opener else text


def _best_clause(text: str, question_terms: frozenset[str]) -> str:
    """Return the independent clause with most content, the later of equals, or the whole text.

    The text stays whole where another clause contrasts with the best or limits it, and where a
    clause refers to the one before.
    """
    clauses: list[str] = []
    for part in _SEMICOLON.split(text):
        clauses += _CLAUSE_BOUNDARY.split(part)
    independent = [
        clause for clause in clauses if len(clause.split()) >= MIN_CLAUSE_WORDS
    ]
    refers_back = any(is_worded("clause before", clause) for clause in clauses)
    if len(independent) < 2 or refers_back:
        return text
    best = max(
        reversed(independent), key=lambda clause: _content(clause, question_terms)
    )
    for clause in clauses:
        if clause is not best and is_worded("contrast", clause):
            return text
    return best


def _content(text: str, question_terms: frozenset[str]) -> float:
    """Count words, numbers twice, and (doubly) the terms of the question."""
    words = text.split()
    numbers = sum(1 for word in words if _DIGIT.search(word))
    shared_terms = question_terms & {*stems(text), *topics_of(text)}
    return len(words) + numbers + 2.0 * len(shared_terms)


MIN_WORDS = 10
MAX_LINES = 40
"""Sentences that compete for a line: more could never fit."""
POINTER = "The record answers this in the cited sentence."
"""The answer when even the shortest variant of every sentence is too long to quote."""
SEE_ALSO_WORDS = len(SEE_ALSO.split())
_WORD = re.compile(r"[^\W_]+(?:[.,/:-]\d+)*")


class Candidate(NamedTuple):
    """A selected sentence, its probability, and its variants from full to shortest."""

    id: str
    text: str
    relevance: float
    variants: tuple[SentenceVariant, ...]


class Line(NamedTuple):
    """A line of the answer and the id of the sentence it was made from."""

    sentence_id: str
    text: str


class Packing(NamedTuple):
    """A choice of variants, as pairs of candidate and variant index, and its total value."""

    value: float
    choices: tuple[tuple[int, int], ...]


def compose(
    case: Case,
    evidence: frozenset[str],
    relevance: dict[str, float],
    word_limit: int,
) -> CitedAnswer:
    """Compose an answer of at most `word_limit` words that cites every id of `evidence` once.

    `relevance` is the probability of every sentence by its id. Raises CallerError below 10 words.
    """
    if word_limit < MIN_WORDS:
        raise CallerError(
            f"An answer of {word_limit} words cannot be written.\nAllow at least {MIN_WORDS}."
        )
    candidates = _candidates(case, evidence, relevance)
    # The most relevant candidates that have words compete for lines, in note order.
    with_words = [candidate for candidate in candidates if candidate.variants]
    by_relevance = sorted(with_words, key=lambda candidate: -candidate.relevance)
    competing = {candidate.id for candidate in by_relevance[:MAX_LINES]}
    for_lines = [candidate for candidate in with_words if candidate.id in competing]
    lines = _pack_lines(for_lines, word_limit)
    if _uncited(lines, candidates):
        lines = _pack_lines(for_lines, word_limit - SEE_ALSO_WORDS)
    if not lines:
        ids = case.in_note_order(evidence)
        return CitedAnswer(claims=(Claim(text=POINTER, citations=ids),))
    return CitedAnswer(claims=_cite_all(lines, candidates))


def _candidates(
    case: Case,
    evidence: frozenset[str],
    relevance: dict[str, float],
) -> list[Candidate]:
    """Return the evidence in note order with its variants."""
    question = question_with_phrases(case)
    question_terms = frozenset(stems(question)) | topics_of(question)
    sentence_by_id = {sentence.id: sentence for sentence in case.sentences}
    candidates = []
    for sentence_id in case.in_note_order(evidence):
        sentence = sentence_by_id[sentence_id]
        candidate = Candidate(
            id=sentence_id,
            text=sentence.text,
            relevance=relevance[sentence_id],
            variants=sentence_variants(sentence, question_terms),
        )
        candidates.append(candidate)
    return candidates


def _pack_lines(candidates: list[Candidate], word_limit: int) -> list[Line]:
    """Choose at most one variant of every sentence within `word_limit` (0/1 knapsack, exact).

    The value weighs what surely answers over what may, and presence over completeness: the
    probability is squared so that two doubtful sentences do not displace a certain, longer one.
    """
    best = [Packing(0.0, ())] * (word_limit + 1)  # by number of words
    for index, candidate in enumerate(candidates):
        improved = list(best)
        for variant_index, variant in enumerate(candidate.variants):
            gain = (0.05 + candidate.relevance**2) * (0.8 + 0.2 * variant.content_kept)
            for words in range(variant.word_count, len(best)):
                before = best[words - variant.word_count]
                value = before.value + gain
                if value > improved[words].value + 1e-12:
                    improved[words] = Packing(
                        value, (*before.choices, (index, variant_index))
                    )
        best = improved
    lines = []
    for index, variant_index in best[word_limit].choices:
        candidate = candidates[index]
        variant = candidate.variants[variant_index]
        lines.append(Line(candidate.id, variant.text))
    return lines


def _cite_all(lines: list[Line], candidates: list[Candidate]) -> tuple[Claim, ...]:
    """Return the lines as claims in note order, with the id of every candidate on one claim."""
    citations: dict[str, list[str]] = {line.sentence_id: [] for line in lines}
    for candidate in candidates:
        if candidate.id in citations:
            citations[candidate.id].append(candidate.id)
            continue
        line = _supported_line(candidate, lines)
        if line:
            citations[line.sentence_id].append(candidate.id)
    claims = []
    for line in lines:
        claims.append(
            Claim(text=line.text, citations=tuple(citations[line.sentence_id]))
        )
    uncited = _uncited(lines, candidates)
    if uncited:
        claims.append(Claim(text=SEE_ALSO, citations=uncited))
    return tuple(claims)


def _uncited(lines: list[Line], candidates: list[Candidate]) -> tuple[str, ...]:
    """Return the ids of the candidates that have no line and support none."""
    with_line = {line.sentence_id for line in lines}
    uncited = []
    for candidate in candidates:
        if candidate.id not in with_line and not _supported_line(candidate, lines):
            uncited.append(candidate.id)
    return tuple(uncited)


def _supported_line(candidate: Candidate, lines: list[Line]) -> Line | None:
    """Return the first line that the candidate repeats, or None.

    It has every word of the line, and negates or doubts nothing more.
    """
    words = _words(candidate.text)
    scope = scope_words(candidate.text)
    for line in lines:
        if _words(line.text) <= words and scope <= scope_words(line.text):
            return line
    return None


def _words(text: str) -> frozenset[str]:
    """Return the words in lower case, numbers whole (`38,000`, `1.5`, `7/22/93`)."""
    return frozenset(_WORD.findall(text.lower()))
