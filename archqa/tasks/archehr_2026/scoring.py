"""Scores the four subtasks of ArchEHR-QA 2026, each with its own part of case file and key.

Keys without `clinician_answer_sentences` (ours, and those of 2025) have them as lines of
`clinician_answer` that end in `|ids|`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archqa.core.case import Case
from archqa.core.id_lists import list_ids
from archqa.core.key import CaseKey, ClinicianSentence
from archqa.errors import CallerError, InputError
from archqa.tasks.archehr_2025.scoring import KeyFiles
from archqa.tasks.archehr_2025.task import CITATION_METRICS
from archqa.tasks.archehr_2026.task import submitted_claims
from archqa.tasks.files.mistakes import are_texts, printable
from archqa.tasks.files.source import read_source
from archqa.tasks.registry import default_task
from archqa.tasks.scoring import (
    Gold,
    KeySelection,
    ScoringBridge,
    ScoringInputs,
    ScoringRequest,
    shorten_quotes,
    write_leaderboard,
)
from archqa.tasks.scoring.score_report import Baselines, ScoreReport
from scoring.line_support import CitedLine
from scoring.submission import parse_answer
from scoring.tasks import archehr2026
from scoring.tasks.archehr2026 import Reference, Subtask, parse_citations

if TYPE_CHECKING:
    from archqa.tasks.scoring.judging import RowLines

_LINK_METRICS = ("micro_precision", "micro_recall", "micro_f1")


class SubtaskScoring(ScoringBridge):
    """Scores rows `{"case_id", "prediction"}` of one subtask."""

    def __init__(self, subtask: Subtask, plain_metric: str) -> None:
        self.subtask = subtask
        self.plain_metric = plain_metric
        self.takes_judge = subtask in {3, 4}

    def recognises_rows(self, rows: Sequence[Any], fields: frozenset[str]) -> bool:
        """Whether the predictions can be of this subtask; a subtask without any is not told apart."""
        if "prediction" not in fields or fields & {"question_id", "task_id"}:
            return False
        predictions = [row.get("prediction") for row in rows if isinstance(row, dict)]
        element_types: set[type] = set()
        for prediction in predictions:
            if isinstance(prediction, list):
                element_types.update(map(type, prediction))
        if dict in element_types:
            return self.subtask == 4
        if element_types:
            return self.subtask == 2
        if any(isinstance(prediction, str) for prediction in predictions):
            return self.subtask in {1, 3}
        return self.subtask in {2, 4}

    def row_errors(self, rows: Sequence[Any]) -> Iterator[str]:
        """Links that are not objects of `answer_id` and `evidence_id`."""
        if self.subtask != 4:
            return
        for index, row in enumerate(rows):
            if not isinstance(row, dict) or not isinstance(row.get("prediction"), list):
                yield (
                    f'row {index}: write {{"case_id": "1", "prediction": '
                    '[{"answer_id": "1", "evidence_id": ["2"]}]}.'
                )
                continue
            case_id = printable(str(row.get("case_id")))
            for number, link in enumerate(row["prediction"]):
                is_link = (
                    isinstance(link, dict)
                    and isinstance(link.get("answer_id"), str)
                    and are_texts(link.get("evidence_id"))
                )
                if not is_link:
                    yield (
                        f"case {case_id}: link {number} should read "
                        '{"answer_id": "1", "evidence_id": ["2", "5"]}.'
                    )

    def score(self, request: ScoringRequest) -> ScoreReport:
        """Score the predictions of this subtask."""
        gold = load_gold(request.inputs, self.subtask)
        rows = request.selected_rows(gold.selection, "case_id")
        self.check_strictly(
            request, lambda: archehr2026.refusals(rows, gold.references, self.subtask)
        )
        lines_of_run = self._lines_of_run(request, gold)
        score = partial(
            archehr2026.score,
            rows,
            gold.references,
            subtask=self.subtask,
            on_unknown="count",
            cited_lines=lines_of_run,
            **request.settings.text_metrics,
        )
        scores = self.compute(request, score)
        scores.warnings[:] = map(shorten_quotes, scores.warnings)
        write_leaderboard(request.official_path, scores.scores)
        report = self.report(request, gold, scores, baselines(gold, self.subtask))
        if request.judge is None:
            return report
        from archqa.tasks.scoring.judging import with_judged_lines

        if self.subtask == 4:
            lines = archehr2026.linked_lines(rows, gold.references)
        else:
            scored = archehr2026.scorable_cases(gold.references, self.subtask)
            lines = {
                case_id: (lines_of_run or {}).get(case_id, ()) for case_id in scored
            }
        return with_judged_lines(report, request, lines)

    def _lines_of_run(
        self, request: ScoringRequest, gold: Gold[Reference]
    ) -> "RowLines | None":
        """The lines that the prose of subtask 3 has of a run's answers, with what they cite.

        None for another subtask and for a bare file.
        """
        run = request.submission.run
        if self.subtask != 3 or run is None or run.ended is None:
            return None
        sentences_of = {
            reference.case_id: reference.sentences for reference in gold.references
        }
        lines: dict[str, tuple[CitedLine, ...]] = dict.fromkeys(sentences_of, ())
        for case in run.ended():
            sentences = sentences_of.get(case.item.id)
            if case.answer is None or sentences is None:
                continue
            cited = []
            for claim in submitted_claims(case.answer):
                cited.append(CitedLine.citing(claim.text, claim.citations, sentences))
            lines[case.item.id] = tuple(cited)
        return lines


INTERPRETATION = SubtaskScoring(1, "rouge1")
IDENTIFICATION = SubtaskScoring(2, "strict_micro_f1")
GENERATION = SubtaskScoring(3, "rouge1")
ALIGNMENT = SubtaskScoring(4, "micro_f1")


def load_gold(inputs: ScoringInputs, subtask: Subtask) -> Gold[Reference]:
    """The references of one subtask. Subtask 1 is scored against the case file, even if passed as key.

    Raises `CallerError` where a file is needed that was not named, `InputError` for files that are
    malformed or do not belong together.
    """
    if subtask == 1:
        return _load_questions(inputs)
    data = inputs.case_file
    if data is None and inputs.key and inputs.key.stem.endswith("_key"):
        # The case file that `find_key` pairs with this key.
        stem = inputs.key.stem.removesuffix("_key")
        candidates = [
            inputs.key.with_name(stem + suffix) for suffix in (".json", ".xml")
        ]
        data = next(filter(Path.is_file, candidates), None)
    files = KeyFiles.find(inputs, data)
    if data is None and subtask != 2:
        raise CallerError(
            f"Subtask {subtask} is scored with the notes at hand.\n"
            "Name the case file with --data FILE."
        )
    cases: Sequence[Case] = ()
    sha256 = ""
    if data:
        cases, sha256 = inputs.notes(data)
    selection = inputs.select_cases(files.key.keys)
    if data:
        case_ids = {case.id for case in cases}
        absent = [
            printable(case_id) for case_id in selection.ids if case_id not in case_ids
        ]
        if absent:
            noun = "case" if len(absent) == 1 else "cases"
            problems = [f": has no {noun} {list_ids(absent)}, which the key has."]
            advice = "Name the case file that belongs to the key, or choose cases with --case-ids."
            raise InputError(data, problems, advice)
    return files.gold(
        lambda keys: _references(cases, keys, selection), sha256, selection
    )


def baselines(gold: Gold[Reference], subtask: Subtask) -> Baselines:
    """Subtask 2: every sentence, and the second annotator's essential ones. Subtask 4: every link."""
    submissions: dict[str, list[dict[str, Any]]] = {}

    def predict(baseline: str, reference: Reference, prediction: list[Any]) -> None:
        row = {"case_id": reference.case_id, "prediction": prediction}
        submissions.setdefault(baseline, []).append(row)

    metrics = CITATION_METRICS
    if subtask == 2:
        for reference in gold.references:
            predict("cite_everything", reference, list(reference.labels))
        for reference in gold.second_references:
            predict("second_reader", reference, sorted(reference.labelled("essential")))
    if subtask == 4:
        metrics = _LINK_METRICS
        for reference in gold.references:
            links = []
            for answer_id in reference.citations:
                links.append(
                    {"answer_id": answer_id, "evidence_id": list(reference.sentences)}
                )
            predict("link_everything", reference, links)
    scores = {}
    for name, rows in submissions.items():
        result = archehr2026.score(
            rows, gold.references, subtask=subtask, metrics=metrics, bootstrap=0
        )
        scores[name] = result.scores
    return scores


