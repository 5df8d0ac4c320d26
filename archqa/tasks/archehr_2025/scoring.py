"""Scores ArchEHR-QA 2025: cited answers against the labels of a key."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from archqa.core.case import Case, case_digest
from archqa.core.key import CaseKey
from archqa.engine import fitted_on
from archqa.errors import CallerError, InputError
from archqa.tasks.archehr_2025.task import ARCHEHR_2025, CITATION_METRICS
from archqa.tasks.files.mistakes import printable
from archqa.tasks.key_provenance import ScoredKeys
from archqa.tasks.keys import find_key, load_key
from archqa.tasks.scoring import (
    Gold,
    KeySelection,
    ScoredRun,
    ScoringBridge,
    ScoringInputs,
    ScoringRequest,
    write_leaderboard,
)
from archqa.tasks.scoring.score_report import Baselines, RowScorer, ScoreReport
from archqa.tasks.task import EndedRun, KeyFile
from scoring.tasks import archehr2025
from scoring.tasks.archehr2025 import Reference

if TYPE_CHECKING:
    from scoring.tasks import archehr2026


Labelled = TypeVar("Labelled", Reference, "archehr2026.Reference")
"""A reference of either year."""


class KeyFiles(NamedTuple):
    """The key to score against, and a second annotator's if there is one."""

    key: KeyFile
    second: KeyFile | None

    @classmethod
    def find(cls, inputs: ScoringInputs, data: Path | None) -> Self:
        """The keys passed with `--key` and `--second-key`, else those next to the case file.

        Raises `CallerError` if there is no key, `InputError` for a malformed one.
        """
        path = inputs.key or (find_key(data) if data else None)
        if path is None:
            problem = "There is nothing to score against."
            if data:
                problem = f"There is no key beside {data}."
            raise CallerError(f"{problem}\nName it with --key FILE.")
        second_path = inputs.second_key
        if second_path is None and data is not None:
            for name in (f"{data.stem}_second_key.json", "second_annotation_key.json"):
                if second_path is None and data.with_name(name).is_file():
                    second_path = data.with_name(name)
        return cls(load_key(path), load_key(second_path) if second_path else None)

    def gold(
        self,
        read: Callable[[Mapping[str, CaseKey]], list[Labelled]],
        data_sha256: str,
        selection: KeySelection,
    ) -> Gold[Labelled]:
        """The references that `read` makes of keys.

        Raises `InputError` where a second key labels sentences that the case does not have.
        """
        fingerprints = {"key": self.key.sha256}
        if data_sha256:
            fingerprints["data"] = data_sha256
        references = read(self.key.keys)
        second_references = []
        if self.second:
            fingerprints["second_key"] = self.second.sha256
            second_references = read(self.second.keys)
            _check_second_labels(self.second.path, references, second_references)
        sentence_ids = {}
        scored = {}
        for reference in references:
            case_id = reference.case_id
            sentence_ids[case_id] = tuple(reference.sentences)
            if case_id in self.key.keys:
                scored[case_id] = self.key.keys[case_id]
        return Gold(
            references,
            second_references,
            fingerprints,
            selection,
            self.key.path,
            ScoredKeys(scored, sentence_ids),
        )


def _check_second_labels(
    path: Path, references: Iterable[Labelled], second_references: Iterable[Labelled]
) -> None:
    known_ids = {}
    for reference in references:
        known_ids[reference.case_id] = (
            reference.sentences.keys() | reference.labels.keys()
        )
    errors = []
    for reference in second_references:
        if reference.case_id not in known_ids:
            continue
        for sentence_id in reference.labels:
            if sentence_id not in known_ids[reference.case_id]:
                errors.append(
                    f": case {printable(reference.case_id)}: labels {printable(sentence_id)}, "
                    "which the note has not."
                )
    if errors:
        advice = "Name the second reader's key of these cases with --second-key."
        raise InputError(path, errors, advice)


