"""Sentences of a note that are never evidence, and the heading that each sentence stands under.

When in doubt a sentence is evidence: what is left out here can never be cited.
"""

import re
from collections.abc import Iterator

from archqa.core.case import Case, Sentence
from archqa.notes.excluded import non_evidence_reasons
from archqa.notes.headings import is_heading_alone, is_section_title, section_label
from archqa.notes.letter_lines import CLOSING_SENTENCES, is_letter_line, is_name_with_degree
from archqa.notes.lines import is_rule, table_cells
from archqa.terminology.words import word_list

_MARKER_ALONE = re.compile(r"\W*(?:\d{1,2}[.)]|[A-Za-z][.)])?\W*")
_POSITIVE = re.compile(r"[+＋]+")
"""`++` may be a finding."""


def non_evidence_indices(case: Case) -> frozenset[int]:
    """Return the indices of sentences that are no evidence, whatever the question.

    They are headings alone, separators, rules and header rows of tables, signatures, courtesies,
    page numbers, addresses, and text that is excluded (see `notes.excluded`).
    """
    indices = set(non_evidence_reasons(case))
    indices.update(_header_of_rows(case.sentences).values())
    for index, sentence in enumerate(case.sentences):
        if _has_no_content(sentence.text) or _is_heading(sentence) or is_letter_line(sentence.text):
            indices.add(index)
    indices.update(_closing_names(case.sentences))
    return frozenset(indices)


def headings_of_sentences(case: Case) -> dict[int, str]:
    """Return, by index, the heading that a sentence stands under; none before the first heading.

    It is a line of its own, or the label of a sentence before in the same paragraph (`FAMILY
    HISTORY: …`). A row of a table has the table's header row after its heading.
    """
    headings: dict[int, str] = {}
    header_rows = _header_of_rows(case.sentences)
    for index, heading in enumerate(_section_headings(case.sentences)):
        parts = [heading]
        if index in header_rows:
            parts.append(case.sentences[header_rows[index]].text)
        if text := " ".join(" ".join(parts).split()):
            headings[index] = text
    return headings


def _section_headings(sentences: tuple[Sentence, ...]) -> Iterator[str]:
    """Yield each sentence's heading, "" for none.

    What only introduces a list (`He takes the following:`) holds until its paragraph ends, then the
    section's own heading again; so does a label at the front of a sentence, which ends that section.
    """
    section = ""
    lead_in = ""
    paragraph_id = None
    for sentence in sentences:
        if sentence.paragraph_id != paragraph_id and paragraph_id is not None:
            lead_in = ""
        paragraph_id = sentence.paragraph_id
        label = section_label(sentence.text)
        if _is_heading(sentence):
            title = sentence.text.strip()
            is_section = is_section_title(title.strip(":*#_=- \t")) or title.isupper()
            section, lead_in = (title, "") if is_section else (section, title)
            yield ""
        elif label:
            section, lead_in = "", label
            yield ""
        else:
            yield lead_in or section


def _is_heading(sentence: Sentence) -> bool:
    return len(table_cells(sentence.text)) == 1 and is_heading_alone(sentence.text)


def _has_no_content(text: str) -> bool:
    """Whether a sentence has no letter or digit but the marker of a list."""
    if _POSITIVE.fullmatch(text.strip()):
        return False
    return _MARKER_ALONE.fullmatch(text.strip("_ \t")) is not None


def _closing_names(sentences: tuple[Sentence, ...]) -> Iterator[int]:
    """Yield names with degrees that close the note and stand under no heading (`ATTENDING:`)."""
    for index in range(max(1, len(sentences) - CLOSING_SENTENCES), len(sentences)):
        is_named = sentences[index - 1].text.rstrip().endswith(":")
        if is_name_with_degree(sentences[index].text) and not is_named:
            yield index


def _header_of_rows(sentences: tuple[Sentence, ...]) -> dict[int, int]:
    """Return the index of the header row by that of each row of the same table below it."""
    headers: dict[int, int] = {}
    for first, *others in _tables(sentences):
        texts = [sentences[index].text for index in others]
        rows = [index for index, text in zip(others, texts, strict=True) if not is_rule(text)]
        if rows and _is_header(sentences[first].text, has_rule=_has_rule_below(texts)):
            headers.update(dict.fromkeys(rows, first))
    return headers


def _has_rule_below(texts: list[str]) -> bool:
    """Whether there is a rule of columns under the first row, and none between the rows below."""
    *inner, _ = texts
    is_ruled = [is_rule(text) for text in inner]
    columns = len(table_cells(texts[0])) > 1 or texts[0].count("+") > 1
    return columns and is_ruled[:1] == [True] and sum(is_ruled) == 1


def _tables(sentences: tuple[Sentence, ...]) -> Iterator[list[int]]:
    """Yield the indices of rows that stand together with as many cells each, rules included."""
    table: list[int] = []
    width = 0
    for index, sentence in enumerate(sentences):
        cell_count = len(table_cells(sentence.text))
        if is_rule(sentence.text):
            if table:
                table.append(index)
        elif cell_count > 1 and cell_count == width:
            table.append(index)
        else:
            if table:
                yield table
            table = [index] if cell_count > 1 else []
            width = cell_count
    if table:
        yield table


def _is_header(text: str, *, has_rule: bool) -> bool:
    """Whether the first row of a table names its columns: a rule below it, or such names."""
    cells = [cell for cell in table_cells(text) if any(map(str.isalpha, cell))]
    if not cells or any(character.isdigit() for cell in cells for character in cell):
        return False
    named = sum(1 for cell in cells if _names_column(cell))
    return has_rule or 2 * named > len(cells)


def _names_column(cell: str) -> bool:
    words = re.findall(r"\w+", cell.lower())
    return bool(words) and words[-1] in word_list("column")
