import pytest

from archqa.engine.answer_finder import lacks_asked_kind


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("How many units of blood did she get?", "She is being transfused."),
        ("metoprolol dose?", "She takes metoprolol at home."),
        ("EF?", "We did repeat an echo, which did not show any effusion."),
        ("When was the drain pulled?", "The drain was pulled."),
        ("How long has she had acne?", "She understands that acne treatment is usual."),
        ("Why was he intubated?", "Intubated in the ambulance."),
    ],
)
def test_a_sentence_without_what_is_asked_for_lacks_it(
    question: str, sentence: str
) -> None:
    assert lacks_asked_kind(question, sentence)


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ("How many units of blood did she get?", "She was given two units."),
        ("metoprolol dose?", "Metoprolol 25 mg twice daily."),
        ("When was the drain pulled?", "The drain was pulled before discharge."),
        ("Why was he intubated?", "Intubated because of hypoxia."),
        ("What was the drain for?", "The drain was pulled."),
        ("Has he lost weight?", "He denies weight loss."),
        ("How is she?", "She is well."),
    ],
)
def test_a_sentence_with_it_or_another_question_lacks_nothing(
    question: str, sentence: str
) -> None:
    assert not lacks_asked_kind(question, sentence)
