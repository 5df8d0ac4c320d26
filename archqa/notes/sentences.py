"""Splitting of a pasted note into numbered sentences with character offsets.

The text of a sentence is exactly the note's; only white space between sentences is dropped. Lines
are split before sentences, since lists and headings of a note have no full stops; a line continues
on the next only where it was probably wrapped. Sentences are split by sentencex, corrected for
clinical shorthand.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sentencex import get_sentence_boundaries

from archqa.core.case import Case, Sentence
from archqa.errors import CallerError
from archqa.safety.arguments import as_text
from archqa.safety.whole_characters import whole_text

_LINE = re.compile(r"[^\r\n]+")
_BLANK_LINES = re.compile(r"(?:[ \t\f\v]*(?>\r\n|\r|\n)){2,}")
_LIST_LINE = re.compile(
    r"[ \t]*(?:[-*•–#>+o]+[ \t]|[-*•#]+(?=\w)|\(?\d{1,2}[.)][ \t]|[a-z][.)][ \t])"
)
_HEADING = re.compile(r"[ \t]*[A-Z][^.!?\n]{0,60}:[ \t]*\S?")
_FINAL_PUNCTUATION = re.compile(r"[.!?:;][\"')\]]*\s*$")
_MIN_LINE_WIDTH, _MAX_LINE_WIDTH = 40, 132
"""Widths at which editors wrap lines; longer lines were never wrapped."""

_WRAPPED_FRACTION = 0.7
"""A line without a full stop that has this fraction of the widest line was probably wrapped."""

_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:pt|pts|dr|drs|no|vs|approx|appt|hosp|dept|ext|incl|cont|resp|temp|wt|ht|hx|dx|"
    r"tx|rx|sx|fx|st|plt|e\.g|i\.e"
    r"|p\.o|i\.v|i\.m|s\.c|p\.r\.n|b\.i\.d|t\.i\.d|q\.i\.d|q\.d|q\.h\.s|a\.c|p\.c|c\.c|s\.p)\.\s*$",
    re.IGNORECASE,
)
_SENTENCE_START = (
    r"(?:He|She|It|They|We|You|The|This|That|These|There|Then|His|Her|Their|Patient|Pt|On|At|In|If|"
    r"When|After|"
    r"However|Please|Follow|Continue|Take|Will|Was|No)\b"
)
_DOSE_THEN_SENTENCE = re.compile(
    rf"(?<=\b(?:b\.i\.d|t\.i\.d|q\.i\.d|p\.r\.n|q\.h\.s)\.)\s+(?={_SENTENCE_START})|(?<=\b(?:p\.o|"
    rf"q\.d)\.)\s+(?={_SENTENCE_START})",
    re.IGNORECASE | re.ASCII,
)
_UNIT_THEN_SENTENCE = re.compile(r"(?:\d[ ]?|/)[dhLgmsyw]\.\s+(?=[A-Z])")
"""A one-letter unit ends a sentence, though it looks like the initial of a name."""

_LIST_NUMBER = re.compile(r"\s*\(?(?:\d{1,2}|[a-z])[.)]\s*$")
_WORD = re.compile(r"\S+")


class _Span(NamedTuple):
    """A stretch of the note by character offsets; `end` is exclusive."""

    start: int
    end: int


def split_note(note: str, *, prefix: str = "") -> tuple[Sentence, ...]:
    """Return the sentences of a note, numbered from 1 after `prefix`.

    `note[start:start + len(text)] == text` for each. Paragraphs, separated by blank lines, are
    numbered from 0. Raises CallerError for a note without a word.
    """
    sentences: list[Sentence] = []
    for paragraph_number, paragraph in enumerate(_paragraphs(note)):
        for span in _sentences(note, paragraph):
            sentence = Sentence(
                id=f"{prefix}{len(sentences) + 1}",
                text=note[span.start : span.end],
                paragraph_id=str(paragraph_number),
                start_char_index=span.start,
            )
            sentences.append(sentence)
    if not sentences:
        raise CallerError("The note is empty.\nA note is plain text with at least one word.")
    return tuple(sentences)


def case_from_text(question: str, note: str, case_id: str = "note") -> Case:
    """Return a case of a question and a pasted note. Raises CallerError if either has no word."""
    question = whole_text(as_text(question, "The question"))
    note = whole_text(as_text(note, "The note"))
    question = " ".join(question.split())
    if not question:
        raise CallerError("There is no question.\nAsk something the note could answer.")
    return Case(
        id=case_id,
        patient_narrative=question,
        clinician_question=question,
        note_excerpt=note,
        sentences=split_note(note),
    )


def _paragraphs(note: str) -> Iterator[_Span]:
    """Yield the stretches between blank lines."""
    start = 0
    for blank in _BLANK_LINES.finditer(note):
        yield _Span(start, blank.start())
        start = blank.end()
    yield _Span(start, len(note))


def _sentences(note: str, paragraph: _Span) -> Iterator[_Span]:
    for text_run in _text_runs(note, paragraph):
        for sentence in _split_text_run(note, text_run):
            text = note[sentence.start : sentence.end]
            if text.strip():
                yield _strip(text, sentence)


def _text_runs(note: str, paragraph: _Span) -> Iterator[_Span]:
    """Yield runs of lines that are one text: a list item, a heading, or wrapped lines."""
    lines = []
    for match in _LINE.finditer(note[paragraph.start : paragraph.end]):
        lines.append(_Span(paragraph.start + match.start(), paragraph.start + match.end()))
    if not lines:
        return
    width = max(line.end - line.start for line in lines)
    start = lines[0].start
    for line, next_line in pairwise(lines):
        text = note[line.start : line.end]
        next_text = note[next_line.start : next_line.end]
        if not _continues(text, next_text, width):
            yield _Span(start, line.end)
            start = next_line.start
    yield _Span(start, lines[-1].end)


def _continues(line: str, next_line: str, width: int) -> bool:
    """Whether the next line continues this one; `width` is that of the paragraph's widest line."""
    if _LIST_LINE.match(next_line) or line.rstrip().endswith(":"):
        return False
    next_word = _WORD.search(next_line)
    if next_word is None or not line.strip():
        return False
    length = len(line.rstrip())
    is_unfinished = not _FINAL_PUNCTUATION.search(line)
    if is_unfinished and length >= _MIN_LINE_WIDTH and next_word[0][0].islower():
        return True
    if not _MIN_LINE_WIDTH <= width <= _MAX_LINE_WIDTH or _HEADING.match(next_line):
        return False
    if is_unfinished and length >= width * _WRAPPED_FRACTION:
        return True
    next_word_would_fit = length + 1 + len(next_word[0]) <= width
    return not next_word_would_fit


