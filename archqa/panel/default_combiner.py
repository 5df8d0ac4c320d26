"""How votes are weighed where `archqa calibrate` has not fitted it: by role, whatever the model.

Fitted on the votes of a strong model (`data/default_combiners.json` says on what cases, and how good it was on
cases left out of the fit). Stated percentages run high, and a role's weight depends on who else votes: there is a
combiner for each set of roles.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from archqa.core.probability import pool
from archqa.core.value import FrozenModel
from archqa.panel.combiner import Combiner, Votes

FILE = "default_combiners.json"


class DefaultCombiners(FrozenModel):
    """The combiners of `data/default_combiners.json`; the voters in their weights are roles."""

    schema_version: int = 1
    combiners: tuple[Combiner, ...]

    def for_roles(self, roles: Iterable[str]) -> Combiner | None:
        """The combiner that was fitted on the most of these roles and on no others, if any was."""
        voting = set(roles)
        fitting = [each for each in self.combiners if each.weights.keys() <= voting]
        return max(fitting, key=lambda combiner: len(combiner.weights), default=None)


@cache
def load_defaults() -> DefaultCombiners:
    """The combiners that come with archqa."""
    text = files("archqa.panel").joinpath("data", FILE).read_text(encoding="utf-8")
    return DefaultCombiners.model_validate_json(text)


def pool_by_role(votes: Votes, role_of: Mapping[str, str]) -> dict[str, dict[str, float]]:
    """One vote for each role and sentence: several models in one role are one voter."""
    stated: dict[str, dict[str, list[float]]] = {}
    for voter, by_sentence in votes.items():
        of_role = stated.setdefault(role_of[voter], {})
        for sentence_id, probability in by_sentence.items():
            of_role.setdefault(sentence_id, []).append(probability)
    return {
        role: {sentence_id: pool(probabilities) for sentence_id, probabilities in of_role.items()}
        for role, of_role in stated.items()
    }
