"""Read an ArchEHR-QA submission, and warn about mistakes that lower its scores without an error.

`parse_answer` follows `load_submission` of the 2025 script (soni-sarvesh/archehr-qa at 771b948) in
all details: ids are not stripped, only the last pair of pipes in a line counts, text after the last
pipe is dropped, a full stop is added, words are split at the space character only, and citations
are collected before the text is cut to 75 words, so that those on cut lines count.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .errors import ScoringError, list_ids

Rows = Sequence[Mapping[str, Any]]
"""The objects of a JSON list, such as a submission."""

WORD_LIMIT = 75
LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Line(NamedTuple):
    """A line of an answer: its sentence and the ids between its last two pipes."""

    text: str
    citations: tuple[str, ...]


@dataclass(frozen=True)
class ParsedAnswer:
    """An answer as the official scorer reads it.

    `text` is cut to 75 words; `citations` are those of all lines.
    """

    case_id: str
    lines: tuple[Line, ...]

    @property
    def uncut_text(self) -> str:
        """All sentences on one line, uncut."""
        return " ".join(line.text for line in self.lines if line.text)

    @property
    def words(self) -> list[str]:
        """The words of the uncut text, split at spaces."""
        return [word for word in self.uncut_text.split(" ") if word.strip()]

    @property
    def text(self) -> str:
        """The text that is scored: `uncut_text` unchanged, unless it is over the limit."""
        words = self.words
        if len(words) <= WORD_LIMIT:
            return self.uncut_text
        return " ".join(words[:WORD_LIMIT])

    @property
    def citations(self) -> frozenset[str]:
        """All ids that a line cites, not stripped."""
        citations: set[str] = set()
        for line in self.lines:
            citations.update(line.citations)
        return frozenset(citations)


def parse_answer(case_id: str, answer: str) -> ParsedAnswer:
    """An answer as the official scorer reads it; any text can be parsed."""
    lines = []
    for line in answer.strip().split("\n"):
        if not line.strip():
            continue
        parts = line.rsplit("|", maxsplit=2)
        if len(parts) == 3:
            sentence = parts[0].strip()
            ids = parts[1].split(",")
        else:
            sentence = line.strip()
            ids = []
        if sentence and sentence[-1] not in ".!?":
            sentence += "."
        citations = tuple(cited for cited in ids if cited.strip())
        lines.append(Line(sentence, citations))
    return ParsedAnswer(case_id, tuple(lines))


def read_submission(
    rows: Rows,
    field: str = "answer",
    kind: type = str,
) -> list[tuple[str, Any]]:
    """(case id, value of `field`) for all rows of a submission, with duplicates.

    Raises ScoringError that lists every row without a case id or with a value of another type than
    `kind`.
    """
    row_format = f'{{"case_id": …, "{field}": …}}'
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        raise ScoringError(
            f"a submission is a list of {row_format}, not a {type(rows).__name__}."
        )
    mistakes = []
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            mistakes.append(f"row {index}: not an object; write {row_format}")
        elif not isinstance(row.get("case_id"), str | int):
            mistakes.append(f"row {index}: no case_id; give the case's id as a string")
        elif field not in row:
            keys = list_ids(list(map(str, row)))
            mistakes.append(f"case {row['case_id']}: no {field!r}; its keys are {keys}")
        elif not isinstance(row[field], kind):
            actual = type(row[field]).__name__
            problem = f"{field!r} is a {actual}; it must be a {kind.__name__}"
            mistakes.append(f"case {row['case_id']}: {problem}")
    if mistakes:
        raise ScoringError.from_mistakes("submission", mistakes)
    values = []
    for row in rows:
        case_id = str(row["case_id"])
        values.append((case_id, row[field]))
    return values


def encodable(text: str) -> str:
    """The text with the replacement character for each half of a surrogate pair."""
    return LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", text)


def lint(
    answers: Sequence[ParsedAnswer],
    sentence_ids: Mapping[str, set[str]],
) -> Iterator[str]:
    """Warnings about answers; `sentence_ids` maps a case id to its note's sentence ids."""
    counts = Counter(answer.case_id for answer in answers)
    for case_id, count in counts.items():
        if count > 1:
            rule = "each counts, as in the official script. Keep one."
            yield f"case {case_id} is answered {count} times; {rule}"
    for answer in answers:
        for warning in _answer_warnings(answer, sentence_ids[answer.case_id]):
            yield f"case {answer.case_id}: {warning}"


def _answer_warnings(answer: ParsedAnswer, sentence_ids: set[str]) -> Iterator[str]:
    cited_ids = sorted(answer.citations)
    spaced = [cited for cited in cited_ids if cited != cited.strip()]
    unknown = [cited for cited in cited_ids if cited.strip() not in sentence_ids]
    if spaced:
        effect = (
            "with a space, which the official script takes for other ids; write |1,2|."
        )
        yield f"cites {_quoted(spaced)} {effect}"
    if unknown:
        effect = "which the note does not have; each counts as a wrong citation."
        yield f"cites {_quoted(unknown)}, {effect}"
    if not answer.citations:
        yield "cites nothing; the official script refuses the whole submission for that."
    if answer.citations and not answer.text:
        yield "has citations but no text; the official script fails on that (BLEU divides by zero)."
    if len(answer.words) > WORD_LIMIT:
        yield f"has {len(answer.words)} words; what follows word {WORD_LIMIT} is not scored."
        words_before = 0
        visible: set[str] = set()
        for line in answer.lines:
            if words_before < WORD_LIMIT or not line.text:
                visible.update(line.citations)
            words_before += len(line.text.split())
        only_cut = sorted(answer.citations - visible)
        if only_cut:
            effect = (
                "only on lines past the word limit; they count, but no reader sees why."
            )
            yield f"cites {_quoted(only_cut)} {effect}"


def _quoted(ids: Sequence[str]) -> str:
    return list_ids([f'"{cited}"' for cited in ids])


def number_id_warning(rows: Rows) -> list[str]:
    """A warning about case ids that are numbers in a submission."""
    count = 0
    for row in rows:
        if not isinstance(row["case_id"], str):
            count += 1
    if not count:
        return []
    effect = "the official script takes them for other cases and refuses the whole submission"
    return [
        f'{count} case ids are numbers; {effect}. Write texts, as in "case_id": "1".'
    ]


def surrogate_warning(case_id: str, text: str) -> list[str]:
    """A warning about half of a surrogate pair in a text, which is no character."""
    if not LONE_SURROGATE.search(text):
        return []
    effect = "which the official script cannot encode: it refuses the whole submission"
    return [
        f"case {case_id}: has half of a surrogate pair (\\ud800 to \\udfff), {effect}."
    ]


def encoding_refusals(text: str) -> Iterator[str]:
    """The error of Python, as in the official scripts, for a text with half a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        yield f"UnicodeEncodeError: {error}"
