"""Sentences of a note that are never evidence, and the heading that each sentence stands under.

When in doubt a sentence is evidence: what is left out here can never be cited.
"""

import re
from collections.abc import Iterator

from archqa.core.case import Case, Sentence
from archqa.notes.lines import is_list_line, is_rule, table_cells
from archqa.notes.sections import (
    is_heading,
    is_heading_alone,
    labelled_parts,
    names_section,
    section_kind,
)
from archqa.terminology.words import word_list

_INSTRUCTION = re.compile(
    r"</?\s*(?:note|message|clinician_question|context|sentence|answer)\s*>"
    r"|\b(?:system|developer) (?:note|prompt|message)\b|\b(?:ai|language) model\b"
    r"|\bas an ai\b|\b(?:note|message|instruction)s? (?:to|for) (?:the )?(?:ai|assistant)\b"
    r"|\bignore (?:all |any |the )*(?:previous|prior|above|earlier) (?:instruction|text|note)",
    re.IGNORECASE,
)
_MISFILED_LABEL = re.compile(
    r"^\W*(?:\w+ ){0,2}(?:mis-?filed|erroneous (?:entry|note)|wrong (?:chart|patient)"
    r"|(?:entered|filed|charted|scanned) in error)\b[^:\]]{0,60}(?:[:\]]|--)",
    re.IGNORECASE,
)
"""A label at the start of an entry; in running text the same words may be about this patient."""
_DIVIDER = re.compile(r"^\s*(?:[-=*_#]{2,}|\[)")
_END_OF_ENTRY = re.compile(r"^\W*end of\b", re.IGNORECASE)

INSTRUCTION_REASON = "It tells whoever answers what to do: no evidence."
MISFILED_REASON = (
    "The note says that this was filed in error: no evidence of this patient."
)


def non_evidence_reasons(case: Case) -> dict[int, str]:
    """Return the reasons why sentences are no evidence, by index; for most notes none.

    A misfiled label excludes its own sentence. On a divider (`--- misfiled page ---`) it also
    excludes what follows, until a line that says `end of` it or the end of the paragraph.
    """
    reasons: dict[int, str] = {}
    misfiled_paragraph: str | None = None
    for index, sentence in enumerate(case.sentences):
        is_label = _MISFILED_LABEL.search(sentence.text) is not None
        if is_label or misfiled_paragraph == sentence.paragraph_id:
            reasons[index] = MISFILED_REASON
        if is_label and _DIVIDER.match(sentence.text):
            misfiled_paragraph = sentence.paragraph_id
        if _END_OF_ENTRY.match(sentence.text):
            misfiled_paragraph = None
        if _INSTRUCTION.search(sentence.text):
            reasons[index] = INSTRUCTION_REASON
    return reasons


CLOSING_SENTENCES = 5
"""A name with a degree is a signature among the last sentences of a note."""

