"""Agreement of the agents on which sentences are essential: Cohen's kappa of each pair."""

from collections.abc import Mapping
from typing import NamedTuple

from archqa.core.judgement import Relevance, cohens_kappa, observed_agreement
from archqa.report.note_view import judgements_by_agent
from archqa.report.report_data import ReportData

KEY = "the key"

_MAX_AGENTS = 10
"""Agents shown: those that judged the most sentences."""

SentenceKey = tuple[str, str]
"""Case id and sentence id."""

EssentialLabels = Mapping[SentenceKey, bool]


class PairAgreement(NamedTuple):
    """The agreement of two judges over the sentences both judged.

    `kappa` is 1 for full agreement, 0 for chance, and None where it is undefined because both
    judges gave every sentence the same label.
    """

    kappa: float | None
    observed_agreement: float | None
    sentences: int


class AgreementTable(NamedTuple):
    """The agreement of all pairs: `cells[i][j]` is that of `names[i]` and `names[j]`."""

    names: tuple[str, ...]
    cells: tuple[tuple[PairAgreement, ...], ...]


def agreement_table(data: ReportData) -> AgreementTable | None:
    """Return the table of a run's agents, the key last; None with fewer than two agents.

    The embedded engine is one agent in all its roles: it agrees with itself.
    """
    labels_by_judge = _agent_labels(data)
    if len(labels_by_judge) < 2:
        return None
    names = sorted(labels_by_judge, key=lambda name: (-len(labels_by_judge[name]), name))
    names = names[:_MAX_AGENTS]
    key_labels = _key_labels(data)
    if key_labels:
        labels_by_judge[KEY] = key_labels
        names.append(KEY)
    rows = []
    for row_name in names:
        row = []
        for column_name in names:
            row_labels = labels_by_judge[row_name]
            column_labels = labels_by_judge[column_name]
            row.append(_pair_agreement(row_labels, column_labels))
        rows.append(tuple(row))
    return AgreementTable(tuple(names), tuple(rows))


def _agent_labels(data: ReportData) -> dict[str, dict[SentenceKey, bool]]:
    labels_by_agent: dict[str, dict[SentenceKey, bool]] = {}
    backends = data.run.manifest.backends
    for record in data.run.iter_records():
        for agent, judgements in judgements_by_agent(record, backends).items():
            labels = labels_by_agent.setdefault(agent, {})
            for sentence_id, judgement in judgements.items():
                labels[record.id, sentence_id] = judgement.label is Relevance.ESSENTIAL
    return labels_by_agent


def _key_labels(data: ReportData) -> dict[SentenceKey, bool]:
    labels = {}
    for case_id, key in data.keys.items():
        for sentence_id, label in key.labels.items():
            labels[case_id, sentence_id] = label is Relevance.ESSENTIAL
    return labels


def _pair_agreement(labels_a: EssentialLabels, labels_b: EssentialLabels) -> PairAgreement:
    shared = labels_a.keys() & labels_b.keys()
    if not shared:
        return PairAgreement(None, None, 0)
    pairs = [(labels_a[sentence], labels_b[sentence]) for sentence in shared]
    return PairAgreement(cohens_kappa(pairs), observed_agreement(pairs), len(pairs))