def _split_text_run(note: str, text_run: _Span) -> Iterator[_Span]:
    """Yield sentences: sentencex's, joined after abbreviations, split after doses and units."""
    text = note[text_run.start : text_run.end]
    start = 0
    for end in _sentence_ends(text):
        sentence, rest = text[start:end], text[end:]
        if rest and (_ends_in_abbreviation(sentence, rest) or _LIST_NUMBER.fullmatch(sentence)):
            continue
        yield _Span(text_run.start + start, text_run.start + end)
        start = end


def _sentence_ends(text: str) -> list[int]:
    """Return the offsets of possible sentence ends, the end of the text included."""
    ends = {len(text)}
    ends.update(boundary["end_index"] for boundary in get_sentence_boundaries("en", text))
    ends.update(dose.start() for dose in _DOSE_THEN_SENTENCE.finditer(text))
    ends.update(unit.end() for unit in _UNIT_THEN_SENTENCE.finditer(text))
    return sorted(ends)


def _ends_in_abbreviation(sentence: str, rest: str) -> bool:
    """Whether the final full stop belongs to an abbreviation and the sentence goes on."""
    if not _ABBREVIATION.search(sentence):
        return False
    return not re.match(rf"\s*{_SENTENCE_START}", rest)


def _strip(text: str, span: _Span) -> _Span:
    """Return the span of `text` without the white space around it."""
    leading = len(text) - len(text.lstrip())
    trailing = len(text) - len(text.rstrip())
    return _Span(span.start + leading, span.end - trailing)
