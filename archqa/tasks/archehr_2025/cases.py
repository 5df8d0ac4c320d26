"""ArchEHR-QA: a patient's message, a clinician's question, and the note sentences that must answer it.

Source: archehr-qa.xml of the shared tasks of 2025 (soni-sarvesh/archehr-qa at 771b948) and 2026
(soni-sarvesh/archehr-qa-2026 at 344b67e); our JSON holds the same fields under the names of `Case`.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from archqa.core.case import Case, Phrase, Sentence
from archqa.tasks.files.content import FORMAT_HINT
from archqa.tasks.files.mistakes import FileErrors, is_blank, printable
from archqa.tasks.files.node import Content, Node
from archqa.tasks.files.source import Source, read_source
from archqa.tasks.load_remarks import LoadRemarks
from archqa.tasks.task import CaseSource, CompletedCase, MissingPart, TableColumns, Task

_TEXTS = ("patient_narrative", "clinician_question", "note_excerpt", "clinical_specialty", "title")
_LISTS = ("patient_question", "sentences", "answer_sentences")
_COLUMNS = TableColumns(
    id="case_id",
    required=(
        ("clinician_question", "patient_narrative", "patient_question"),
        ("note_excerpt", "sentences"),
    ),
    optional=(*_TEXTS, *_LISTS),
    short_names={"id": "case_id", "question": "clinician_question", "note": "note_excerpt"},
)
_IDENTIFYING = frozenset({"patient_narrative", "clinician_question", "note_excerpt", "sentences"})

_NO_QUESTION = MissingPart(
    "patient_narrative",
    "holds no question; give the case a patient_narrative or a clinician_question.",
)
_NO_SENTENCES = MissingPart(
    "sentences",
    "holds no sentences; list them, or give the note's text as note_excerpt.",
)


@dataclass(frozen=True)
class ArchehrQa(Task):
    """ArchEHR-QA with cited answers (2025).

    `split_remarks` is None where cases are read as they stand; else a note without sentences is
    split into them. With `refuses_incomplete`, a case that cannot be answered is a mistake.
    """

    columns: TableColumns = _COLUMNS
    split_remarks: LoadRemarks | None = None
    refuses_incomplete: bool = False

    @property
    def reads_notes(self) -> bool:
        """The evidence is the sentences of a note."""
        return True

    def recognises(self, content: Content) -> bool:
        """XML, or JSON with any field of its cases, since releases withhold fields."""
        if content.format == "json":
            return not _IDENTIFYING.isdisjoint(content.fields)
        return content.format == "xml"

    def load(self, source: CaseSource) -> tuple[Case, ...]:
        """The cases of an XML or JSON file, 2025 or 2026; withheld fields are empty.

        Raises `InputError` with every mistake of the file: by line in XML, by case id and path in JSON.
        """
        return self._read_cases(read_source(source))

    def read_line(self, line: bytes, path: str) -> Case:
        """The case in one line of a JSON Lines file. Raises `InputError` with every mistake of the line."""
        as_list = b"[" + line.strip() + b"]"
        [case] = self._read_cases(Source(path, as_list))
        return case

    def for_answering(self, remarks: LoadRemarks) -> Self:
        """See `Task.for_answering`."""
        return replace(self, split_remarks=remarks, refuses_incomplete=True)

    def for_scoring(self) -> Self:
        """See `Task.for_scoring`: sentences that the run made are made again."""
        return replace(self, split_remarks=LoadRemarks())

    def completed(self, item: Case, remarks: LoadRemarks) -> Case:
        """The case with its note split into sentences, if it lists none and has the note's text."""
        if item.sentences or is_blank(item.note_excerpt):
            return item
        from archqa.notes.sentences import split_note  # Slow to import, and seldom needed.

        sentences = split_note(item.note_excerpt)
        remarks.add_split(item.id, len(sentences))
        return item.model_copy(update={"sentences": sentences})

    def missing_parts(self, item: Case) -> Iterator[MissingPart]:
        """No question, or no sentences."""
        questions = [phrase.text for phrase in item.patient_question]
        if all(map(is_blank, (item.patient_narrative, item.clinician_question, *questions))):
            yield _NO_QUESTION
        if all(is_blank(sentence.text) for sentence in item.sentences):
            yield _NO_SENTENCES

    def dump_line(self, item: Case) -> str:
        """A case as one line of a JSON Lines file, which `read_line` reads back unchanged."""
        return json.dumps(_case_fields(item), ensure_ascii=False)

    def submission(self, ended: Iterable[CompletedCase]) -> list[dict[str, Any]]:
        """`[{"case_id", "answer"}]`, the answer one sentence a line with `|ids|` at its end."""
        rows = []
        for case in ended:
            if case.answer:
                rows.append({"case_id": case.item.id, "answer": case.answer.submission})
        return rows

    def _read_cases(self, source: Source) -> tuple[Case, ...]:
        mistakes = FileErrors(source.path, FORMAT_HINT)
        nodes = source.content.entries(mistakes)
        cases = []
        for node in nodes:
            case = _parse_case(node)
            if self.split_remarks is not None:
                case = self.completed(case, self.split_remarks)
            if self.refuses_incomplete:
                for part in self.missing_parts(case):
                    node.add_error(part.field, part.problem)
            cases.append(case)
        _refuse_repeated_ids(nodes, cases, "case_id")
        mistakes.raise_if_any()
        return tuple(cases)


