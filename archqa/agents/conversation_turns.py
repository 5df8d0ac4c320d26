"""How many turns an agent's conversations take, for estimates of what a run will cost.

A dry run cannot follow a conversation beyond its first unknown reply. The figures and where they
are from stand in `data/conversation_turns.tsv`.
"""

from functools import cache
from typing import Literal, NamedTuple, cast

from archqa.core.tables import TableRow, read_rows
from archqa.core.value import FrozenModel

_TABLE = "agents/data/conversation_turns.tsv"
_NO_LIMIT = "-"

Basis = Literal["measured", "benchmark", "assumed"]


class Turns(NamedTuple):
    """Turns of one conversation: fewest, expected, most."""

    low: float
    expected: float
    high: float

    def at_most(self, limit: float) -> "Turns":
        """The same where no conversation has more turns than `limit`."""
        return Turns(*(min(turns, limit) for turns in self))

    def without(self, known_turns: int) -> "Turns":
        """The turns after some that are known; one at least."""
        return Turns(*(max(1.0, turns - known_turns) for turns in self))


class ConversationTurns(NamedTuple):
    """The turns of an agent's conversations, and the assumed tokens that each adds.

    `basis` says what the expected number rests on, `source` where all three are from.
    """

    agent: str
    turns: Turns
    limit_setting: str
    turns_per_limit: int
    result_tokens: int
    reply_tokens: int
    basis: Basis
    source: str

    @property
    def added_tokens(self) -> int:
        """Tokens by which each turn lengthens the next prompt."""
        return self.result_tokens + self.reply_tokens

    def under(self, settings: FrozenModel) -> Turns:
        """The turns that the limits in a pipeline's settings allow."""
        limit: int | None = getattr(settings, self.limit_setting, None)
        if limit is None:
            return self.turns
        return self.turns.at_most(limit * self.turns_per_limit)


@cache
def conversation_turns() -> dict[str, ConversationTurns]:
    """The agents that converse in several turns, by name."""
    return {row[0]: _parse_row(row) for row in read_rows(_TABLE, 10)}


def _parse_row(row: TableRow) -> ConversationTurns:
    agent, low, expected, high, limit, factor, result, reply, basis, source = row
    return ConversationTurns(
        agent=agent,
        turns=Turns(float(low), float(expected), float(high)),
        limit_setting="" if limit == _NO_LIMIT else limit,
        turns_per_limit=int(factor),
        result_tokens=int(result),
        reply_tokens=int(reply),
        basis=cast("Basis", basis),
        source=source,
    )
