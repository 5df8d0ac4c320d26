"""From judgements to a set: who voted, what each is worth, what is chosen. No model, so that it can be done again."""

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

_BY = " @ "


class EvidenceSelection(NamedTuple):
    """Probabilities by sentence id, the set taken, what of it was taken by a narrow margin, and remarks."""

    probabilities: dict[str, float]
    essential: frozenset[str]
    doubtful: frozenset[str]
    remarks: tuple[str, ...] = ()


def voter_name(role: str, mind: str) -> str:
    """The name that judgements are kept under: a role or a specialty, and the mind that performed it."""
    return f"{role}{_BY}{mind}"


def parse_voter(name: str, experts: Iterable[str] = ()) -> str:
    """Who stands behind a name: specialists of all fields are one voter, told apart by the mind alone."""
    role, by, mind = name.partition(_BY)
    return f"{SPECIALIST if role in experts else role}{by}{mind}"


def is_enabled_voter(voter: str, settings: PanelSettings) -> bool:
    """Whether this voter is among those the settings name: by role, by mind, or by both."""
    named = {each.strip() for each in settings.voters.split(",") if each.strip()}
    role, _, mind = voter.partition(_BY)
    return not named or bool(named & {voter, role, mind})


def pool_votes(judgements: Mapping[str, Sequence[Judgement]], experts: Iterable[str] = ()) -> Votes:
    """One vote a voter and sentence; several looks of the same voter are pooled."""
    experts = frozenset(experts)
    looks: dict[str, dict[str, list[float]]] = {}
    for name, given in judgements.items():
        if name.partition(_BY)[0] != VERIFICATION:
            said = looks.setdefault(parse_voter(name, experts), {})
            for each in given:
                said.setdefault(each.sentence_id, []).append(stated_probability(each))
    return {
        voter: {each: pool(some) for each, some in said.items()} for voter, said in looks.items()
    }


def combiner_of(settings: PanelSettings) -> Combiner:
    """The combiner that is set; one that trusts all voters alike where none is. Raises InputError."""
    return combiner.load(settings.combiner) if settings.combiner else UNFITTED


def select_evidence(ids: Sequence[str], votes: Votes, settings: PanelSettings) -> EvidenceSelection:
    """The set of greatest expected F from the votes that count. Raises CallerError if none of them does."""
    heard = {voter: said for voter, said in votes.items() if is_enabled_voter(voter, settings)}
    if not heard:
        raise CallerError(
            f"None of the voters is {settings.voters!r}.\nThere are: {', '.join(votes) or 'none'}."
        )
    combiner = combiner_of(settings)
    probabilities = combiner.probabilities(heard, ids)
    essential = combiner.choose(probabilities, settings.operating_point, settings.threshold)
    least = combiner.expected_f1 / 2 if settings.threshold is None else settings.threshold
    narrow = frozenset(each for each in essential if probabilities[each] < least + settings.margin)
    strangers = [voter for voter in heard if not combiner.has_weight_for(voter)]
    remarks = tuple(
        f"{voter} was not in the combiner's fit: its vote has no weight" for voter in strangers
    )
    return EvidenceSelection(probabilities, essential, narrow, remarks)


def drop_rejected(chosen: EvidenceSelection, removed: Iterable[str]) -> frozenset[str]:
    """The set without what a second look removed; the likeliest sentence stays, since an answer must rest on one."""
    left = chosen.essential - frozenset(removed)
    return left or frozenset(
        sorted(chosen.essential, key=lambda each: -chosen.probabilities[each])[:1]
    )
