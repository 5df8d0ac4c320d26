"""The shipped question tagger: its size, and which frames it confirms."""

from archqa.engine.question_tagger import (
    ENCODER_FILE,
    HEADS_FILE,
    SETTINGS_FILE,
    QuestionTagger,
)

LAST = "observation names returns=rows position=last"
AVERAGE = "observation names summary=average returns=rows"
CLUES = ("position:last", "word:mom", "slot:measurement", "text:last", "text:glucose")


def confidence(frame: str, text: str) -> float:
    tagger = QuestionTagger.load()
    return tagger.confidence(frame, text, CLUES, lambda each: "names" in each)


def test_its_files_are_small() -> None:
    files = (ENCODER_FILE, ENCODER_FILE.with_suffix(".npz"), HEADS_FILE, SETTINGS_FILE)
    assert sum(file.stat().st_size for file in files) <= 2_500_000


def test_it_is_surer_of_the_frame_that_is_asked() -> None:
    text = "what was mom last glucose"
    assert confidence(LAST, text) > 0.8 > confidence(AVERAGE, text)


def test_it_confirms_no_frame_that_was_not_trained_and_no_long_text() -> None:
    assert confidence("unheard of", "last glucose") == 0
    assert confidence(LAST, "last glucose " * 60) == 0
