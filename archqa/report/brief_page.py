"""A patient's summary as one HTML page that needs nothing but a browser, also on paper."""

from archqa.briefing.brief import Brief, BriefLine, evidence_numbers, number_ranges
from archqa.report.page import render


def brief_html(brief: Brief) -> str:
    """Return the page: each line's numbers lead to the evidence below. All text is escaped."""
    numbers = evidence_numbers(brief)

    def ranges(line: BriefLine) -> list[tuple[int, int]]:
        return list(number_ranges(numbers[citation] for citation in line.citations))

    return render("brief.html.jinja", brief=brief, ranges=ranges, live=False)
