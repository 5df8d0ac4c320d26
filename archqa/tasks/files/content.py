"""Recognises and parses the syntax of a file: XML, JSON or CSV."""

import csv
from dataclasses import dataclass
from typing import Literal

from archqa.errors import InputError
from archqa.tasks.files.json_node import parse_json
from archqa.tasks.files.mistakes import FileErrors
from archqa.tasks.files.node import Content, Node
from archqa.tasks.files.xml_node import parse_xml

NEITHER = "the file is neither XML nor JSON."
FORMAT_HINT = "Not the ArchEHR-QA format; data/README.md shows it."


@dataclass(frozen=True)
class CsvContent:
    """The header of a CSV file. ArchEHR-QA has no CSV files, other benchmarks do."""

    fields: frozenset[str]
    format: Literal["csv"] = "csv"

    def entries(self, mistakes: FileErrors) -> list[Node]:
        """None: ArchEHR-QA has no cases in CSV files."""
        mistakes.add("", NEITHER)
        return []


def parse_content(text: str, path: str) -> Content:
    """Parse a file by its first character. Raises `InputError` if it is not XML, JSON or CSV, or broken."""
    start = text.lstrip()[:1]
    if start == "<":
        return parse_xml(text, path)
    if start and start in "[{":
        return parse_json(text, path)
    header = text.lstrip().partition("\n")[0]
    if "," in header:
        return CsvContent(frozenset(_columns(header)))
    raise InputError(path, [f": {NEITHER}"], FORMAT_HINT)


def _columns(header: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([header]), [])]
    except csv.Error:
        return []
