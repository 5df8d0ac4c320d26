"""Which denials of a line contradict what it cites."""

import pytest

from archqa.agents.grounding import Conflict, find_conflict
from archqa.notes.assertion import Passage


@pytest.mark.parametrize(
    ("line", "source", "conflict"),
    [
        ("He has no pneumonia.", "Pneumonia of the left lower lobe.", Conflict.PRESENT),
        (
            "No further imaging is needed: the CT showed the nodule.",
            "CT chest: nodule 6 mm, no more scans.",
            None,
        ),
        ("No: the biopsy showed no carcinoma.", "No atypia, no carcinoma.", None),
    ],
)
def test_a_denial_contradicts_only_what_stands_just_after_it(
    line: str, source: str, conflict: Conflict | None
) -> None:
    assert find_conflict(line, [Passage(source)], "What did it show?") is conflict
