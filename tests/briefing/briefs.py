"""Summaries of the invented patient, and the lines of one section."""

import archqa
from archqa.settings import Settings
from tests.briefing.invented_chart import NOW


def brief(record: str, **options: object) -> archqa.Brief:
    """The summary of a store at the time of the visit."""
    settings = {"now": NOW, "settings": Settings(), **options}
    return archqa.brief(patient="p1", record=record, **settings)  # type: ignore[arg-type]


def lines_of(summary: archqa.Brief, name: str) -> list[str]:
    """The texts of the lines of a section."""
    [section] = [section for section in summary.sections if section.name == name]
    return [line.text for line in section.lines]


def message_of(summary: archqa.Brief, name: str) -> str:
    """What a section says before its lines."""
    [section] = [section for section in summary.sections if section.name == name]
    return section.message
