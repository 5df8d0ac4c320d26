"""The tables of the everyday grammar: small, without contradictions, without words that decide."""

from collections import Counter

from archqa.core.tables import read_rows
from archqa.query.kinds import KINDS
from archqa.query.questions.everyday.declining import decline_reasons
from archqa.query.questions.everyday.kinds_of_rows import general_kinds
from archqa.query.questions.everyday.phrases import all_phrases
from archqa.query.questions.lexer import phrases_of

FORBIDDEN = {
    *(
        "not",
        "no",
        "never",
        "without",
        "except",
        "unless",
        "only",
        "but",
        "neither",
        "nor",
    ),
    *(
        "now",
        "still",
        "currently",
        "already",
        "yet",
        "ever",
        "again",
        "recently",
        "soon",
    ),
    *(
        "before",
        "after",
        "since",
        "until",
        "during",
        "last",
        "first",
        "past",
        "previous",
    ),
    *("stop", "stopped", "start", "started", "change", "changed", "held", "resolved"),
    *(
        "high",
        "low",
        "normal",
        "abnormal",
        "severe",
        "mild",
        "new",
        "old",
        "good",
        "bad",
    ),
    *(
        "safe",
        "should",
        "will",
        "can",
        "why",
        "better",
        "worse",
        "risk",
        "mother",
        "father",
    ),
}


def fillers() -> set[tuple[str, ...]]:
    return {phrase.words for phrase in all_phrases() if phrase.kind == "filler"}


def test_no_word_that_decides_carries_nothing() -> None:
    assert {words[0] for words in fillers() if len(words) == 1} & FORBIDDEN == set()


def test_the_single_words_that_carry_nothing_are_few() -> None:
    assert len([words for words in fillers() if len(words) == 1]) < 110


def test_no_phrase_has_two_meanings() -> None:
    meanings = set()
    for kind, value, cell in read_rows("query/questions/everyday/data/phrases.tsv", 3):
        meanings |= {(words, kind, value) for words in _phrases(cell)}
    times = Counter(words for words, _, _ in meanings)
    ambiguous = {" ".join(words) for words, count in times.items() if count > 1}
    assert ambiguous == set()


def _phrases(cell: str) -> list[tuple[str, ...]]:
    patterns = [
        pattern for pattern in cell.split("|") if not pattern.endswith(("$", "^"))
    ]
    return [words for words in phrases_of("|".join(patterns)) if words]


def test_every_judgement_has_a_reason() -> None:
    phrases = read_rows("query/questions/everyday/data/phrases.tsv", 3)
    kinds = {value for kind, value, _ in phrases if kind == "judgement"}
    assert kinds
    assert kinds <= decline_reasons().keys()


def test_general_kinds_return_what_their_rows_have() -> None:
    for kind in general_kinds().values():
        fields = {"reason" if field == "for_what" else field for field in kind.fields}
        asked = {*fields, kind.listed, kind.named} - {"-"}
        assert asked <= KINDS[kind.what].returns, kind.what
