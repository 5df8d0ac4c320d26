from archqa.engine.answer_finder import (
    MAX_PIECE_TOKENS,
    MAX_WINDOW_TOKENS,
    build_answer_windows,
    sentence_pieces,
)
from archqa.engine.windows import MARKER

SHORT = "She had a fever."
MEDICINES = (
    ", ".join(f"drug number {number} five mg daily" for number in range(40)) + "."
)


def test_a_short_sentence_is_one_piece_of_all_its_characters() -> None:
    (piece,) = sentence_pieces([SHORT])
    assert (piece.sentence_index, piece.start, piece.end) == (0, 0, len(SHORT))


def test_a_long_sentence_is_cut_after_commas_and_loses_nothing() -> None:
    pieces = sentence_pieces([SHORT, MEDICINES])[1:]
    texts = [MEDICINES[piece.start : piece.end] for piece in pieces]
    assert "".join(texts) == MEDICINES
    assert len(pieces) > 3
    assert all(text.endswith((",", ".")) for text in texts)
    assert all(len(piece.token_ids) <= MAX_PIECE_TOKENS for piece in pieces)


def test_a_sentence_without_a_token_has_a_piece_too() -> None:
    assert len(sentence_pieces(["", SHORT])) == 2


def test_windows_hold_every_piece_and_no_more_tokens_than_fit() -> None:
    pieces = sentence_pieces([SHORT, MEDICINES] * 6)
    windows = build_answer_windows("Which drugs?", pieces)
    seen = set()
    for window in windows:
        assert len(window.token_ids) <= MAX_WINDOW_TOKENS
        for span in window.spans:
            seen.add(span.sentence_index)
            assert window.token_ids[span.start] == MARKER
            assert tuple(window.token_ids[span.start + 1 : span.end]) == (
                pieces[span.sentence_index].token_ids
            )
    assert seen == set(range(len(pieces)))


def test_a_question_of_any_length_leaves_room_for_the_note() -> None:
    windows = build_answer_windows("why " * 500, sentence_pieces([SHORT]))
    assert [len(window.spans) for window in windows] == [1]