def _scored_sentences(key: CaseKey) -> tuple[ClinicianSentence, ...]:
    """The sentences of the clinician's answer; where a key has none, its lines with their `|ids|`.

    Lines are parsed as the official scorer does, which adds full stops;
    `archqa.tasks.archehr_2026.task.clinician_sentences` has the text as it was written.
    """
    if key.clinician_answer_sentences:
        return key.clinician_answer_sentences
    sentences = []
    lines = parse_answer(key.case_id, key.clinician_answer).lines
    for number, line in enumerate(lines, start=1):
        citations = parse_citations(line.citations)
        sentences.append(
            ClinicianSentence(id=str(number), text=line.text, citations=citations)
        )
    return tuple(sentences)


def _load_questions(inputs: ScoringInputs) -> Gold[Reference]:
    path = inputs.case_file or inputs.key
    has_cases = inputs.run is not None
    if path is not None and not has_cases:
        has_cases = default_task().recognises(read_source(path).content)
    if path is None or not has_cases:
        raise CallerError(
            "Subtask 1 is scored against the clinicians' questions, which the case file holds.\n"
            "Name that file with --data FILE (or as the organisers do, with --key FILE)."
        )
    cases, sha256 = inputs.notes(path)
    selection = inputs.select_cases(case.id for case in cases)
    keys = {case_id: CaseKey(case_id=case_id) for case_id in selection.ids}
    references = _references(cases, keys, selection)
    file_role = "data" if inputs.case_file else "key"
    return Gold(references, [], {file_role: sha256}, selection, path)


def _references(
    cases: Sequence[Case], keys: Mapping[str, CaseKey], selection: KeySelection
) -> list[Reference]:
    by_id = {case.id: case for case in cases}
    answers = {case_id: _scored_sentences(key) for case_id, key in keys.items()}
    # Keys of test releases have the sentences without citations: those are withheld, not empty.
    has_citations = any(
        sentence.citations for sentence in chain.from_iterable(answers.values())
    )
    references = []
    for case_id in selection.ids:
        if case_id not in keys:
            continue
        case = by_id.get(case_id, Case(id=case_id))
        key, sentences = keys[case_id], answers[case_id]
        citations = {}
        answer_sentences = {}
        for sentence in sentences:
            answer_sentences[sentence.id] = sentence.text
            if has_citations:
                citations[sentence.id] = sentence.citations
        answer_text = " ".join(answer_sentences.values())
        reference = Reference(
            case_id=case.id,
            sentences=case.text_of,
            labels=dict(key.labels),
            narrative=case.patient_narrative,
            clinician_question=case.clinician_question,
            clinician_answer=key.clinician_answer_without_citations or answer_text,
            citations=citations,
            answer_sentences=answer_sentences,
            undecided=key.without_label(case.sentence_ids),
        )
        references.append(reference)
    return references
