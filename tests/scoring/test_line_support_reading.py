"""`line_support` beside a reading of 200 lines by a language model: what scoring/README.md says of it."""

import pytest

from scoring.line_support import is_carried
from tests.benchmarks.line_support import agreement, in_requests
from tests.scoring.read_lines import ReadLine, read_lines

LINES = read_lines()
COUNTED = [each for each in LINES if each.line.is_counted]


def by_rule(each: ReadLine) -> bool:
    return is_carried(each.line, 0.5)


def test_two_hundred_lines_were_read() -> None:
    assert len(LINES) == 200
    assert {each.carried for each in LINES} == {"yes", "partly", "no"}


def test_no_line_that_is_not_carried_passes_the_rule() -> None:
    assert not [each for each in COUNTED if each.carried != "yes" and by_rule(each)]


def test_a_third_of_the_carried_lines_fail_the_rule_none_of_them_in_the_notes_words() -> (
    None
):
    carried = [each for each in COUNTED if each.carried == "yes"]
    passing = [each for each in carried if by_rule(each)]
    assert len(passing) / len(carried) == pytest.approx(0.685, abs=0.001)
    assert all(by_rule(each) for each in carried if each.by == "engine")


def test_the_rule_agrees_with_the_reading_on_four_lines_of_five() -> None:
    found = agreement(LINES, [by_rule(each) for each in LINES])
    assert len(found.verdicts) == 189
    assert found.agreement == pytest.approx(0.794, abs=0.001)
    assert found.kappa == pytest.approx(0.600, abs=0.001)
    assert "recall 1.000 (65 of 65)" in str(found)


@pytest.mark.parametrize("size", [None, 10])
def test_a_judge_is_shown_every_line_once_and_none_beside_itself(
    size: int | None,
) -> None:
    requests = in_requests(LINES, size)
    assert sum(map(len, requests.values())) == 200
    for lines in requests.values():
        assert len({each.line.text for each in lines}) == len(lines) <= 10
