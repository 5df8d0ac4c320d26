"""Who voted: the embedded engine in several roles is one voter, for it agrees with itself."""

from collections.abc import Mapping

from archqa.core.judgement import Judgement
from archqa.panel.decision import ENGINE, SPECIALIST
from archqa.runs.record import CaseRecord

_SEPARATOR = " @ "
_EMBEDDED = "embedded"

JudgementsByVoter = Mapping[str, Mapping[str, Judgement]]
"""Voter, then sentence id, to a judgement."""


def judgements_by_voter(record: CaseRecord, backends: Mapping[str, str]) -> JudgementsByVoter:
    """Return the judgements of each voter; of the engine's, the first on each sentence.

    `backends` maps agents to what runs them, as in the manifest of the run.
    """
    by_voter: dict[str, dict[str, Judgement]] = {}
    for name, judgements in record.judgements.items():
        voter = ENGINE if is_engine(name, backends) else name
        by_id = by_voter.setdefault(voter, {})
        for judgement in judgements:
            by_id.setdefault(judgement.sentence_id, judgement)
    return by_voter


def is_engine(name: str, backends: Mapping[str, str]) -> bool:
    """Whether the judgements stored under this name are the embedded engine's."""
    _, separator, backend = name.partition(_SEPARATOR)
    if separator:
        return backend == _EMBEDDED
    if name == ENGINE:
        return True
    agent = name.replace(" ", "_")
    backend = backends.get(agent) or backends.get(SPECIALIST, "")
    return backend.partition(":")[0] == _EMBEDDED
