"""Do the agents hold the same sentences to be essential? Cohen's kappa between each two, and with the key."""

from collections.abc import Mapping
from itertools import combinations_with_replacement
from typing import NamedTuple

from archqa.core.judgement import Relevance
from archqa.report.material import ReportData

KEY = "the key"
_MOST = 10
"""Agents shown: those that judged most sentences."""

_Labels = Mapping[tuple[str, str], bool]


class PairAgreement(NamedTuple):
    """Two judges: kappa (1 all alike, 0 as by chance; None where one of them never differs) over so many sentences."""

    kappa: float | None
    observed_agreement: float | None
    sentences: int


class AgreementTable(NamedTuple):
    """The table: `cells[a][b]` for judges a and b by place."""

    names: tuple[str, ...]
    cells: tuple[tuple[PairAgreement, ...], ...]


def agreement_table(material: ReportData) -> AgreementTable | None:
    """The table of a run's agents, the busiest first and the key last; None with fewer than two judges."""
    judged = _judged(material)
    names = sorted(judged, key=lambda name: (-len(judged[name]), name))[:_MOST]
    if held := _key(material):
        judged[KEY] = held
        names.append(KEY)
    if len(names) < 2:
        return None
    found: dict[tuple[int, int], PairAgreement] = {}
    for one, other in combinations_with_replacement(range(len(names)), 2):
        found[one, other] = found[other, one] = _cell(judged[names[one]], judged[names[other]])
    places = range(len(names))
    return AgreementTable(
        tuple(names), tuple(tuple(found[one, other] for other in places) for one in places)
    )


def cohens_kappa(both: int, first: int, second: int, count: int) -> float | None:
    """Cohen's kappa of two judges of `count` sentences: `both` said yes, `first` and `second` each (Cohen 1960)."""
    alike = both + (count - first - second + both)
    chance = (first * second + (count - first) * (count - second)) / count
    return None if chance == count else (alike - chance) / (count - chance)


def _judged(material: ReportData) -> dict[str, dict[tuple[str, str], bool]]:
    found: dict[str, dict[tuple[str, str], bool]] = {}
    for record in material.run.iter_records():
        for name, judged in record.judgements.items():
            mine = found.setdefault(name, {})
            mine.update(
                {
                    (record.id, each.sentence_id): each.label is Relevance.ESSENTIAL
                    for each in judged
                }
            )
    return found


def _key(material: ReportData) -> dict[tuple[str, str], bool]:
    return {
        (case_id, sentence): label is Relevance.ESSENTIAL
        for case_id, key in material.keys.items()
        for sentence, label in key.labels.items()
    }


def _cell(one: _Labels, other: _Labels) -> PairAgreement:
    shared = one.keys() & other.keys()
    if not shared:
        return PairAgreement(None, None, 0)
    both = sum(one[each] and other[each] for each in shared)
    first, second = (sum(judge[each] for each in shared) for judge in (one, other))
    alike = 2 * both + len(shared) - first - second
    return PairAgreement(
        cohens_kappa(both, first, second, len(shared)), alike / len(shared), len(shared)
    )
