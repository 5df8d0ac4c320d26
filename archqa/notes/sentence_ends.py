"""Where the sentences of a clinical text end: sentencex, corrected for clinical shorthand.

The text is of a plain copy: any white space is a space, a tab or `\\n`.
"""

import re
from collections.abc import Iterable, Iterator

from sentencex import get_sentence_boundaries

from archqa.notes.lines import BULLET
from archqa.notes.sections import OTHER_SECTION, section_kind

MAX_SENTENCE_LENGTH = 1000
"""Characters; what is longer without a full stop is a flattened list or table."""

_MAX_QUOTED_LENGTH = 200
"""Characters of a stretch in brackets or quotation marks that sentencex leaves whole."""

_ABBREVIATION = re.compile(
    r"(?:^|[\s(])(?:pt|pts|dr|drs|prof|no|vs|approx|appt|hosp|dept|ext|incl|cont|resp|"
    r"temp|wt|ht|hx|dx|tx|rx|sx|fx|st|plt|sig|subcu|subq|e\.g|i\.e"
    r"|p\.o|i\.v|i\.m|s\.c|p\.r\.n|b\.i\.d|t\.i\.d|q\.i\.d|q\.d|q\.h\.s|a\.c|p\.c|c\.c|s\.p"
    r"|ca|bzw|ggf|evtl|inkl|tgl|nr|hr|fr|fa|std|tbl|pat|vgl|sog|med|z\.b|z\.n|v\.a|d\.h|u\.a)\.\s*$",
    re.IGNORECASE,
)
"""English and German; the German ones are no words of English notes."""

_ABBREVIATION_LENGTH = 12
_SENTENCE_START = (
    r"(?:He|She|It|They|We|You|The|This|That|These|There|Then|His|Her|Their|Patient|Pt|On|At|In|If|"
    r"When|After|"
    r"However|Please|Follow|Continue|Take|Will|Was|No"
    r"|Der|Die|Das|Er|Sie|Es|Ein|Eine|Im|Am|Bei|Nach|Kein|Keine)\b"
)
_STARTS_SENTENCE = re.compile(rf"\s*{_SENTENCE_START}")
_TITLE = re.compile(r"(?:^|[\s(])(?:[Dd]rs?|[Mm]rs?|[Mm]s|[Pp]rof)\.\s*$")
_TITLE_IN_CAPITALS = re.compile(r"(?:^|[\s(])(?:MRS?|MS)\.\s*$")
_STARTS_NAME = re.compile(r"\s*(?:[A-Z]|_|\||\[\*)")
"""A name, or what de-identification left of one."""

_CONTINUATION = re.compile(
    r"\s*(?:[,;)]|(?:p\.?r\.?n|p\.?o|[bt]\.?i\.?d|q\.?i\.?d|q\.?h\.?s)\b|q\.? ?\d|q\.?[dh]\b)"
)
"""A dose goes on (`Tylenol q.4h. p.r.n. pain`); no sentence begins with a comma."""

_STARTS_LOWER = re.compile(r"\s*[^\W\d_A-ZÄÖÜÉ]")
_ENDS_WITH_STOPS = re.compile(r"(?:[a-z]\.[\w.]*|\b\d{1,2}\.\d{1,2})\.\s*$")
"""`q.4h.`, or a German day and month, `12.3.`."""

_MONTH = re.compile(
    r"\s*(?:Januar|Jänner|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November"
    r"|Dezember)\b"
)
_DAY = re.compile(r"(?:^|\s)\d{1,2}\.\s*$")
_DOSE_THEN_SENTENCE = re.compile(
    rf"(?<=\b(?:b\.i\.d|t\.i\.d|q\.i\.d|p\.r\.n|q\.h\.s)\.)\s+(?={_SENTENCE_START})|(?<=\b(?:p\.o|"
    rf"q\.d)\.)\s+(?={_SENTENCE_START})",
    re.IGNORECASE | re.ASCII,
)
_UNIT_THEN_SENTENCE = re.compile(
    r"(?:(?:\d[ ]?|/)[dhLlgmsyw]|\d[ ]?(?:mm|cm|lbs?)|\b(?:me|etc))\.\s+(?=[A-Z])"
)
"""A one-letter unit ends a sentence, though it looks like the initial of a name."""

_LIST_NUMBER = re.compile(
    rf"\s*(?:\(?(?:\d{{1,2}}|[A-Za-z]|[ivx]{{1,4}}|[IVX]{{1,4}})\s?[.)]|[{BULLET}])\s*(?:\?\s*)?"
)
_ITEM_NUMBER = re.compile(
    r"(?:^|(?<=[\s:])|(?<=[a-z)]\.))\(?(\d{1,2})[.)](?:\s+|(?=[A-Za-z]))(?=\S)"
)
_BEFORE_FIRST_ITEM = frozenset(("", ":", ".", "!", "?"))
_INSIDE_SENTENCE = frozenset(("", ":", ",", ";"))
"""After these a number stays in its sentence: a heading travels with its first item."""
_CONJUNCTION = re.compile(r"\b(?:and|or)\s+$")
_INLINE_BULLET = re.compile(r"(?<=\S)\s+(?=[•‣▪▫●■►▶➢❖\uf0a7\uf0b7]\s)")
_INLINE_LABEL = re.compile(
    r"(?<=[a-z0-9)])\s+(?=((?:HPI|PMH|PSH|[A-Z][A-Z/&]{3,})(?: [A-Z/&]+){0,5}):\s)"
)
"""A heading in capitals inside a line that lost its line breaks."""

