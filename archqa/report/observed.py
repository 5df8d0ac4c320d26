"""Every sentence of a run with what the agents held of it and what the key says: the ground of the three figures."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.probability import mean_probabilities
from archqa.report.material import ReportData


class SentencePrediction(NamedTuple):
    """One sentence: the pooled probability, whether it was cited, and whether the key calls it essential."""

    probability: float
    cited: bool
    essential: bool


def sentence_predictions(material: ReportData) -> tuple[SentencePrediction, ...]:
    """The sentences of every answered case that the key labels and an agent judged."""
    return tuple(_observed(material))


def _observed(material: ReportData) -> Iterator[SentencePrediction]:
    records = {record.id: record for record in material.run.iter_records()}
    for case in _notes(material):
        record, key = records.get(case.id), material.keys.get(case.id)
        if record is None or key is None or record.answer is None:
            continue
        held = mean_probabilities(record.judgements)
        cited = record.answer.cited or frozenset(record.evidence)
        for sentence, label in key.labels.items():
            if sentence in held:
                yield SentencePrediction(
                    held[sentence], sentence in cited, label is Relevance.ESSENTIAL
                )


def _notes(material: ReportData) -> Sequence[Case]:
    return [each for each in material.run.cases if isinstance(each, Case)] if material.keys else []
