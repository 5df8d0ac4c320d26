"""A deciding word that the grammar does not know is never read as if it were not there."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from archqa.query.questions.everyday import Reading, Understood, read_question
from archqa.query.questions.everyday.phrases import all_phrases
from tests.query.questions.everyday.invented_vocabulary import VOCABULARY
from tests.query.questions.everyday.questions import questions

DECIDING = (
    *(
        "not",
        "never",
        "without",
        "except",
        "no",
        "neither",
        "nor",
        "hardly",
        "barely",
        "unless",
    ),
    *(
        "mother's",
        "brother's",
        "wife",
        "family's",
        "neighbor",
        "donor",
        "someone",
        "nobody",
    ),
    *("left", "right", "upper", "bilateral", "resting", "sitting", "nocturnal"),
    *("severe", "mild", "moderate", "chronic", "terminal", "congenital", "malignant"),
    *("refused", "cancelled", "planned", "postponed", "missed", "held", "paused"),
    *(
        "restarted",
        "increased-dose",
        "tapered",
        "renewed",
        "switched",
        "rejected",
        "denied",
    ),
    *("suspected", "doubtful", "alleged", "presumed", "unconfirmed", "false", "wrong"),
    *(
        "weekly",
        "recently",
        "rarely",
        "nearly",
        "mostly",
        "again",
        "twice",
        "only",
        "almost",
    ),
    *(
        "unpaid",
        "external",
        "private",
        "foreign",
        "unsigned",
        "duplicate",
        "shngles",
        "quax",
    ),
    *(
        "17",
        "three",
        "half",
        "dozen",
        "few",
        "several",
        "fewer",
        "another",
        "other",
        "else",
    ),
    *("worried", "placing", "aura", "subject", "partner", "index"),
)
SENTENCES = tuple(question for question, _ in questions("understood"))
KNOWN = {word for phrase in all_phrases() for word in phrase.words}
PHRASES = {tuple(phrase.words) for phrase in all_phrases()}


def letters() -> st.SearchStrategy[str]:
    """Words of no language; those that a table holds are left out."""
    words = st.text(alphabet="abcdefghijklmnopqrstuvwxyz", min_size=5, max_size=9)
    return words.filter(lambda word: not {word, word.removesuffix("s")} & KNOWN)


@st.composite
def changed_questions(draw: st.DrawFn) -> tuple[str, str]:
    """A question that is understood, and the same with one deciding word more."""
    question = draw(st.sampled_from(SENTENCES))
    words = question.split(" ")
    place = draw(st.integers(0, len(words)))
    inserted = draw(st.one_of(st.sampled_from(DECIDING), letters()))
    assume(inserted not in words)
    # "Right now" is "now", whatever "right" decides elsewhere.
    following = [word.strip("?") for word in words[place : place + 1]]
    assume((inserted, *following) not in PHRASES)
    return question, " ".join([*words[:place], inserted, *words[place:]])


def check_that_the_word_counts(pair: tuple[str, str]) -> None:
    question, changed = pair
    before = read_question(question, VOCABULARY)
    after = read_question(changed, VOCABULARY)
    assert isinstance(before, Understood)
    assert answers_of(after) != answers_of(before), changed


def answers_of(reading: Reading) -> object:
    """What would be answered; None if nothing is."""
    return set(reading.queries) if isinstance(reading, Understood) else None


@settings(max_examples=500)
@given(changed_questions())
def test_an_unknown_deciding_word_is_never_dropped(pair: tuple[str, str]) -> None:
    check_that_the_word_counts(pair)


@pytest.mark.long
@settings(max_examples=10_000)
@given(changed_questions())
def test_of_ten_thousand_no_unknown_deciding_word_is_dropped(
    pair: tuple[str, str],
) -> None:
    check_that_the_word_counts(pair)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("was metformin {} stopped?", ("not", "never", "temporarily")),
        ("which medications is she {} taking", ("not", "no longer", "rarely")),
        ("{} allergies", ("no", "suspected", "past")),
        ("last {} A1c", ("abnormal", "normal", "3", "outside", "home")),
        ("has she {} had a stroke", ("never", "nearly", "possibly", "almost")),
        ("her {} medications", ("stopped", "new", "night", "mother's", "other")),
    ],
)
def test_words_of_one_kind_each_change_the_reading(
    question: str, words: tuple[str, ...]
) -> None:
    plain = answers_of(read_question(question.replace("{} ", ""), VOCABULARY))
    for word in words:
        changed = answers_of(read_question(question.format(word), VOCABULARY))
        assert changed is None or changed != plain, word