_DEGREE = r"(?:M\.? ?D|D\.? ?O|Ph\.? ?D|R\.? ?N|N\.? ?P|PA-?C?|D\.? ?C|Dr\.? med)\b\.?"
_NAME = r"[A-Z][\w.'’-]*(?: [A-Z][\w.'’-]*){0,4}"
_NUMBER = r"[\w-]*\d[\w-]*"
_STAMP = re.compile(
    r"\W*(?:(?:electronically|digitally)? ?(?:e-)?(?:co-?)?signed (?:by|electronically|on)\b"
    r"|(?:dictated|transcribed|authenticated|typed|reviewed and signed) by\b"
    r"|dictated (?:but|and) not (?:read|reviewed)"
    rf"|(?:job|document|dictation|transcription|confirmation|voice job)"
    rf" ?(?:id|no\.?|number|#)* ?[:#] ?{_NUMBER}\W*$"
    r"|(?:dd|dt|d|t|d&t) ?: ?\d{1,2}[/.-]\d{1,2}[/.-]\d"
    r"|(?:elektronisch )?(?:signiert|unterzeichnet|diktiert) (?:von|durch)\b)",
    re.IGNORECASE,
)
_COPY = re.compile(
    rf"(?:cc|Cc|CC) ?: ?(?:Dr\.? |{_NAME},? {_DEGREE}\W*$)|cc ?:.{{0,60}}$"
)
_COURTESY = re.compile(
    r"(?:(?<!\W)\W++)?(?:dear\b.{0,60}[,:;]?"
    r"|to whom it may concern[,:.]?"
    r"|(?:(?:yours|very)(?: very)? )?(?:sincerely|faithfully|truly)(?: yours)?[,.]?"
    r"|(?:with )?(?:best|kind|warm|kindest|warmest)(?: personal)? (?:regards|wishes)[,.]?"
    r"|thank you(?: very much| so much)? for (?:the|this|your)(?: kind)? (?:consult(?:ation)?"
    r"|referral)\W*+"
    r"|(?:sehr geehrte|liebe)[rs]?\b.{0,80}[,:!]"
    r"|mit (?:freundlichen|kollegialen|besten) gr(?:ü|ue)(?:ß|ss)en[,.]?)\s*",
    re.IGNORECASE,
)
_PAGE = re.compile(
    r"(?:(?<!\W)\W++)?(?:page:? ?\d+(?: ?(?:of|/) ?\d+)?|seite ?\d+(?: ?(?:von|/) ?\d+)?"
    r"|(?:strictly )?(?:private and )?(?:confidential|vertraulich)(?: patient information)?"
    r"|\(?continued(?: on next page)?\)?|end of (?:report|note|document))\W*",
    re.IGNORECASE,
)
_ADDRESS = re.compile(
    r"(?:\d{1,5}|(?<![A-Z])[A-Z]{2,}+)(?: [A-Z][\w.]*){1,4} ?"
    r"(?:Street|St\.?|Avenue|Ave\.?|Road|Rd\.?|Drive|Dr\.|Boulevard|Blvd\.?|Lane|Suite)"
    r"(?:,? (?:Suite|Apt\.?|#) ?\w+)?"
    r"|(?<![A-Z])[A-Z]++ Street"
    r"|[A-Z][a-z]+(?: [A-Z][a-z]+){0,2},? [A-Z]{2} +\d{5}(?:-\d{4})?"
)
_SIGNATURE = re.compile(
    rf"(?:Dr\.? (?:med\.? )?)?{_NAME},? {_DEGREE}(?:,? {_DEGREE})?\s*"
)


def _is_letter_line(text: str) -> bool:
    """Whether a sentence is a stamp, a courtesy, a page number or an address, wherever it stands."""
    text = text.strip()
    if _STAMP.match(text) or _COPY.match(text):
        return True
    return any(pattern.fullmatch(text) for pattern in (_COURTESY, _PAGE, _ADDRESS))


_MARKER_ALONE = re.compile(r"\W*(?:\d{1,2}[.)]|[A-Za-z][.)])?\W*")
_POSITIVE = re.compile(r"[+＋]+")
"""`++` may be a finding."""


def non_evidence_indices(case: Case) -> frozenset[int]:
    """Return the indices of sentences that are no evidence, whatever the question.

    They are headings alone, separators, rules and header rows of tables, signatures, courtesies,
    page numbers, addresses, and text that is excluded (`non_evidence_reasons`).
    """
    indices = set(non_evidence_reasons(case))
    indices.update(_header_of_rows(case.sentences).values())
    first_closing = max(1, len(case.sentences) - CLOSING_SENTENCES)
    for index, sentence in enumerate(case.sentences):
        text = sentence.text.strip()
        # Without a letter or digit but the marker of a list.
        is_marker = _MARKER_ALONE.fullmatch(sentence.text.strip("_ \t")) is not None
        is_empty = is_marker and not _POSITIVE.fullmatch(text)
        # A name with a degree that closes the note, but under a heading (`ATTENDING:`).
        is_signature = index >= first_closing and _SIGNATURE.fullmatch(text) is not None
        if is_signature:
            is_signature = not case.sentences[index - 1].text.rstrip().endswith(":")
        if is_empty or is_signature or _is_heading(sentence) or _is_letter_line(text):
            indices.add(index)
    return frozenset(indices)


def headings_of_sentences(case: Case) -> dict[int, str]:
    """Return, by index, the heading that a sentence stands under; none before the first heading.

    It is the last heading that is a line of its own, then the label of a sentence before on the same
    line (`FH: …`; without a note's text, in the same paragraph). A label that a sentence begins with
    is no heading of it. A row of a table has the table's header row after its heading.
    """
    headings: dict[int, str] = {}
    header_rows = _header_of_rows(case.sentences)
    for index, heading in enumerate(_section_headings(case)):
        parts = [heading]
        if index in header_rows:
            parts.append(case.sentences[header_rows[index]].text)
        if text := " ".join(" ".join(parts).split()):
            headings[index] = text
    return headings


