"""The numbers of the figures, compared with hand-computed or published ones."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archqa.core.judgement import cohens_kappa
from archqa.report.axis import Axis, nice_step
from archqa.report.calibration import calibration_plot, wilson_interval
from archqa.report.precision_recall import precision_recall_plot
from archqa.report.predictions import SentencePrediction
from archqa.report.timeline import timeline_panels


def test_an_axis_maps_its_ends_to_its_positions() -> None:
    axis = Axis(0, 10, 100, 20)
    assert (axis(0), axis(10), axis(5)) == (100, 20, 60)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 9))
def test_ticks_are_few_round_and_within_the_axis(low: float, span: float, max_ticks: int) -> None:
    axis = Axis(low, low + span, 0, 100)
    positions = [tick.position for tick in axis.ticks(max_ticks)]
    assert len(positions) <= max_ticks
    assert all(-0.1 <= position <= 100.1 for position in positions)
    assert all(a < b for a, b in pairwise(positions))


def test_steps_are_one_two_two_and_a_half_or_five() -> None:
    assert [nice_step(span, 5) for span in (4, 7, 10, 17, 30)] == [1, 2, 2.5, 5, 10]


def test_the_wilson_interval_is_the_published_one() -> None:
    low, high = wilson_interval(0.5, 10)  # Newcombe 1998: 5 of 10 gives .2366 to .7634
    assert (low, high) == (pytest.approx(0.2366, abs=1e-4), pytest.approx(0.7634, abs=1e-4))
    assert wilson_interval(0.0, 5)[0] == 0.0


def test_kappa_matches_a_worked_example() -> None:
    # 50 sentences: 20 yes by both judges, 5 by a only, 10 by b only, 15 no by both; kappa 0.4.
    pairs = [(True, True)] * 20 + [(True, False)] * 5 + [(False, True)] * 10 + [(False, False)] * 15
    assert cohens_kappa(pairs) == pytest.approx(0.4)
    assert cohens_kappa([(True, True)] * 10) is None


def test_a_perfect_forecast_has_no_calibration_error() -> None:
    predictions = []
    for index in range(100):
        essential = index >= 50
        probability = (0.99 if essential else 0.01) + index * 1e-6
        predictions.append(SentencePrediction(probability, False, essential))
    figure = calibration_plot(predictions)
    assert figure is not None
    assert figure.brier < 0.001
    assert figure.expected_calibration_error < 0.02
    assert sum(int(bin_.tooltip.split(", ")[-1].split()[0]) for bin_ in figure.bins) == 100


def test_few_sentences_or_probabilities_have_no_calibration_plot() -> None:
    assert calibration_plot([SentencePrediction(0.5, False, True)] * 10) is None
    assert (
        calibration_plot(
            [SentencePrediction(float(index % 2), False, True) for index in range(100)]
        )
        is None
    )


def test_the_operating_point_is_that_of_the_citations() -> None:
    # 10 of 40 essential; 8 cited, 6 of them essential: precision 6/8, recall 6/10.
    predictions = [
        SentencePrediction(1 - index / 40, index < 6 or index in (20, 21), index < 10)
        for index in range(40)
    ]
    figure = precision_recall_plot(predictions)
    assert figure is not None
    assert figure.operating_point.precision == pytest.approx(0.75)
    assert figure.operating_point.recall == pytest.approx(0.6)
    assert figure.cite_all_point.precision == pytest.approx(0.25)
    assert (figure.best_point.precision, figure.best_point.recall) == (1.0, 1.0)


def test_a_timeline_draws_dated_numbers_and_marks_the_chosen() -> None:
    rows = [
        {
            "time": "2150-01-01T06:00:00-05:00",
            "name": "Glucose",
            "value": 90,
            "unit": "mg/dL",
            "chosen": False,
        },
        {
            "time": "2150-01-02T06:00:00-05:00",
            "name": "Glucose",
            "value": "140",
            "unit": "mg/dL",
            "chosen": True,
        },
        {"time": "2150-01-03", "name": "Glucose", "value": 110.5, "unit": "mg/dL", "chosen": False},
        {"time": "2150-01-03", "name": "Glucose", "value": "positive", "unit": "", "chosen": True},
        {"time": None, "name": "Glucose", "value": 1, "unit": "mg/dL"},
        {"time": "2150-01-03", "name": "Sodium", "value": 140, "unit": "mEq/L"},
    ]
    [panel] = timeline_panels(rows)
    assert (panel.title, panel.unit, len(panel.points)) == ("Glucose", "mg/dL", 3)
    assert [point.chosen for point in panel.points] == [False, True, False]
    day_1, day_2, day_3 = panel.points
    assert day_1.x < day_2.x < day_3.x
    assert day_2.y < day_3.y < day_1.y  # Larger values are higher, which is a smaller y.


def test_a_timeline_has_the_times_of_the_record_and_not_utc() -> None:
    rows = [
        {"time": f"2150-01-0{day}T23:30:00-05:00", "name": "Glucose", "value": day}
        for day in range(1, 8)
    ]
    [panel] = timeline_panels(rows)
    assert panel.points[0].tooltip.startswith("2150-01-01 23:30")
    # A UTC axis would begin and end a day later.
    assert panel.x_ticks[0].label == "2150-01-02"
    short = timeline_panels(rows[:2])[0]
    assert short.x_ticks[0].label == "02 Jan 02:30"
    assert panel.clock == "Times as in the record (UTC−05:00)."


def test_a_timeline_follows_the_clock_of_the_record_into_summer_time() -> None:
    rows = [
        {"time": "2150-03-13T12:00:00-05:00", "name": "Glucose", "value": 1},
        {"time": "2150-03-14T12:00:00-04:00", "name": "Glucose", "value": 2},
        {"time": "2150-03-15T12:00:00-04:00", "name": "Glucose", "value": 3},
    ]
    [panel] = timeline_panels(rows)
    labels = [tick.label for tick in panel.x_ticks]
    # The first is before noon of the 14th, the first time that is on summer time.
    assert labels == ["13 Mar 17:52", "14 Mar 05:37", "14 Mar 18:22", "15 Mar 06:07"]
    assert "changes" in panel.clock


def test_times_without_an_offset_are_drawn_as_they_stand() -> None:
    rows = [{"time": f"2150-01-01T0{hour}:00:00", "name": "Glucose", "value": 1} for hour in (1, 9)]
    [panel] = timeline_panels(rows)
    assert panel.x_ticks[0].label == "01 Jan 02:00"
    assert panel.clock == ""


def test_the_labels_of_large_values_have_room() -> None:
    rows = [
        {"time": f"2150-01-0{day}", "name": "Platelets", "value": 150_000 + day * 10_000}
        for day in range(1, 8)
    ]
    [panel] = timeline_panels(rows)
    longest = max(len(tick.label) for tick in panel.y_ticks)
    assert longest == 6
    assert panel.left >= longest * 8 + 6
    assert panel.points[0].x == panel.left
