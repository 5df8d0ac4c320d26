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

from archqa.core.case import Case, Sentence
from archqa.errors import CallerError
from archqa.notes.lines import continues, line_width, read_lines
from archqa.notes.sentence_ends import sentence_ends
from archqa.safety.arguments import as_text
from archqa.safety.text import without_surrogates

_BLANK_LINES = re.compile(r"\n(?:[ \t]*\n)+")
_SPACES = dict.fromkeys(map(ord, "\xa0\u1680\u202f\u205f\u3000\u200b\ufeff"), " ") | dict.fromkeys(
    range(0x2000, 0x200B), " "
)
"""White space that is not the space, and what has no width but separates."""
_LINE_BREAKS = dict.fromkeys(map(ord, "\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"), "\n")
_PLAIN = _SPACES | _LINE_BREAKS


class _Span(NamedTuple):
    """A stretch of the note by character offsets; `end` is exclusive."""

    start: int
    end: int


class _TextRun(NamedTuple):
    """Lines that are one text; a row of a table or a rule is one sentence, whatever it holds."""

    start: int
    end: int
    is_whole: bool


def split_note(note: str, *, prefix: str = "") -> tuple[Sentence, ...]:
    """Return the sentences of a note, numbered from 1 after `prefix`.

    `note[start:start + len(text)] == text` for each. Paragraphs, separated by blank lines, are
    numbered from 0. Raises CallerError for a note without a word.
    """
    sentences: list[Sentence] = []
    plain = _plain_copy(note)
    for paragraph_number, paragraph in enumerate(_paragraphs(plain)):
        for span in _sentences(plain, paragraph):
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


def case_from_text(question: str, note: str) -> Case:
    """Return a case of a question and a pasted note. Raises CallerError if either has no word."""
    question = without_surrogates(as_text(question, "The question"))
    note = without_surrogates(as_text(note, "The note"))
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


def _plain_copy(note: str) -> str:
    """Return the note, as long as before, with spaces, tabs and `\\n` as its only white space."""
    return note.replace("\r\n", " \n").translate(_PLAIN)


def _paragraphs(plain: str) -> Iterator[_Span]:
    """Yield the stretches between blank lines."""
    start = 0
    for blank in _BLANK_LINES.finditer(plain):
        yield _Span(start, blank.start())
        start = blank.end()
    yield _Span(start, len(plain))


def _sentences(plain: str, paragraph: _Span) -> Iterator[_Span]:
    for text_run in _text_runs(plain, paragraph):
        for sentence in _split_text_run(plain, text_run):
            text = plain[sentence.start : sentence.end]
            if text.strip():
                yield _strip(text, sentence)


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


def _split_text_run(plain: str, text_run: _TextRun) -> Iterator[_Span]:
    if text_run.is_whole:
        yield _Span(text_run.start, text_run.end)
        return
    start = text_run.start
    for end in sentence_ends(plain[text_run.start : text_run.end]):
        yield _Span(start, text_run.start + end)
        start = text_run.start + end


def _strip(text: str, span: _Span) -> _Span:
    """Return the span of `text` without the white space around it."""
    leading = len(text) - len(text.lstrip())
    trailing = len(text) - len(text.rstrip())
    return _Span(span.start + leading, span.end - trailing)
