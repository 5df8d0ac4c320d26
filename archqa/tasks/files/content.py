"""From bytes to understood syntax: XML, JSON, or a table that another benchmark may recognise."""

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
    """The head of a table. ArchEHR-QA has no tables, other benchmarks do."""

    fields: frozenset[str]
    format: Literal["csv"] = "csv"

    def entries(self, mistakes: FileErrors) -> list[Node]:
        """No case of ours is in a table."""
        mistakes.add("", NEITHER)
        return []


def parse_content(text: str, path: str) -> Content:
    """Parse a file by what it begins with. Raises `InputError` if it is none of XML, JSON and CSV, or broken."""
    first = text.lstrip()[:1]
    if first == "<":
        return parse_xml(text, path)
    if first and first in "[{":
        return parse_json(text, path)
    head = text.lstrip().partition("\n")[0]
    if "," in head:
        return CsvContent(frozenset(_columns(head)))
    raise InputError(path, [f": {NEITHER}"], FORMAT_HINT)


def _columns(head: str) -> list[str]:
    try:
        return [name.strip() for name in next(csv.reader([head]), [])]
    except csv.Error:
        return []