def _section_headings(case: Case) -> Iterator[str]:
    """Yield each sentence's heading, "" for none.

    What only introduces a list (`He takes the following:`) holds until the list or the paragraph
    ends, then the section's own heading again. A section ends with a heading, or with a line that
    begins with the name of another section.
    """
    section = lead_in = label = ""
    is_under_heading = is_list = is_labelled_list = False
    paragraph_id = None
    end = 0
    texts = [sentence.text for sentence in case.sentences]
    for sentence, next_text in zip(case.sentences, [*texts[1:], ""], strict=True):
        text = sentence.text
        start = sentence.start_char_index or 0
        is_new_paragraph = sentence.paragraph_id != paragraph_id
        is_new_line = is_new_paragraph or "\n" in case.note_excerpt[end:start]
        paragraph_id = sentence.paragraph_id
        end = start + len(text)
        if is_new_line:
            was_list, is_list = is_list, is_list_line(text)
            is_after_list = was_list and not is_list
            if (is_new_paragraph or is_after_list) and not is_under_heading:
                lead_in = ""
            if is_new_paragraph or not (is_list and is_labelled_list):
                label = ""
        # `STOPPED THIS ADMISSION` above a list; without one, capitals may be a fact.
        is_above_list = is_list_line(next_text) and not is_list_line(text)
        is_title = text.isupper() and not any(map(str.isdigit, text))
        is_marked = text.startswith("#") or (is_above_list and is_title)
        is_marked = is_marked and is_heading(text)
        # "Family history" alone on its line; a label without capitals needs no colon there.
        is_title = is_new_line and bool(_TITLE.fullmatch(text)) and names_section(text)
        is_under_heading = is_marked or is_title or _is_heading(sentence)
        if is_under_heading and not _is_letter_line(text):
            lead_in, label = text.strip(), ""
            is_section = names_section(lead_in.strip(":*#_=- \t"))
            if is_section or is_marked or lead_in.isupper():
                section, lead_in = lead_in, ""
            yield ""
            continue
        is_row = len(table_cells(text)) > 1
        labels = [""] if is_row else [part.label for part in labelled_parts(text)]
        first, last = labels[0], labels[-1]
        if section.startswith("#") and text.startswith("#"):
            section = ""
        if is_new_line and names_section(first) and not _BULLET.match(text):
            is_below = (
                section.isupper() and not first.isupper() and not is_new_paragraph
            )
            # "Vital signs:" of a physical examination; "Labs:" below "HOSPITAL COURSE:".
            has_parts = {
                "examination": section_kind(first) == "examination",
                "course": is_below,
                "plan": is_below,
            }
            if not has_parts.get(section_kind(section)):
                section = lead_in = ""
        if first or _ENDS_LABEL.match(text):
            label = ""
        yield " ".join(filter(None, (lead_in or section, label)))
        if names_section(last):
            label = last
            is_labelled_list = is_list_line(f"{text.rpartition(last)[2].strip('* ')} ")


_TITLE = re.compile(r"[A-Za-z][A-Za-z /&]+")
_BULLET = re.compile(r"\s*[-*•]+\s")
_ENDS_LABEL = re.compile(
    r"\W*(?:(?:NK[FD]*A|BP|HR|RR|GCS|BMI|NEWS2?|Temp|Sats?|SpO2|On examination)\b|T \d"
    r"|No known (?:\w+ )?allerg)"
)
"""Allergies denied and vital signs, which many notes put after another label without their own."""


def _is_heading(sentence: Sentence) -> bool:
    return len(table_cells(sentence.text)) == 1 and is_heading_alone(sentence.text)


def _header_of_rows(sentences: tuple[Sentence, ...]) -> dict[int, int]:
    """Return the index of the header row by that of each row of the same table below it."""
    headers: dict[int, int] = {}
    for first, *others in _tables(sentences):
        rules = [index for index in others if is_rule(sentences[index].text)]
        rows = [index for index in others if index not in rules]
        if not rows:
            continue
        # A rule of columns under the first row, and none between the rows below.
        below = sentences[others[0]].text
        has_columns = len(table_cells(below)) > 1 or below.count("+") > 1
        has_rule = rules[:1] == others[:1] and set(rules) <= {others[0], others[-1]}
        if _is_header(sentences[first].text, has_rule=has_rule and has_columns):
            headers.update(dict.fromkeys(rows, first))
    return headers


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
    if not cells or any(map(str.isdigit, "".join(cells))):
        return False
    named = 0
    for cell in cells:
        words = re.findall(r"\w+", cell.lower())
        if words and words[-1] in word_list("column"):
            named += 1
    return has_rule or 2 * named > len(cells)
