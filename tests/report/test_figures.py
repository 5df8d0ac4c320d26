"""The numbers of the figures of a report, compared with hand-computed or published ones."""

import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from archqa.core.judgement import cohens_kappa
from archqa.core.question import RecordQuestion
from archqa.report import report_html
from tests.report.synthetic_runs import create_fhir_run, create_judged_run

Judged = tuple[float, bool, bool]
"""The agents' probability of a sentence, whether it is cited, and whether it is essential."""


def figures(folder: Path, sentences: Sequence[Judged]) -> str:
    """The figures of a run whose agent states these probabilities."""
    page = report_html([create_judged_run(folder, sentences)])
    return page.split("</style>")[1]


def timelines(folder: Path, rows: Sequence[dict[str, Any]]) -> list[str]:
    """The timelines of a question with these rows."""
    folder.mkdir(exist_ok=True)
    item = RecordQuestion(id="q", question="What?", patient_fhir_id="p")
    run = create_fhir_run(
        folder, "fhir-agentbench", [item], [{"agent_answer": "1", "rows": rows}]
    )
    return re.findall(
        r'<figure class="timeline">.*?</figure>', report_html([run]), re.DOTALL
    )


def labels(timeline: str, axis: str) -> list[str]:
    """The labels of the ticks of an axis."""
    anchor = {"x": "middle", "y": "end"}[axis]
    return re.findall(rf'text-anchor="{anchor}">([^<]*)</text>', timeline)


def positions(timeline: str) -> dict[str, tuple[float, float]]:
    """Where each value is drawn, by its tooltip."""
    drawn = {}
    for x, y, tooltip in re.findall(
        r'cx="([^"]+)" cy="([^"]+)"[^>]*><title>([^<]*)<', timeline
    ):
        drawn[tooltip] = (float(x), float(y))
    for x, y, tooltip in re.findall(
        r'class="pick" d="M([\d.-]+) ([\d.-]+)l[^>]*><title>([^<]*)<', timeline
    ):
        drawn[tooltip] = (float(x), float(y) + 7)
    return drawn


@pytest.mark.parametrize(
    "values",
    [
        (0, 4),
        (0, 7),
        (3, 13),
        (-20, 17),
        (1e-3, 2e-3),
        (1e5, 9.5e5),
        (7.1, 7.4),
        (5, 5),
    ],
)
def test_the_axis_of_values_has_few_round_ticks_in_order(
    tmp_path: Path, values: tuple[float, float]
) -> None:
    rows = [
        {"time": f"2150-01-0{day}", "name": "Glucose", "value": value}
        for day, value in enumerate(values, start=1)
    ]
    [timeline] = timelines(tmp_path / "run", rows)
    ticks = [float(label) for label in labels(timeline, "y")]
    assert 1 <= len(ticks) <= 4
    steps = {round(high - low, 9) for low, high in pairwise(ticks)}
    assert len(steps) <= 1
    for step in steps:
        digits = f"{step:.9e}".split("e")[0]
        assert float(digits) in {1, 2, 2.5, 5}
    heights = [float(y) for y in re.findall(r'd="M[\d.]+ ([\d.]+)H628"', timeline)]
    assert all(low > high for low, high in pairwise(heights))
    assert all(8 <= height <= 156 for height in heights)


def test_the_intervals_of_calibration_are_the_published_ones(tmp_path: Path) -> None:
    # Newcombe 1998: 5 of 10 gives .2366 to .7634.
    sentences = [(index / 100, index == 0, index % 2 == 0) for index in range(100)]
    page = figures(tmp_path, sentences)
    assert page.count("essential 50% [24%, 76%], 10 sentences</title>") == 10


def test_kappa_matches_a_worked_example() -> None:
    # 50 sentences: 20 yes by both judges, 5 by a only, 10 by b only, 15 no by both; kappa 0.4.
    pairs = (
        [(True, True)] * 20
        + [(True, False)] * 5
        + [(False, True)] * 10
        + [(False, False)] * 15
    )
    assert cohens_kappa(pairs) == pytest.approx(0.4)
    assert cohens_kappa([(True, True)] * 10) is None


def test_a_perfect_forecast_has_no_calibration_error(tmp_path: Path) -> None:
    sentences = []
    for index in range(100):
        essential = index >= 50
        probability = (0.99 if essential else 0.01) + index * 1e-6
        sentences.append((probability, index == 99, essential))
    page = figures(tmp_path, sentences)
    assert "Brier score 0.000, expected calibration error 0.010, 100 sentences" in page


def test_few_sentences_or_probabilities_have_no_calibration_plot(
    tmp_path: Path,
) -> None:
    few = [(index / 10, True, True) for index in range(10)]
    alike = [(float(index % 2), True, True) for index in range(100)]
    for name, sentences in (("few", few), ("alike", alike)):
        (tmp_path / name).mkdir()
        assert "<h3>Calibration</h3>" not in figures(tmp_path / name, sentences)


