"""Questions about a patient: from the resources of a record and from the notes among them."""

from archqa.asking.chart.ask_chart import (
    GIVEN_NOTE,
    answer_from_chart,
    chart_destinations,
    check_chart_settings,
)

__all__ = [
    "GIVEN_NOTE",
    "answer_from_chart",
    "chart_destinations",
    "check_chart_settings",
]
