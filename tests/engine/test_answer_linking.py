"""Links between an answer and its note."""

import numpy as np

from archqa.core.case import Case, Phrase, Sentence
from archqa.engine.answer_linking import Forest, Tree, predict_links


def test_an_answer_sentence_is_linked_to_the_sentence_it_restates() -> None:
    case = Case(
        id="c",
        patient_narrative="Why the tube?",
        sentences=(
            Sentence(id="a", text="Brief hospital course:"),
            Sentence(
                id="b",
                text="A chest tube was placed on day 2 for a large right pneumothorax.",
            ),
            Sentence(id="c", text="Metformin was held because of the contrast."),
        ),
        answer_sentences=(
            Phrase(id="x", text="The chest tube was placed for a large pneumothorax."),
        ),
    )
    assert predict_links(case) == {("x", "b")}


def test_what_the_columns_add_sums_to_the_leaf() -> None:
    stump = Tree(
        column=(1, -1, -1),
        threshold=(0.5, 0, 0),
        left=(1, -1, -1),
        right=(2, -1, -1),
        value=(0.0, -1.0, 2.0),
    )
    assert Forest((stump,)).path_contributions(
        np.array([[9.0, 0.5], [9.0, 0.6]])
    ).tolist() == [
        [0.0, -1.0],
        [0.0, 2.0],
    ]
