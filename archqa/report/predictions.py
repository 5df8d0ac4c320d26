"""Every sentence of a run with the agents' probability, the citation and the key's label."""

from collections.abc import Iterator
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.judgement import Relevance, mean_probabilities
from archqa.core.key import CaseKey
from archqa.report.report_data import ReportData
from archqa.runs.record import CaseRecord


class SentencePrediction(NamedTuple):
    """One sentence: the agents' mean probability, whether it is cited, and whether essential."""

    probability: float
    cited: bool
    essential: bool


def sentence_predictions(data: ReportData) -> tuple[SentencePrediction, ...]:
    """Return the sentences of every answered case that have a gold label and a judgement."""
    if not data.keys:
        return ()
    records = {record.id: record for record in data.run.iter_records()}
    predictions: list[SentencePrediction] = []
    for case in data.run.cases:
        if isinstance(case, Case) and case.id in records and case.id in data.keys:
            predictions += _case_predictions(records[case.id], data.keys[case.id])
    return tuple(predictions)


def _case_predictions(record: CaseRecord, key: CaseKey) -> Iterator[SentencePrediction]:
    if record.answer is None:
        return
    probabilities = mean_probabilities(record.judgements)
    cited_ids = record.answer.cited or frozenset(record.evidence)
    for sentence_id, label in key.labels.items():
        if sentence_id in probabilities:
            yield SentencePrediction(
                probability=probabilities[sentence_id],
                cited=sentence_id in cited_ids,
                essential=label is Relevance.ESSENTIAL,
            )
