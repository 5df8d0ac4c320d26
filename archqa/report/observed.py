"""Every sentence of a run with what the agents held of it and what the key says: the ground of the three figures."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from archqa.core.case import Case
from archqa.core.judgement import Relevance, pooled
from archqa.report.material import Material


class Observed(NamedTuple):
    """One sentence: the pooled probability, whether it was cited, and whether the key calls it essential."""

    probability: float
    cited: bool
    essential: bool


def observed(material: Material) -> tuple[Observed, ...]:
    """The sentences of every answered case that the key labels and an agent judged."""
    return tuple(_observed(material))


def _observed(material: Material) -> Iterator[Observed]:
    records = {record.id: record for record in material.run.each_record()}
    for case in _notes(material):
        record, key = records.get(case.id), material.keys.get(case.id)
        if record is None or key is None or record.answer is None:
            continue
        held = pooled(record.judgements)
        cited = record.answer.cited or frozenset(record.evidence)
        for sentence, label in key.labels.items():
            if sentence in held:
                yield Observed(held[sentence], sentence in cited, label is Relevance.ESSENTIAL)


def _notes(material: Material) -> Sequence[Case]:
    return [each for each in material.run.cases if isinstance(each, Case)] if material.keys else []