_CLOSING_MARK = re.compile(r"(?<=[.!?])[\"”)\]]+(?=\s)")
_PAIR_MARK = re.compile(r"[()\[\]\"“”]")
_CLOSING_OF = {"(": ")", "[": "]", '"': '"', "“": "”"}
_INCHES = re.compile(r"(?<=\d)[\"”″]")
_SOFT_BREAKS = (re.compile(r"\n|;\s| {2,}"), re.compile(r",\s"), re.compile(r"\s"))


def sentence_ends(text: str) -> list[int]:
    """Return the offsets at which the sentences of `text` end, its own end included."""
    ends: list[int] = []
    start = 0
    for end in _possible_ends(text):
        if end < len(text) and _goes_on(text, start, end):
            continue
        ends.extend(_soft_ends(text, start, end))
        ends.append(end)
        start = end
    return ends


def _possible_ends(text: str) -> list[int]:
    shown = _without_misleading_pairs(text)
    ends = {boundary["end_index"] for boundary in get_sentence_boundaries("en", shown)}
    ends.update(dose.start() for dose in _DOSE_THEN_SENTENCE.finditer(text))
    ends.update(unit.end() for unit in _UNIT_THEN_SENTENCE.finditer(text))
    ends.update(bullet.end() for bullet in _INLINE_BULLET.finditer(text))
    ends.update(mark.end() for mark in _CLOSING_MARK.finditer(text) if mark.start() in ends)
    ends.difference_update([mark.start() for mark in _CLOSING_MARK.finditer(text)])
    for label in _INLINE_LABEL.finditer(text):
        if section_kind(label[1]) != OTHER_SECTION:
            ends.add(label.end())
    for number in _item_numbers(text):
        ends.difference_update(range(number.start() + 1, number.end() + 1))
        if not _is_inside_sentence(text, number.start()):
            ends.add(number.start())
    ends.discard(0)
    ends.add(len(text))
    return sorted(ends)


def _item_numbers(text: str) -> list[re.Match[str]]:
    """Return the numbers of a list inside a line (`1. Diabetes 2. Asthma`): ascending from 1."""
    items: list[re.Match[str]] = []
    first: re.Match[str] | None = None
    for number in _ITEM_NUMBER.finditer(text):
        if number[1] == "1" and _last_character(text, number.start()) in _BEFORE_FIRST_ITEM:
            first, count = number, 1
        elif first is not None and int(number[1]) == count + 1:
            items.extend([first, number] if count == 1 else [number])
            count += 1
    return items


def _is_inside_sentence(text: str, start: int) -> bool:
    """Whether the list number at `start` belongs to its sentence (`revealed 1) mass, 2) cyst`)."""
    if _last_character(text, start) in _INSIDE_SENTENCE:
        return True
    return _CONJUNCTION.search(text[max(0, start - _ABBREVIATION_LENGTH) : start]) is not None


def _last_character(text: str, end: int) -> str:
    """Return the last character before `end` that is no white space, "" if there is none."""
    while end > 0 and text[end - 1].isspace():
        end -= 1
    return text[end - 1 : end]


def _goes_on(text: str, start: int, end: int) -> bool:
    """Whether the sentence that begins at `start` goes on after `end`."""
    if end - start <= _ABBREVIATION_LENGTH and _LIST_NUMBER.fullmatch(text, start, end):
        return True
    ending = text[max(start, end - _ABBREVIATION_LENGTH) : end]
    return _CONTINUATION.match(text, end) is not None or _is_abbreviated(ending, text, end)


def _is_abbreviated(ending: str, text: str, end: int) -> bool:
    """Whether the full stop of `ending`, before `end`, is that of an abbreviation or of a date."""
    if _TITLE.search(ending) or (ending.isupper() and _TITLE_IN_CAPITALS.search(ending)):
        return _STARTS_NAME.match(text, end) is not None
    if _ABBREVIATION.search(ending):
        return _STARTS_SENTENCE.match(text, end) is None
    if _STARTS_LOWER.match(text, end):
        return _ENDS_WITH_STOPS.search(ending) is not None
    return bool(_DAY.search(ending) and _MONTH.match(text, end))


def _soft_ends(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where a sentence without full stops is cut: after at most `MAX_SENTENCE_LENGTH`."""
    while end - start > MAX_SENTENCE_LENGTH:
        start = _soft_end(text, start, start + MAX_SENTENCE_LENGTH)
        yield start


def _soft_end(text: str, start: int, limit: int) -> int:
    """Return the last good place before `limit`: a line's end, else a comma, else a space."""
    middle = (start + limit) // 2
    for soft_break in _SOFT_BREAKS:
        last = _last(soft_break.finditer(text, middle, limit))
        if last is not None:
            return last.end()
    return limit


def _last(matches: Iterable[re.Match[str]]) -> re.Match[str] | None:
    last = None
    for last in matches:  # noqa: B007
        pass
    return last


def _without_misleading_pairs(text: str) -> str:
    """Return `text`, as long as before, without marks of inches and pairs that are far apart.

    sentencex ends no sentence inside brackets and quotation marks.
    """
    characters = list(_INCHES.sub("n", text))
    for index in _misleading_marks("".join(characters)):
        characters[index] = " "
    return "".join(characters)


def _misleading_marks(text: str) -> Iterator[int]:
    """Yield the positions of brackets and quotation marks that are far from their partners."""
    open_marks: dict[str, int] = {}
    for mark in _PAIR_MARK.finditer(text):
        start = open_marks.pop(mark[0], None)
        if start is not None and mark.start() - start > _MAX_QUOTED_LENGTH:
            yield from (start, mark.start())
        elif start is None and mark[0] in _CLOSING_OF:
            open_marks[_CLOSING_OF[mark[0]]] = mark.start()
    yield from open_marks.values()
