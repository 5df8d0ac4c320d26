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
from archqa.notes.lines import BULLET, continues, line_width, read_lines
from archqa.notes.sections import OTHER_SECTION, section_kind
from archqa.safety.arguments import as_text

MAX_SENTENCE_LENGTH = 1000
"""Characters; what is longer without a full stop is a flattened list or table."""

_MAX_QUOTED_LENGTH = 200
"""Characters of a stretch in brackets or quotation marks that sentencex leaves whole."""

_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:pt|pts|dr|drs|prof|no|vs|approx|appt|hosp|dept|ext|incl|cont|resp|"
    r"temp|wt|ht|hx|dx|tx|rx|sx|fx|st|plt|sig|subcu|subq|e\.g|i\.e"
    r"|p\.o|i\.v|i\.m|s\.c|p\.r\.n|b\.i\.d|t\.i\.d|q\.i\.d|q\.d|q\.h\.s|a\.c|p\.c|c\.c|s\.p"
    r"|ca|bzw|ggf|evtl|inkl|tgl|nr|hr|fr|fa|std|tbl|pat|vgl|sog|med|z\.b|z\.n|v\.a|d\.h|u\.a)\.\s*$",
    re.IGNORECASE,
)
"""English and German; the German ones are no words of English notes."""

_ABBREVIATION_LENGTH = 12
_SENTENCE_START = (
    r"(?:He|She|It|They|We|You|The|This|That|These|There|Then|His|Her|Their|Patient|Pt|On|At|In|If|"
    r"When|After|"
    r"However|Please|Follow|Continue|Take|Will|Was|No"
    r"|Der|Die|Das|Er|Sie|Es|Ein|Eine|Im|Am|Bei|Nach|Kein|Keine)\b"
)
_STARTS_SENTENCE = re.compile(rf"\s*{_SENTENCE_START}")
_TITLE = re.compile(r"(?:^|[\s(])(?:[Dd]rs?|[Mm]rs?|[Mm]s|[Pp]rof)\.\s*$")
_TITLE_IN_CAPITALS = re.compile(r"(?:^|[\s(])(?:MRS?|MS)\.\s*$")
_STARTS_NAME = re.compile(r"\s*(?:[A-Z]|_|\||\[\*)")
"""A name, or what de-identification left of one."""

_CONTINUATION = re.compile(
    r"\s*(?:[,;)]|(?:p\.?r\.?n|p\.?o|[bt]\.?i\.?d|q\.?i\.?d|q\.?h\.?s)\b|q\.? ?\d|q\.?[dh]\b)"
)
"""A dose goes on (`Tylenol q.4h. p.r.n. pain`); no sentence begins with a comma."""

_STARTS_LOWER = re.compile(r"\s*[^\W\d_A-ZÄÖÜÉ]")
_ENDS_WITH_STOPS = re.compile(r"(?:[a-z]\.[\w.]{0,40}|\b\d{1,2}\.\d{1,2})\.\s*$")
"""`q.4h.`, or a German day and month, `12.3.`."""

_MONTH = re.compile(
    r"\s*(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November"
    r"|Dezember)\b"
)
_DAY = re.compile(r"(?:^|\s)\d{1,2}\.\s*$")
_DOSE_THEN_SENTENCE = re.compile(
    rf"(?<=\b(?:b\.i\.d|t\.i\.d|q\.i\.d|p\.r\.n|q\.h\.s)\.)\s+(?={_SENTENCE_START})|(?<=\b(?:p\.o|"
    rf"q\.d)\.)\s+(?={_SENTENCE_START})",
    re.IGNORECASE | re.ASCII,
)
_UNIT_THEN_SENTENCE = re.compile(
    r"(?:(?:\d[ ]?|/)[dhLlgmsyw]|\d[ ]?(?:mm|cm|lbs?)|\b(?:me|etc))\.\s+(?=[A-Z])"
)
"""A one-letter unit ends a sentence, though it looks like the initial of a name."""

_LIST_NUMBER = re.compile(
    rf"\s*(?:\(?(?:\d{{1,2}}|[A-Za-z]|[ivx]{{1,4}}|[IVX]{{1,4}})\s?[.)]|[{BULLET}])\s*(?:\?\s*)?"
)
_ITEM_NUMBER = re.compile(
    r"(?:^|(?<=[\s:])|(?<=[a-z)]\.))\(?(\d{1,2})[.)](?:\s+|(?=[A-Za-z]))(?=\S)"
)
_BEFORE_FIRST_ITEM = frozenset(("", ":", ".", "!", "?"))
_INSIDE_SENTENCE = frozenset(("", ":", ",", ";"))
"""After these a number stays in its sentence: a heading travels with its first item."""
_CONJUNCTION = re.compile(r"\b(?:and|or)\s+$")
_INLINE_BULLET = re.compile(r"(?<=\S)\s+(?=[•‣▪▫●■►▶➢❖\uf0a7\uf0b7]\s)")
_INLINE_LABEL = re.compile(
    r"(?<=[a-z0-9)])\s+(?=((?:HPI|PMH|PSH|[A-Z][A-Z/&]{3,})(?: [A-Z/&]+){0,5}):\s)"
)
"""A heading in capitals inside a line that lost its line breaks."""

