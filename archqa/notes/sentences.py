"""A pasted note as numbered sentences, each with its place in the text: nothing is changed, nothing but space is lost.

Lines first, since a note's lists and headings have no full stops; then sentencex within what runs on; then what
clinical shorthand asks for. A line goes on in the next one only where the typist had no room left.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from sentencex import get_sentence_boundaries

from archqa.core.case import Case, Sentence
from archqa.errors import CallerError

_LIST_LINE = re.compile(
    r"[ \t]*(?:[-*•–#>+o]+[ \t]|[-*•#]+(?=\w)|\(?\d{1,2}[.)][ \t]|[a-z][.)][ \t])"
)
_HEADING = re.compile(r"[ \t]*[A-Z][^.!?\n]{0,60}:[ \t]*\S?")
_ENDS = re.compile(r"[.!?:;][\"')\]]*\s*$")
_NARROWEST, _WIDEST = 40, 132
"""Widths at which a typist's program breaks lines; longer lines were never broken."""

_NEARLY = 0.7
"""A line without a full stop that is so much of the widest one was probably broken."""

_GOES_ON = re.compile(
    r"(?:^|[\s(])(?:pt|pts|dr|drs|no|vs|approx|appt|hosp|dept|ext|incl|cont|resp|temp|wt|ht|hx|dx|tx|rx|sx|fx|st|plt|e\.g|i\.e"
    r"|p\.o|i\.v|i\.m|s\.c|p\.r\.n|b\.i\.d|t\.i\.d|q\.i\.d|q\.d|q\.h\.s|a\.c|p\.c|c\.c|s\.p)\.\s*$",
    re.IGNORECASE,
)
_STARTS = (
    r"(?:He|She|It|They|We|You|The|This|That|These|There|Then|His|Her|Their|Patient|Pt|On|At|In|If|When|After|"
    r"However|Please|Follow|Continue|Take|Will|Was|No)\b"
)
_DOSE_THEN_SENTENCE = re.compile(
    rf"(?<=\b(?:b\.i\.d|t\.i\.d|q\.i\.d|p\.r\.n|q\.h\.s)\.)\s+(?={_STARTS})|(?<=\b(?:p\.o|q\.d)\.)\s+(?={_STARTS})",
    re.IGNORECASE | re.ASCII,
)
_UNIT_THEN_SENTENCE = re.compile(r"(?:\d[ ]?|/)[dhLgmsyw]\.\s+(?=[A-Z])")
"""A unit of one letter ends a sentence, though it looks like the initial of a name."""

_NUMBER_ALONE = re.compile(r"\s*\(?(?:\d{1,2}|[a-z])[.)]\s*$")
_WORD = re.compile(r"\S+")


class _Span(NamedTuple):
    """A stretch of the note, by character offsets; the end is not part of it."""

    start: int
    end: int


def split_note(note: str, *, prefix: str = "") -> tuple[Sentence, ...]:
    """The sentences of a note, numbered from 1 after `prefix`; `note[start:start + len(text)] == text` for each.

    Paragraphs, parted by blank lines, are numbered from 0. Raises `CallerError` for a note without a word.
    """
    found: list[Sentence] = []
    for place, paragraph in enumerate(_paragraphs(note)):
        for span in _sentences(note, paragraph):
            number = f"{prefix}{len(found) + 1}"
            text = note[span.start : span.end]
            found.append(
                Sentence(id=number, text=text, paragraph_id=str(place), start_char_index=span.start)
            )
    if not found:
        raise CallerError("The note is empty.\nA note is plain text with at least one word.")
    return tuple(found)


def case_from_text(question: str, note: str, case_id: str = "note") -> Case:
    """A case made of a question and a pasted note. Raises `CallerError` if either has no word."""
    asked = " ".join(question.split())
    if not asked:
        raise CallerError("There is no question.\nAsk something the note could answer.")
    sentences = split_note(note)
    return Case(
        id=case_id,
        patient_narrative=asked,
        clinician_question=asked,
        note_excerpt=note,
        sentences=sentences,
    )


def _paragraphs(note: str) -> Iterator[_Span]:
    """Stretches between blank lines."""
    start = 0
    for blank in re.finditer(r"(?:[ \t\f\v]*(?>\r\n|\r|\n)){2,}", note):
        yield _Span(start, blank.start())
        start = blank.end()
    yield _Span(start, len(note))


def _sentences(note: str, paragraph: _Span) -> Iterator[_Span]:
    for unit in _units(note, paragraph):
        for piece in _pieces(note, unit):
            yield from _trimmed(note, piece)


def _units(note: str, paragraph: _Span) -> Iterator[_Span]:
    """Runs of lines that are one text: a list item, a heading, or lines that were broken for want of room."""
    lines = [
        _Span(line.start(), line.end())
        for line in re.finditer(r"[^\r\n]+", note[paragraph.start : paragraph.end])
    ]
    placed = [_Span(paragraph.start + each.start, paragraph.start + each.end) for each in lines]
    width = max((each.end - each.start for each in placed), default=0)
    start = placed[0].start if placed else 0
    for line, following in pairwise(placed):
        if not _goes_on(note[line.start : line.end], note[following.start : following.end], width):
            yield _Span(start, line.end)
            start = following.start
    if placed:
        yield _Span(start, placed[-1].end)


def _goes_on(line: str, following: str, width: int) -> bool:
    """Whether the next line continues this one."""
    if _LIST_LINE.match(following) or line.rstrip().endswith(":"):
        return False
    word = _WORD.search(following)
    if word is None or not line.strip():
        return False
    length, unfinished = len(line.rstrip()), not _ENDS.search(line)
    if unfinished and length >= _NARROWEST and word[0][0].islower():
        return True
    if not _NARROWEST <= width <= _WIDEST:
        return False
    if unfinished and length >= width * _NEARLY:
        return not _HEADING.match(following)
    had_room = length + 1 + len(word[0]) <= width
    return not had_room and not _HEADING.match(following)


def _pieces(note: str, unit: _Span) -> Iterator[_Span]:
    """Sentences of running text: sentencex's, less the breaks after abbreviations, plus those after doses."""
    text = note[unit.start : unit.end]
    ends = [each["end_index"] for each in get_sentence_boundaries("en", text)]
    ends += [found.start() for found in _DOSE_THEN_SENTENCE.finditer(text)]
    ends += [found.end() for found in _UNIT_THEN_SENTENCE.finditer(text)]
    start = 0
    for end in sorted({*ends, len(text)}):
        piece = text[start:end]
        if end < len(text) and (_abbreviated(piece, text[end:]) or _NUMBER_ALONE.fullmatch(piece)):
            continue
        yield _Span(unit.start + start, unit.start + end)
        start = end


def _abbreviated(piece: str, rest: str) -> bool:
    """Whether the full stop at the end of the piece belongs to an abbreviation and the sentence goes on."""
    return bool(_GOES_ON.search(piece)) and not re.match(rf"\s*{_STARTS}", rest)


def _trimmed(note: str, span: _Span) -> Iterator[_Span]:
    """The span without the space around it; nothing if it is all space."""
    text = note[span.start : span.end]
    if text.strip():
        yield _Span(
            span.start + len(text) - len(text.lstrip()), span.end - len(text) + len(text.rstrip())
        )