class Archehr2025Scoring(ScoringBridge):
    """Scores rows `{"case_id", "answer"}` by the leaderboard's metrics; a judge reads cited lines."""

    takes_judge = True
    reads_submission_file = False

    def rows_of_run(self, run: EndedRun) -> tuple[list[Any], bytes]:
        """The cited answers, as `submission.json` has them."""
        rows = ARCHEHR_2025.submission(run.ended)
        text = json.dumps(rows, ensure_ascii=False, indent=2) + "\n"
        return rows, text.encode("utf-8", "surrogatepass")

    def row_scorer(self, inputs: ScoringInputs) -> RowScorer:
        """Scores rows over the cases that have labels; a single case by its citations alone."""
        references = {
            row.case_id: row for row in load_gold(inputs).references if row.labels
        }
        score = partial(archehr2025.score, bootstrap=0)
        return RowScorer(references, score, CITATION_METRICS)

    def score(self, request: ScoringRequest) -> ScoreReport:
        """Score cited answers. Warns about cases that the embedded engine was fitted on."""
        gold = load_gold(request.inputs)
        rows = request.selected_rows(gold.selection, "case_id")
        self.check_strictly(
            request, lambda: archehr2025.refusals(rows, gold.references)
        )
        score = partial(
            archehr2025.score,
            rows,
            gold.references,
            reference_order=request.settings.reference_order,
            **request.settings.text_metrics,
        )
        scores = self.compute(request, score)
        scores.warnings.extend(_fitted_case_warnings(request.submission.run))
        write_leaderboard(request.official_path, scores.scores)
        report = self.report(request, gold, scores, baselines(gold))
        if request.judge is None:
            return report
        from archqa.tasks.scoring.judging import with_judged_lines

        return with_judged_lines(
            report, request, archehr2025.cited_lines(rows, gold.references)
        )


BRIDGE = Archehr2025Scoring()


def load_gold(inputs: ScoringInputs) -> Gold[Reference]:
    """The cases of the file with the labels of their key, which may lie next to it.

    Raises `CallerError` without a case file or a key, `InputError` for malformed ones.
    """
    data = inputs.case_file
    if data is None:
        raise CallerError(
            "A submission file alone does not say which cases it answers.\n"
            "Name them with --data FILE."
        )
    cases, sha256 = inputs.notes(data)
    files = KeyFiles.find(inputs, data)
    selection = inputs.select_cases(
        case.id for case in cases if case.id in files.key.keys
    )

    def references(keys: Mapping[str, CaseKey]) -> list[Reference]:
        references = []
        for case in cases:
            if case.id not in keys or case.id in selection.excluded:
                continue
            key = keys[case.id]
            reference = Reference(
                case_id=case.id,
                question=case.patient_narrative,
                sentences=case.text_of,
                labels=dict(key.labels),
                narrative=case.patient_narrative,
                clinician_question=case.clinician_question,
                clinician_answer=key.clinician_answer,
                undecided=key.without_label(case.sentence_ids),
            )
            references.append(reference)
        return references

    return files.gold(references, sha256, selection)


def baselines(gold: Gold[Reference]) -> Baselines:
    """Citing every sentence, and the second annotator's essential sentences."""
    submissions = {"cite_everything": archehr2025.cite_sentences(gold.references)}
    if gold.second_references:
        submissions["second_reader"] = archehr2025.cite_sentences(
            gold.second_references, "essential"
        )
    scores = {}
    for name, rows in submissions.items():
        result = archehr2025.score(
            rows, gold.references, metrics=CITATION_METRICS, bootstrap=0
        )
        scores[name] = result.scores
    return scores


def _fitted_case_warnings(run: ScoredRun | None) -> list[str]:
    """A warning where the embedded engine judged cases that it was fitted on."""
    if run is None or not run.uses_engine:
        return []
    cases = run.cases()
    training_digests = fitted_on()
    fitted = sum(
        isinstance(case, Case) and case_digest(case) in training_digests
        for case in cases
    )
    if not fitted:
        return []
    return [
        f"{fitted} of {len(cases)} cases were in the fit of the embedded engine: "
        "these scores flatter it."
    ]
