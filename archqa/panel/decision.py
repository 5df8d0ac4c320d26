"""From judgements to the selected evidence: voters, their votes and the selection. No model is called."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from archqa.core.id_lists import list_ids
from archqa.core.judgement import Judgement, Relevance
from archqa.core.probability import pool, stated_probability
from archqa.errors import CallerError
from archqa.panel import combiner
from archqa.panel.combiner import UNFITTED, Combiner, Votes
from archqa.panel.default_combiner import load_defaults
from archqa.panel.percentages import counted_probabilities
from archqa.panel.settings import PanelSettings

GENERAL_EXPERT = "general expert"
SPECIALIST = "specialist"
ANSWER_FIRST = "answer first"
ENGINE = "embedded engine"
VERIFICATION = "verification"

_SEPARATOR = " @ "

_EMBEDDED = "embedded"
"""The name that the embedded engine votes under in the role of an agent."""


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


def role_of(voter: str) -> str:
    """The role in a voter's name."""
    return voter.partition(_SEPARATOR)[0]


def is_enabled_voter(voter: str, settings: PanelSettings) -> bool:
    """Whether the setting `voters` names this voter: by role or the name of the role's agent, by
    backend, or by both; all are enabled if it is empty.
    """
    enabled = named_voters(settings)
    return not enabled or not enabled.isdisjoint(_names_of(voter))


def is_named_voter(voter: str, settings: PanelSettings) -> bool:
    """Whether the setting `voters` names this voter, and is not just empty."""
    return not named_voters(settings).isdisjoint(_names_of(voter))


def named_voters(settings: PanelSettings) -> set[str]:
    """The names in the setting `voters`."""
    return {name.strip() for name in settings.voters.split(",")} - {""}


def _names_of(voter: str) -> set[str]:
    """The names that a voter goes by."""
    role, _, backend = voter.partition(_SEPARATOR)
    return {voter, role, role.replace(" ", "_"), backend} - {""}


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
        probabilities = _probabilities(name, voter_judgements)
        for judgement, probability in zip(voter_judgements, probabilities, strict=True):
            by_sentence[judgement.sentence_id].append(probability)
    return {voter: _pool_by_sentence(by_sentence) for voter, by_sentence in stated.items()}


def default_for_voters(voters: Iterable[str]) -> Combiner | None:
    """The default combiner of these voters' roles with a weight for each voter; the voters of a
    role share its weight, and those of a role that no default knows have none. None if it knows no
    role.
    """
    roles = _voting_roles(voters)
    default = load_defaults().for_roles(roles.values())
    if default is None:
        return None
    counts = Counter(roles.values())
    weights = {
        voter: default.weights[role] / counts[role]
        for voter, role in roles.items()
        if role in default.weights
    }
    return default.model_copy(update={"weights": weights})


def _voting_roles(voters: Iterable[str]) -> dict[str, str]:
    """Voter → role, of the panel's voters: labels of the six stages state no percentages.

    Whatever the embedded engine performs is a vote of the engine.
    """
    roles = {}
    for voter in voters:
        role, separator, backend = voter.partition(_SEPARATOR)
        if backend == _EMBEDDED:
            roles[voter] = ENGINE
        elif separator or voter == ENGINE:
            roles[voter] = role
    return roles


def combiner_for(votes: Votes, settings: PanelSettings) -> Combiner:
    """The combiner of the settings, else the default one of these voters, else one of equal weights.

    Raises `InputError`.
    """
    if settings.combiner:
        return combiner.load(settings.combiner)
    return default_for_voters(votes) or UNFITTED


def select_evidence(ids: Sequence[str], votes: Votes, settings: PanelSettings) -> EvidenceSelection:
    """Select the set of greatest expected F from the enabled votes.

    Raises `CallerError` if no voter is enabled.
    """
    enabled = _enabled_votes(votes, settings)
    combiner = combiner_for(enabled, settings)
    probabilities = combiner.probabilities(enabled, ids)
    essential = combiner.choose(probabilities, settings.operating_point, settings.threshold)
    threshold = settings.threshold
    if threshold is None:
        threshold = combiner.expected_f1 / 2
    borderline = frozenset(
        sentence_id
        for sentence_id, probability in probabilities.items()
        if abs(probability - threshold) < settings.margin
    )
    remarks = [
        f"no vote of {name}, which the setting voters names"
        for name in sorted(named_voters(settings).difference(*map(_names_of, votes)))
    ]
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
        available = list_ids(votes) or "none"
        raise CallerError(f"None of the voters is {settings.voters!r}.\nThere are: {available}.")
    return enabled


def apply_checks(
    selection: EvidenceSelection, checks: Iterable[Sequence[Judgement]]
) -> frozenset[str]:
    """The set as the checks of borderline sentences change it.

    The likeliest sentence stays, since an answer must rest on one.
    """
    essential = set(selection.essential)
    for check in chain.from_iterable(checks):
        if check.label is Relevance.ESSENTIAL:
            essential.add(check.sentence_id)
        else:
            essential.discard(check.sentence_id)
    if essential or not selection.essential:
        return frozenset(essential)
    return frozenset([_likeliest(selection)])


def _likeliest(selection: EvidenceSelection) -> str:
    probabilities = selection.probabilities
    return max(selection.essential, key=lambda sentence_id: probabilities[sentence_id])


def _probabilities(name: str, judgements: Sequence[Judgement]) -> list[float]:
    """The probabilities that count; only a model's judges state percentages of their own."""
    role, separator, backend = name.partition(_SEPARATOR)
    if separator and backend != _EMBEDDED and role != ANSWER_FIRST:
        return counted_probabilities(judgements)
    return [stated_probability(judgement) for judgement in judgements]


def _pool_by_sentence(stated: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {sentence_id: pool(probabilities) for sentence_id, probabilities in stated.items()}
