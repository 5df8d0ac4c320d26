"""ArchEHR-QA 2025: a patient's message, a clinician's question, and the note sentences that must answer it.

Source: archehr-qa.xml of the shared tasks of 2025 (soni-sarvesh/archehr-qa at 771b948) and 2026
(soni-sarvesh/archehr-qa-2026 at 344b67e); our JSON holds the same fields under the names of `Case`.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Self, TypeVar

from archqa.core.answer import WORD_LIMIT
from archqa.core.case import Case, Phrase, Sentence
from archqa.core.result import TaskResult
from archqa.core.value import FrozenModel, JsonObject
from archqa.tasks.archehr_2025 import NAME
from archqa.tasks.files.mistakes import FileErrors, is_blank, refuse_repeated_ids
from archqa.tasks.files.source import FORMAT_HINT, Content, Node, read_source
from archqa.tasks.task import (
    CaseSource,
    CompletedCase,
    ExportFormat,
    LoadRemarks,
    MissingPart,
    ScoreDisplay,
    TableColumns,
    Task,
)

CITATION_METRICS = ("strict_micro_precision", "strict_micro_recall", "strict_micro_f1")

_TEXTS = (
    "patient_narrative",
    "clinician_question",
    "note_excerpt",
    "clinical_specialty",
    "title",
)
_LISTS = ("patient_question", "sentences", "answer_sentences")
_COLUMNS = TableColumns(
    id="case_id",
    required=(
        ("clinician_question", "patient_narrative", "patient_question"),
        ("note_excerpt", "sentences"),
    ),
    optional=(*_TEXTS, *_LISTS),
    short_names={
        "id": "case_id",
        "question": "clinician_question",
        "note": "note_excerpt",
    },
)
_TAKEN = "is taken by an earlier one; give each its own."
_IDENTIFYING = frozenset(
    {"patient_narrative", "clinician_question", "note_excerpt", "sentences"}
)

_NO_QUESTION = MissingPart(
    "patient_narrative",
    "holds no question; give the case a patient_narrative or a clinician_question.",
)
_NO_SENTENCES = MissingPart(
    "sentences",
    "holds no sentences; list them, or give the note's text as note_excerpt.",
)

Passage = TypeVar("Passage", Sentence, Phrase)


class AnswerLinks(FrozenModel):
    """The note sentences that one sentence of the clinician's answer rests on."""

    answer_id: str
    evidence_id: tuple[str, ...]


class ArchehrResult(TaskResult):
    """What a subtask of 2026 takes of a case besides the cited answer.

    It is the clinician's question behind a message (subtask 1), or links to evidence (subtask 4).
    """

    question: str | None = None
    links: tuple[AnswerLinks, ...] | None = None


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
        opened = read_source(source)
        mistakes = FileErrors(opened.path, FORMAT_HINT)
        nodes = opened.content.entries(mistakes)
        cases = []
        for node in nodes:
            node.expect(("case_id", *_TEXTS, *_LISTS))
            case = Case(
                id=node.required("case_id"),
                **{name: node.text(name) for name in _TEXTS},
                patient_question=_passages(node, "patient_question", Phrase),
                sentences=_passages(node, "sentences", Sentence),
                answer_sentences=_passages(node, "answer_sentences", Phrase),
            )
            if self.split_remarks is not None:
                case = self.completed(case, self.split_remarks)
            if self.refuses_incomplete:
                for part in self.missing_parts(case):
                    node.add_error(part.field, part.problem)
            cases.append(case)
        refuse_repeated_ids(nodes, map(attrgetter("id"), cases), "case_id", _TAKEN)
        mistakes.raise_if_any()
        return tuple(cases)

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
        from archqa.notes.sentences import (
            split_note,
        )  # Slow to import, and seldom needed.

        sentences = split_note(item.note_excerpt)
        remarks.add_split(item.id, len(sentences))
        return item.model_copy(update={"sentences": sentences})

    def missing_parts(self, item: Case) -> Iterator[MissingPart]:
        """No question, or no sentences."""
        questions = [phrase.text for phrase in item.patient_question]
        if all(
            map(is_blank, (item.patient_narrative, item.clinician_question, *questions))
        ):
            yield _NO_QUESTION
        if all(is_blank(sentence.text) for sentence in item.sentences):
            yield _NO_SENTENCES

    def dump_line(self, item: Case) -> str:
        """A case as one line of a JSON Lines file, which `read_line` reads back unchanged."""
        return json.dumps(_case_fields(item), ensure_ascii=False)

    def submission(self, ended: Iterable[CompletedCase]) -> list[JsonObject]:
        """`[{"case_id", "answer"}]`, the answer one sentence a line with `|ids|` at its end."""
        rows = []
        for case in ended:
            if case.answer:
                rows.append({"case_id": case.item.id, "answer": case.answer.submission})
        return rows


def dump_json(cases: Iterable[Case]) -> str:
    """Cases as our JSON file, which `load_cases` reads back unchanged.

    Fields without content are left out.
    """
    rows = list(map(_case_fields, cases))
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"


def _passages(case: Node, name: str, kind: type[Passage]) -> tuple[Passage, ...]:
    """The sentences or phrases in a field of a case, with ids that `|1,2|` can cite."""
    rows = case.rows(name)
    passages = []
    for row in rows:
        row.expect(kind.model_fields)
        passage_id = row.required("id")
        if re.search(r"[,|\s]", passage_id):
            row.add_error(
                "id",
                "holds a comma, a bar or white space, which no citation can carry; rename it.",
            )
        fields: dict[str, Any] = {"id": passage_id, "text": row.required("text")}
        if kind is Sentence:
            fields["paragraph_id"] = row.text("paragraph_id")
        passages.append(kind(**fields, start_char_index=row.number("start_char_index")))
    refuse_repeated_ids(rows, map(attrgetter("id"), passages), "id", _TAKEN)
    return tuple(passages)


def _case_fields(case: Case) -> JsonObject:
    fields = case.model_dump(exclude={"id"})
    for name in _LISTS:
        fields[name] = list(map(_without_empty, fields[name]))
    return {"case_id": case.id, **_without_empty(fields)}


def _without_empty(fields: JsonObject) -> JsonObject:
    return {
        name: value for name, value in fields.items() if value not in (None, "", [])
    }


ARCHEHR_2025 = ArchehrQa(
    NAME,
    "ArchEHR-QA 2025: cited answers",
    word_limit=WORD_LIMIT,
    result_type=ArchehrResult,
    pipelines_path="archqa.tasks.archehr_2025.pipelines:CITED_ANSWER_PIPELINES",
    scoring_path="archqa.tasks.archehr_2025.scoring:BRIDGE",
    display=ScoreDisplay(
        headline=(
            "overall_score",
            "strict_micro_f1",  # The official overall factuality score, scored alone as well.
            "overall_relevance_score",
            "partial_relevance_score",
            "strict_micro_precision",
            "strict_micro_recall",
        ),
        case_metrics=CITATION_METRICS,
    ),
    export=ExportFormat(needs_all_cases=True),
)
