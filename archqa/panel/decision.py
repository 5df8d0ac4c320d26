"""From judgements to the selected evidence: voters, their votes and the selection. No model is called."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from archqa.core.judgement import Judgement
from archqa.core.probability import pool, stated_probability
from archqa.errors import CallerError
from archqa.panel import combiner
from archqa.panel.combiner import UNFITTED, Combiner, Votes
from archqa.panel.settings import PanelSettings

GENERAL_EXPERT = "general expert"
SPECIALIST = "specialist"
ANSWER_FIRST = "answer first"
ENGINE = "embedded engine"
VERIFICATION = "verification"

_SEPARATOR = " @ "


class EvidenceSelection(NamedTuple):
    """Probabilities by sentence id, the selected set, its borderline sentences, and remarks."""

    probabilities: dict[str, float]
    essential: frozenset[str]
    borderline: frozenset[str]
    remarks: tuple[str, ...] = ()


def voter_name(role: str, backend: str) -> str:
    """The name that judgements are stored under: a role or a specialty, and the backend's label."""
    return f"{role}{_SEPARATOR}{backend}"


def parse_voter(name: str, experts: Iterable[str] = ()) -> str:
    """The voter of a name: the specialists of all fields at one backend are one voter."""
    role, separator, backend = name.partition(_SEPARATOR)
    if role in experts:
        role = SPECIALIST
    return f"{role}{separator}{backend}"


def is_enabled_voter(voter: str, settings: PanelSettings) -> bool:
    """Whether the setting `voters` names this voter by role, by backend, or by both; all if empty."""
    names = [name.strip() for name in settings.voters.split(",")]
    enabled = set(filter(None, names))
    if not enabled:
        return True
    role, _, backend = voter.partition(_SEPARATOR)
    return not enabled.isdisjoint({voter, role, backend})


def pool_votes(judgements: Mapping[str, Sequence[Judgement]], experts: Iterable[str] = ()) -> Votes:
    """One vote for each voter and sentence; several judgements of the same voter are pooled."""
    experts = frozenset(experts)
    stated: dict[str, dict[str, list[float]]] = {}
    for name, voter_judgements in judgements.items():
        role, _, _ = name.partition(_SEPARATOR)
        if role == VERIFICATION:
            continue
        voter = parse_voter(name, experts)
        by_sentence = stated.setdefault(voter, defaultdict(list))
        for judgement in voter_judgements:
            probability = stated_probability(judgement)
            by_sentence[judgement.sentence_id].append(probability)
    return {voter: _pool_by_sentence(by_sentence) for voter, by_sentence in stated.items()}


def load_combiner(settings: PanelSettings) -> Combiner:
    """The combiner of the settings, else one of equal weights. Raises `InputError`."""
    return combiner.load(settings.combiner) if settings.combiner else UNFITTED


def select_evidence(ids: Sequence[str], votes: Votes, settings: PanelSettings) -> EvidenceSelection:
    """Select the set of greatest expected F from the enabled votes.

    Raises `CallerError` if no voter is enabled.
    """
    enabled = _enabled_votes(votes, settings)
    combiner = load_combiner(settings)
    probabilities = combiner.probabilities(enabled, ids)
    essential = combiner.choose(probabilities, settings.operating_point, settings.threshold)
    threshold = settings.threshold
    if threshold is None:
        threshold = combiner.expected_f1 / 2
    borderline = frozenset(
        sentence_id
        for sentence_id in essential
        if probabilities[sentence_id] < threshold + settings.margin
    )
    remarks = []
    for voter in enabled:
        if not combiner.has_weight_for(voter):
            remarks.append(f"{voter} was not in the combiner's fit: its vote has no weight")
    return EvidenceSelection(probabilities, essential, borderline, tuple(remarks))


def _enabled_votes(votes: Votes, settings: PanelSettings) -> Votes:
    enabled = {}
    for voter, by_sentence in votes.items():
        if is_enabled_voter(voter, settings):
            enabled[voter] = by_sentence
    if not enabled:
        available = ", ".join(votes) or "none"
        raise CallerError(f"None of the voters is {settings.voters!r}.\nThere are: {available}.")
    return enabled


def drop_rejected(selection: EvidenceSelection, rejected: Iterable[str]) -> frozenset[str]:
    """The set without the rejected sentences; the likeliest stays, since an answer must rest on one."""
    remaining = selection.essential - frozenset(rejected)
    if remaining or not selection.essential:
        return remaining
    return frozenset([_likeliest(selection)])


def _likeliest(selection: EvidenceSelection) -> str:
    probabilities = selection.probabilities
    return max(selection.essential, key=lambda sentence_id: probabilities[sentence_id])


def _pool_by_sentence(stated: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {sentence_id: pool(probabilities) for sentence_id, probabilities in stated.items()}
