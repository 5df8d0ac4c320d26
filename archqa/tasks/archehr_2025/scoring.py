"""Scores ArchEHR-QA 2025: cited answers against the labels of a key."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.engine import Engine, case_digest
from archqa.errors import CallerError
from archqa.tasks.archehr_2025.gold_files import (
    check_second_key_sentences,
    resolve_key,
    resolve_second_key,
    scored_keys,
)
from archqa.tasks.archehr_2025.task import ARCHEHR_2025, CITATION_METRICS
from archqa.tasks.official_files import write_leaderboard
from archqa.tasks.scoring import (
    Gold,
    KeySelection,
    ScoredRun,
    ScoringBridge,
    ScoringInputs,
    ScoringRequest,
)
from archqa.tasks.scoring.line_support import with_judged_lines
from archqa.tasks.scoring.row_scorer import Rows, RowScorer
from archqa.tasks.scoring.score_report import Baselines, ScoreReport
from archqa.tasks.task import EndedRun
from scoring import Scores
from scoring.tasks import archehr2025
from scoring.tasks.archehr2025 import Reference


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
        references = {row.case_id: row for row in load_gold(inputs).references if row.labels}
        return RowScorer(references, _score_rows, CITATION_METRICS)

    def score(self, request: ScoringRequest) -> ScoreReport:
        """Score cited answers. Warns about cases that the embedded engine was fitted on."""
        gold = load_gold(request.inputs)
        rows = request.selected_rows(gold.selection, "case_id")
        self.check_strictly(request, lambda: archehr2025.refusals(rows, gold.references))
        settings = {
            **request.settings.text_metrics,
            "reference_order": request.settings.reference_order,
        }

        def score(**overrides: Any) -> Scores:
            return archehr2025.score(rows, gold.references, **{**settings, **overrides})

        scores = self.compute(request, score)
        scores.warnings.extend(_fitted_case_warnings(request.submission.run))
        if request.official_path:
            write_leaderboard(request.official_path, scores.scores)
        report = self.report(request, gold, scores, baselines(gold))
        return with_judged_lines(report, request, archehr2025.cited_lines(rows, gold.references))


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
    key = resolve_key(inputs, data)
    second_key = resolve_second_key(inputs, data)
    selection = inputs.select_cases(case.id for case in cases if case.id in key.keys)
    references = _references(cases, key.keys, selection)
    second_references = _references(cases, second_key.keys if second_key else {}, selection)
    check_second_key_sentences(second_key, references, second_references)
    fingerprints = {"key": key.sha256, "data": sha256}
    if second_key:
        fingerprints["second_key"] = second_key.sha256
    scored = scored_keys(key, references)
    return Gold(references, second_references, fingerprints, selection, key.path, scored)


def baselines(gold: Gold[Reference]) -> Baselines:
    """Citing every sentence, and the second annotator's essential sentences."""
    submissions = {"cite_everything": archehr2025.cite_everything(gold.references)}
    if gold.second_references:
        submissions["second_reader"] = archehr2025.cite_essential(gold.second_references)
    scores = {}
    for name, rows in submissions.items():
        result = archehr2025.score(rows, gold.references, metrics=CITATION_METRICS, bootstrap=0)
        scores[name] = result.scores
    return scores


def _score_rows(
    rows: Rows, references: Sequence[Reference], metrics: tuple[str, ...] | None
) -> Scores:
    return archehr2025.score(rows, references, metrics=metrics, bootstrap=0)


def _references(
    cases: Sequence[Case], keys: Mapping[str, CaseKey], selection: KeySelection
) -> list[Reference]:
    references = []
    for case in cases:
        if case.id not in keys or case.id in selection.excluded:
            continue
        key = keys[case.id]
        reference = Reference(
            case_id=case.id,
            question=case.patient_narrative,
            sentences=case.text_of,
            labels={sentence_id: label.value for sentence_id, label in key.labels.items()},
            narrative=case.patient_narrative,
            clinician_question=case.clinician_question,
            clinician_answer=key.clinician_answer,
            undecided=key.without_label(case.sentence_ids),
        )
        references.append(reference)
    return references


def _fitted_case_warnings(run: ScoredRun | None) -> list[str]:
    """A warning where the embedded engine judged cases that it was fitted on."""
    if run is None or not run.uses_engine:
        return []
    cases = run.cases()
    training_digests = set(Engine.load().fitted_on)
    fitted = sum(isinstance(case, Case) and case_digest(case) in training_digests for case in cases)
    if not fitted:
        return []
    return [
        f"{fitted} of {len(cases)} cases were in the fit of the embedded engine: "
        "these scores flatter it."
    ]