_CLOSING_MARK = re.compile(r"(?<=[.!?])[\"”)\]]+(?=\s)")
_PAIR_MARK = re.compile(r"[()\[\]\"“”]")
_CLOSING_OF = {"(": ")", "[": "]", '"': '"', "“": "”"}
_INCHES = re.compile(r"(?<=\d)[\"”″]")
_SOFT_BREAKS = (re.compile(r"\n|;\s| {2,}"), re.compile(r",\s"), re.compile(r"\s"))


def sentence_ends(text: str) -> list[int]:
    """Return the offsets at which the sentences of `text` end, its own end included."""
    ends: list[int] = []
    start = 0
    for end in _possible_ends(text):
        if end < len(text) and _goes_on(text, start, end):
            continue
        ends.extend(_soft_ends(text, start, end))
        ends.append(end)
        start = end
    return ends


def _possible_ends(text: str) -> list[int]:
    boundaries = get_sentence_boundaries("en", _without_misleading_pairs(text))
    ends = {boundary["end_index"] for boundary in boundaries}
    ends.update(dose.start() for dose in _DOSE_THEN_SENTENCE.finditer(text))
    for pattern in (_UNIT_THEN_SENTENCE, _INLINE_BULLET):
        ends.update(match.end() for match in pattern.finditer(text))
    for mark in _CLOSING_MARK.finditer(text):
        if mark.start() in ends:
            ends.remove(mark.start())
            ends.add(mark.end())
    for label in _INLINE_LABEL.finditer(text):
        if section_kind(label[1]) != OTHER_SECTION:
            ends.add(label.end())
    for number in _item_numbers(text):
        start = number.start()
        ends.difference_update(range(start + 1, number.end() + 1))
        # A number may belong to its sentence: `revealed 1) mass, 2) cyst`.
        is_inside = _last_character(text, start) in _INSIDE_SENTENCE
        before = text[max(0, start - _ABBREVIATION_LENGTH) : start]
        if not is_inside and not _CONJUNCTION.search(before):
            ends.add(start)
    ends.discard(0)
    ends.add(len(text))
    return sorted(ends)


def _item_numbers(text: str) -> list[re.Match[str]]:
    """Return the numbers of a list inside a line (`1. Diabetes 2. Asthma`): ascending from 1."""
    items: list[re.Match[str]] = []
    first: re.Match[str] | None = None
    for number in _ITEM_NUMBER.finditer(text):
        if (
            number[1] == "1"
            and _last_character(text, number.start()) in _BEFORE_FIRST_ITEM
        ):
            first, count = number, 1
        elif first is not None and int(number[1]) == count + 1:
            items.extend([first, number] if count == 1 else [number])
            count += 1
    return items


def _last_character(text: str, end: int) -> str:
    """Return the last character before `end` that is no white space, "" if there is none."""
    while end > 0 and text[end - 1].isspace():
        end -= 1
    return text[end - 1 : end]


def _goes_on(text: str, start: int, end: int) -> bool:
    """Whether the sentence that begins at `start` goes on after `end`.

    A full stop before `end` may be that of a list number, of an abbreviation or of a date.
    """
    if end - start <= _ABBREVIATION_LENGTH and _LIST_NUMBER.fullmatch(text, start, end):
        return True
    if _CONTINUATION.match(text, end):
        return True
    ending = text[max(start, end - _ABBREVIATION_LENGTH) : end]
    if _TITLE.search(ending) or (
        ending.isupper() and _TITLE_IN_CAPITALS.search(ending)
    ):
        return _STARTS_NAME.match(text, end) is not None
    if _ABBREVIATION.search(ending):
        return _STARTS_SENTENCE.match(text, end) is None
    if _STARTS_LOWER.match(text, end):
        return _ENDS_WITH_STOPS.search(ending) is not None
    return bool(_DAY.search(ending) and _MONTH.match(text, end))