def dump_json(cases: Iterable[Case]) -> str:
    """Cases as our JSON file, which `load_cases` reads back unchanged.

    Fields without content are left out.
    """
    rows = list(map(_case_fields, cases))
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


def _parse_case(node: Node) -> Case:
    node.expect(("case_id", *_TEXTS, *_LISTS))
    case_id = node.required("case_id")
    texts = {name: node.text(name) for name in _TEXTS}
    return Case(
        id=case_id,
        **texts,
        patient_question=_phrases(node.rows("patient_question")),
        sentences=_sentences(node.rows("sentences")),
        answer_sentences=_phrases(node.rows("answer_sentences")),
    )


def _sentences(rows: Sequence[Node]) -> tuple[Sentence, ...]:
    sentences = []
    for row in rows:
        row.expect(("id", "text", "paragraph_id", "start_char_index"))
        sentence = Sentence(
            id=_citable_id(row),
            text=row.required("text"),
            paragraph_id=row.text("paragraph_id"),
            start_char_index=row.number("start_char_index"),
        )
        sentences.append(sentence)
    _refuse_repeated_ids(rows, sentences, "id")
    return tuple(sentences)


def _phrases(rows: Sequence[Node]) -> tuple[Phrase, ...]:
    phrases = []
    for row in rows:
        row.expect(("id", "text", "start_char_index"))
        phrase = Phrase(
            id=_citable_id(row),
            text=row.required("text"),
            start_char_index=row.number("start_char_index"),
        )
        phrases.append(phrase)
    _refuse_repeated_ids(rows, phrases, "id")
    return tuple(phrases)


def _citable_id(row: Node) -> str:
    """An id that `|1,2|` can cite: without commas, bars and white space."""
    sentence_id = row.required("id")
    if re.search(r"[,|\s]", sentence_id):
        row.add_error(
            "id", "holds a comma, a bar or white space, which no citation can carry; rename it."
        )
    return sentence_id


def _refuse_repeated_ids(
    nodes: Sequence[Node], values: Sequence[Case | Sentence | Phrase], name: str
) -> None:
    earlier_ids: set[str] = set()
    for node, value in zip(nodes, values, strict=True):
        if value.id and value.id in earlier_ids:
            node.add_error(
                name, f"'{printable(value.id)}' is taken by an earlier one; give each its own."
            )
        earlier_ids.add(value.id)


def _case_fields(case: Case) -> dict[str, Any]:
    fields = case.model_dump(exclude={"id"})
    for name in _LISTS:
        fields[name] = [_without_empty(row) for row in fields[name]]
    return {"case_id": case.id, **_without_empty(fields)}


def _without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