def test_the_operating_point_is_that_of_the_citations(tmp_path: Path) -> None:
    # 10 of 40 essential; 8 cited, 6 of them essential: precision 6/8, recall 6/10.
    sentences = [
        (1 - index / 40, index < 6 or index in (20, 21), index < 10)
        for index in range(40)
    ]
    page = figures(tmp_path, sentences)
    assert "this run (75.0 / 60.0)" in page
    assert "<title>this run: precision 75%, recall 60%, F1 67%</title>" in page
    assert "<title>every sentence: precision 25%, recall 100%, F1 40%</title>" in page
    # The ten essential ones are the ten most probable: the threshold is that of the tenth.
    assert "<title>at 0.78: precision 100%, recall 100%, F1 100%</title>" in page


def test_a_timeline_draws_dated_numbers_and_marks_the_chosen(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"time": "2150-01-01T06:00:00-05:00", "name": "Glucose", "value": 90, "unit": "mg/dL"},
        {"time": "2150-01-02T06:00:00-05:00", "name": "Glucose", "value": "140", "unit": "mg/dL", "chosen": True},
        {"time": "2150-01-03", "name": "Glucose", "value": 110.5, "unit": "mg/dL", "chosen": False},
        {"time": "2150-01-03", "name": "Glucose", "value": "positive", "unit": "", "chosen": True},
        {"time": None, "name": "Glucose", "value": 1, "unit": "mg/dL"},
        {"time": "2150-01-03", "name": "Sodium", "value": 140, "unit": "mEq/L"},
    ]  # fmt: skip
    [timeline] = timelines(tmp_path, rows)
    assert "<bdi>Glucose</bdi>, mg/dL." in timeline
    drawn = positions(timeline)
    assert drawn.keys() == {
        "2150-01-01 06:00  90 mg/dL",
        "2150-01-02 06:00  140 mg/dL, chosen",
        "2150-01-03 00:00  110.5 mg/dL",
    }
    day_1, day_2, day_3 = (drawn[tooltip] for tooltip in sorted(drawn))
    assert day_1[0] < day_2[0] < day_3[0]
    assert (
        day_2[1] < day_3[1] < day_1[1]
    )  # Larger values are higher, which is a smaller y.


def test_a_timeline_has_the_times_of_the_record_and_not_utc(tmp_path: Path) -> None:
    rows = [
        {"time": f"2150-01-0{day}T23:30:00-05:00", "name": "Glucose", "value": day}
        for day in range(1, 8)
    ]
    [timeline] = timelines(tmp_path, rows)
    assert min(positions(timeline)).startswith("2150-01-01 23:30")
    # A UTC axis would begin and end a day later.
    assert labels(timeline, "x")[0] == "2150-01-02"
    assert "Times as in the record (UTC−05:00)." in timeline
    [short] = timelines(tmp_path / "short", rows[:2])
    assert labels(short, "x")[0] == "02 Jan 02:30"


def test_a_timeline_follows_the_clock_of_the_record_into_summer_time(
    tmp_path: Path,
) -> None:
    rows = [
        {"time": "2150-03-13T12:00:00-05:00", "name": "Glucose", "value": 1},
        {"time": "2150-03-14T12:00:00-04:00", "name": "Glucose", "value": 2},
        {"time": "2150-03-15T12:00:00-04:00", "name": "Glucose", "value": 3},
    ]
    [timeline] = timelines(tmp_path, rows)
    # The first is before noon of the 14th, the first time that is on summer time.
    assert labels(timeline, "x") == [
        "13 Mar 17:52",
        "14 Mar 05:37",
        "14 Mar 18:22",
        "15 Mar 06:07",
    ]
    assert "whose offset from UTC changes" in timeline


def test_times_without_an_offset_are_drawn_as_they_stand(tmp_path: Path) -> None:
    rows = [
        {"time": f"2150-01-01T0{hour}:00:00", "name": "Glucose", "value": 1}
        for hour in (1, 9)
    ]
    [timeline] = timelines(tmp_path, rows)
    assert labels(timeline, "x")[0] == "01 Jan 02:00"
    assert "Times as in the record" not in timeline


def test_the_labels_of_large_values_have_room(tmp_path: Path) -> None:
    rows = [
        {
            "time": f"2150-01-0{day}",
            "name": "Platelets",
            "value": 150_000 + day * 10_000,
        }
        for day in range(1, 8)
    ]
    [timeline] = timelines(tmp_path, rows)
    longest = max(len(label) for label in labels(timeline, "y"))
    assert longest == 6
    [left] = set(re.findall(r'd="M([\d.]+) [\d.]+H628"', timeline))
    assert float(left) >= longest * 8 + 6
    assert min(x for x, _ in positions(timeline).values()) == float(left)