def _soft_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where a sentence without full stops is cut: after at most `MAX_SENTENCE_LENGTH`.

    The last good place of the second half is a line's end, else a comma, else a space.
    """
    while end - start > MAX_SENTENCE_LENGTH:
        limit = start + MAX_SENTENCE_LENGTH
        middle = (start + limit) // 2
        start = limit
        for soft_break in _SOFT_BREAKS:
            breaks = list(soft_break.finditer(text, middle, limit))
            if breaks:
                start = breaks[-1].end()
                break
        yield start


def _without_misleading_pairs(text: str) -> str:
    """Return `text`, as long as before, without marks of inches and pairs that are far apart.

    sentencex ends no sentence inside brackets and quotation marks.
    """
    text = _INCHES.sub("n", text)
    characters = list(text)
    open_marks: dict[str, int] = {}
    for mark in _PAIR_MARK.finditer(text):
        start = open_marks.pop(mark[0], None)
        if start is not None and mark.start() - start > _MAX_QUOTED_LENGTH:
            characters[start] = characters[mark.start()] = " "
        elif start is None and mark[0] in _CLOSING_OF:
            open_marks[_CLOSING_OF[mark[0]]] = mark.start()
    for start in open_marks.values():
        characters[start] = " "
    return "".join(characters)


_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_SPACES = dict.fromkeys(
    map(ord, "\xa0\u1680\u202f\u205f\u3000\u200b\ufeff"), " "
) | dict.fromkeys(range(0x2000, 0x200B), " ")
"""White space that is not the space, and what has no width but separates."""
_LINE_BREAKS = dict.fromkeys(map(ord, "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), "\n")
_PLAIN = _SPACES | _LINE_BREAKS


class _Span(NamedTuple):
    """A stretch of the note by character offsets; `end` is exclusive."""

    start: int
    end: int


class _TextRun(NamedTuple):
    """Lines that are one text; a row of a table or a rule is one sentence, unless it is very long."""

    start: int
    end: int
    is_whole: bool


def split_note(note: str, *, prefix: str = "") -> tuple[Sentence, ...]:
    """Return the sentences of a note, numbered from 1 after `prefix`.

    `note[start:start + len(text)] == text` for each. Paragraphs, separated by blank lines, are
    numbered from 0. Raises CallerError for a note without a word.
    """
    sentences: list[Sentence] = []
    # As long as the note, with spaces, tabs and `\n` as its only white space.
    plain = note.replace("\r\n", " \n").translate(_PLAIN)
    start = 0
    paragraph_ends = [blank.span() for blank in _BLANK_LINES.finditer(plain)]
    paragraph_ends.append((len(plain), len(plain)))
    for paragraph_number, (end, next_start) in enumerate(paragraph_ends):
        for span in _sentences(plain, _Span(start, end)):
            sentence = Sentence(
                id=f"{prefix}{len(sentences) + 1}",
                text=note[span.start : span.end],
                paragraph_id=str(paragraph_number),
                start_char_index=span.start,
            )
            sentences.append(sentence)
        start = next_start
    if not sentences:
        raise CallerError(
            "The note is empty.\nA note is plain text with at least one word."
        )
    return tuple(sentences)


def case_from_text(question: str, note: str) -> Case:
    """Return a case of a question and a pasted note. Raises CallerError if either has no word."""
    question = as_text(question, "The question")
    note = as_text(note, "The note")
    question = " ".join(question.split())
    if not question:
        raise CallerError("There is no question.\nAsk something the note could answer.")
    return Case(
        id="note",
        patient_narrative=question,
        clinician_question=question,
        note_excerpt=note,
        sentences=split_note(note),
    )


def _sentences(plain: str, paragraph: _Span) -> Iterator[_Span]:
    """Yield the sentences of a paragraph, without the white space around them."""
    for text_run in _text_runs(plain, paragraph):
        run = plain[text_run.start : text_run.end]
        start = 0
        row_ends = [*_soft_ends(run, 0, len(run)), len(run)]
        for end in row_ends if text_run.is_whole else sentence_ends(run):
            text = run[start:end]
            leading = len(text) - len(text.lstrip())
            if text.strip():
                first = text_run.start + start + leading
                yield _Span(first, first + len(text.strip()))
            start = end


def _text_runs(plain: str, paragraph: _Span) -> Iterator[_TextRun]:
    """Yield runs of lines that are one text: a list item, a heading, a row, or wrapped lines."""
    lines = read_lines(plain[paragraph.start : paragraph.end], paragraph.start)
    if not lines:
        return
    width = line_width(lines)
    start = lines[0].start
    for line, next_line in pairwise(lines):
        if not continues(line, next_line, width):
            yield _TextRun(start, line.end, line.stands_alone)
            start = next_line.start
    yield _TextRun(start, lines[-1].end, lines[-1].stands_alone)
