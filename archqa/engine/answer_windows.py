"""The cross-encoder's input for a short question: the question, then a stretch of the note.

A long sentence (a run of medicines, a review of systems) is read in pieces, so that each of its
items is compared with the question. A note is split into windows of about equal length, which two
cores compute side by side.
"""

from typing import NamedTuple

from archqa.engine.windows import Span, TokenWindow
from archqa.engine.wordpiece import CLS, MARKER, SEP, Tokens, tokenize_with_offsets

MAX_QUESTION_TOKENS = 60
MAX_WINDOW_TOKENS = 320
"""Longer windows take longer, since attention grows with the square of their length."""
MAX_PIECE_TOKENS = 72
OVERLAP_TOKENS = 48
"""Tokens at the end of a window that the next window may repeat, in whole pieces."""
MAX_SINGLE_WINDOW_TOKENS = 160
"""Above it, two windows on two cores are faster than one."""
ROOM_STEP = 4
CLAUSE_ENDS = frozenset(",;:.")


class Piece(NamedTuple):
    """A sentence, or a part of a long one: characters `start` to `end` of its text."""

    sentence_index: int
    start: int
    end: int
    token_ids: tuple[int, ...]


def sentence_pieces(texts: list[str]) -> list[Piece]:
    """Return the pieces of every sentence in note order; a sentence without tokens has one."""
    pieces = []
    for sentence_index, text in enumerate(texts):
        tokens = tokenize_with_offsets(text)
        start = 0
        for token_start, token_end in _cuts(text, tokens):
            end = len(text) if token_end == len(tokens.ids) else tokens.offsets[token_end - 1][1]
            token_ids = tuple(tokens.ids[token_start:token_end])
            pieces.append(Piece(sentence_index, start, end, token_ids))
            start = end
    return pieces


def _cuts(text: str, tokens: Tokens) -> list[tuple[int, int]]:
    """Return ranges of tokens, cut after the last end of a clause that fits."""
    cuts = []
    start = 0
    while len(tokens.ids) - start > MAX_PIECE_TOKENS:
        end = start + MAX_PIECE_TOKENS
        for position in range(end, start + MAX_PIECE_TOKENS // 2, -1):
            first, last = tokens.offsets[position - 1]
            if text[first:last] in CLAUSE_ENDS:
                end = position
                break
        cuts.append((start, end))
        start = end
    cuts.append((start, len(tokens.ids)))
    return cuts


def build_answer_windows(
    question: str, pieces: list[Piece], max_tokens: int = MAX_WINDOW_TOKENS
) -> list[TokenWindow]:
    """Return windows of the pieces in note order; spans count pieces, not sentences."""
    question_ids = tokenize_with_offsets(question).ids[:MAX_QUESTION_TOKENS]
    prefix = [CLS, *question_ids, SEP]
    lengths = [1 + len(piece.token_ids) for piece in pieces]
    ranges = _even_ranges(lengths, max_tokens - len(prefix) - 1)
    return [_build_window(prefix, pieces, indices) for indices in ranges]


def _even_ranges(lengths: list[int], room: int) -> list[range]:
    """Return ranges of pieces for windows of about equal length, an even number of them or one."""
    count = len(_ranges(lengths, room))
    if count == 1 and sum(lengths) <= MAX_SINGLE_WINDOW_TOKENS:
        return _ranges(lengths, room)
    count += count % 2
    smallest = sum(lengths) // count
    for smaller_room in range(smallest, room, ROOM_STEP):
        ranges = _ranges(lengths, smaller_room)
        if len(ranges) <= count:
            return ranges
    return _ranges(lengths, room)


def _ranges(lengths: list[int], room: int) -> list[range]:
    """Return overlapping ranges of pieces, each as long as fits into `room` tokens."""
    ranges = []
    start = 0
    while start < len(lengths):
        end = start + 1
        total = lengths[start]
        while end < len(lengths) and total + lengths[end] <= room:
            total += lengths[end]
            end += 1
        ranges.append(range(start, end))
        if end == len(lengths):
            break
        start = _next_start(lengths, start, end)
    return ranges


def _next_start(lengths: list[int], start: int, end: int) -> int:
    """Return where the next range starts: some pieces before `end`, but after `start`."""
    next_start = end
    repeated = 0
    while next_start - 1 > start:
        repeated += lengths[next_start - 1]
        if repeated > OVERLAP_TOKENS:
            break
        next_start -= 1
    return next_start


def _build_window(prefix: list[int], pieces: list[Piece], indices: range) -> TokenWindow:
    token_ids = list(prefix)
    spans = []
    for index in indices:
        piece_ids = pieces[index].token_ids
        marker = len(token_ids)
        spans.append(Span(index, marker, marker + 1 + len(piece_ids)))
        token_ids += [MARKER, *piece_ids]
    return TokenWindow([*token_ids, SEP], len(prefix), spans)
