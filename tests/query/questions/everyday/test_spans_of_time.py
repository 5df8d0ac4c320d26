from datetime import date

import pytest

from archqa.query.questions.everyday.times import find_spans

TODAY = date(2026, 11, 23)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a1c in 2019", ["in 2019"]),
        ("since 2019", ["since 2019"]),
        ("after 2019", ["after 2019"]),
        ("before may 2019", ["before May 2019"]),
        ("by 2019", ["until 2019"]),
        ("on 2020-10-14", ["on 14 October 2020"]),
        ("10/14/2020", ["on 14 October 2020"]),
        ("14th of october, 2020", ["on 14 October 2020"]),
        ("oct. 14, 2020", ["on 14 October 2020"]),
        ("sept 2024", ["in September 2024"]),
        ("from february 17, 2024", ["on 17 February 2024"]),
        ("from 2015 to 2018", ["since 2015", "until 2018"]),
        ("from 2015 on", ["since 2015"]),
        ("2015 onwards", ["since 2015"]),
        ("between may 2015 and now", ["since May 2015"]),
        ("between 2015 and 2018", ["since 2015", "until 2018"]),
        ("between the 2019 checkup and now", ["since 2019"]),
        ("at the march 2021 visit", ["in March 2021"]),
        ("this year", ["this year"]),
        ("last month", ["last month"]),
        ("yesterday", ["yesterday"]),
        ("in the last five years", ["since 5 years ago"]),
        ("over the past year", ["since 1 year ago"]),
        ("in the past couple of weeks", ["since 2 weeks ago"]),
        ("before the last 2 years", ["before 2 years ago"]),
        ("three days ago", ["on the day 3 days before"]),
        ("2 weeks ago", ["on the day 14 days before"]),
        ("a year ago", ["last year"]),
        ("more than 3 years ago", ["before 3 years ago"]),
        ("since 6 months ago", ["since 6 months ago"]),
        ("in the 1990s", ["since 1990", "until 1999"]),
        ("before the 1990s", ["before 1990"]),
        ("above 2019.5", []),
        ("in the last years", []),
        ("in may", []),
        ("1234", []),
    ],
)
def test_a_stretch_of_time_is_read_with_its_relation(
    text: str, expected: list[str]
) -> None:
    spans = [str(span) for found in find_spans(text) for span in found.spans]
    assert spans == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("in november", "in November 2026"), ("in december", "in December 2025")],
)
def test_a_month_without_a_year_is_the_last_one_that_has_begun(
    text: str, expected: str
) -> None:
    (found,) = find_spans(text, TODAY)
    assert [str(span) for span in found.spans] == [expected]


def test_the_words_of_the_relation_belong_to_the_span() -> None:
    text = "visits prior to may 2019 please"
    (found,) = find_spans(text)
    assert text[found.start : found.end] == "prior to may 2019"
