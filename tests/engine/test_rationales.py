import numpy as np

from archqa.engine.engine import rationale

NAMES = (
    "reader.logit",
    "topic.question",
    "shape.heading",
    "shape.note",
    "shape.position",
)


def explain(*contributions: float, shared: frozenset[str] = frozenset()) -> str:
    return rationale(NAMES, np.array(contributions), shared)


def test_what_moved_a_probability_most_is_said_first_and_what_spoke_against_it_too() -> (
    None
):
    reason = explain(0.5, 0.9, 0.0, 0.0, -0.4, shared=frozenset({"heparin"}))
    assert reason.startswith(
        "For: names heparin, as the question does; read with the question"
    )
    assert "Against: stands where evidence seldom stands." in reason


def test_a_shared_concept_that_moved_nothing_is_no_reason() -> None:
    assert "heparin" not in explain(
        0.5, 0.0, 0.0, 0.0, 0.0, shared=frozenset({"heparin"})
    )


def test_what_holds_for_the_whole_note_or_for_any_sentence_is_no_reason() -> None:
    assert explain(0.0, 0.0, 1.0, 2.0, 0.0) == "Nothing about it stands out."
    assert explain(0.0, 0.0, -1.0, 0.0, 0.0) == "Against: is a heading."
