"""What the calls of one agent will cost, as a range where it converses.

Tokens are estimated at four characters each. A conversation is priced from its first prompt and the
turns that such conversations take: each turn sends all turns before it again.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from archqa.agents.conversation import ConversationTurns, Turns, conversation_turns
from archqa.agents.dry_run_backend import DryRunCall
from archqa.llm.model import CHARACTERS_PER_TOKEN, Request
from archqa.llm.prices import Price
from archqa.settings import Settings
from archqa.tasks.settings import PipelineSettings


class Amount(NamedTuple):
    """Calls and tokens, estimated, and their cost; None where the price is unknown.

    `shared_tokens` are those of prompts that begin like the prompt before them.
    """

    calls: int
    prompt_tokens: int
    shared_tokens: int
    completion_tokens: int
    cost_usd: float | None


class AmountRange(NamedTuple):
    """The least, the expected and the most; all equal where nothing has to be guessed."""

    low: Amount
    expected: Amount
    high: Amount


class AgentCost(NamedTuple):
    """The calls of one agent with one model, over all cases.

    `turns` says what is assumed of its conversations; None where every call was rendered.
    """

    agent: str
    model: str
    cached_calls: int
    amounts: AmountRange
    turns: ConversationTurns | None
    price: Price | None

    def as_json(self) -> dict[str, Any]:
        """The row as JSON values; its own numbers are the expected ones."""
        row: dict[str, Any] = {"agent": self.agent, "model": self.model}
        row |= {"cached_calls": self.cached_calls}
        row |= amounts_as_json(self.amounts)
        row |= {"shared_tokens": self.amounts.expected.shared_tokens}
        row["turns"] = _turns_as_json(self.turns) if self.turns else None
        row["price"] = self.price.origin if self.price else None
        return row


class CaseCalls(NamedTuple):
    """The calls of one case in the order they were met, and the settings of its pipeline."""

    calls: Sequence[DryRunCall]
    settings: PipelineSettings


class _Tokens(NamedTuple):
    """Calls and tokens before they are scaled to all cases."""

    calls: float = 0
    prompt: float = 0
    shared: float = 0
    completion: float = 0

    def plus(self, other: "_Tokens") -> "_Tokens":
        return _Tokens(*(mine + more for mine, more in zip(self, other, strict=True)))


class _Conversation(NamedTuple):
    """A conversation from its first unknown reply on."""

    prompt: float
    shared: float
    reply: float
    turns: Turns

    def tokens(self, turns: float, added: float) -> _Tokens:
        """The tokens of so many turns, each of whose prompts is `added` tokens longer."""
        later = turns - 1
        grown = added * turns * later / 2
        sent_again = self.prompt * later + added * max(0.0, later * (later - 1) / 2)
        return _Tokens(
            calls=turns,
            prompt=self.prompt * turns + grown,
            shared=self.shared + sent_again,
            completion=self.reply * turns,
        )


def costs_by_agent(
    cases: Iterable[CaseCalls], settings: Settings, scale: float
) -> Iterator[AgentCost]:
    """Yield one row for each agent and model; `scale` is from the sampled cases to all of them."""
    by_agent: dict[tuple[str, str], list[CaseCalls]] = defaultdict(list)
    for case in cases:
        for agent, model in dict.fromkeys((call.agent, call.request.model) for call in case.calls):
            own = [
                call for call in case.calls if (call.agent, call.request.model) == (agent, model)
            ]
            by_agent[agent, model].append(case._replace(calls=own))
    for (agent, model), own_cases in by_agent.items():
        yield _agent_cost(agent, model, own_cases, settings.price_of(model), scale)


def _agent_cost(
    agent: str, model: str, cases: Sequence[CaseCalls], price: Price | None, scale: float
) -> AgentCost:
    turns = conversation_turns().get(agent)
    cached_calls = sum(call.cached for case in cases for call in case.calls)
    if turns is None:
        tokens = [_tokens_of_calls(cases)] * 3
    else:
        turns = turns._replace(turns=turns.under(cases[0].settings))
        tokens = _tokens_of_conversations(cases, turns)
    amounts = AmountRange(*(_amount(each, price, scale) for each in tokens))
    return AgentCost(agent, model, round(cached_calls * scale), amounts, turns, price)


def _tokens_of_calls(cases: Iterable[CaseCalls]) -> _Tokens:
    calls = [call for case in cases for call in case.calls if not call.cached]
    prompt = shared = completion = 0
    previous_prompt = ""
    for call in calls:
        text = _prompt_text(call.request)
        prompt += len(text)
        shared += shared_prefix(previous_prompt, text)
        completion += call.reply_characters
        previous_prompt = text
    return _Tokens(
        len(calls),
        prompt // CHARACTERS_PER_TOKEN,
        shared // CHARACTERS_PER_TOKEN,
        completion // CHARACTERS_PER_TOKEN,
    )


def _tokens_of_conversations(
    cases: Iterable[CaseCalls], assumed: ConversationTurns
) -> list[_Tokens]:
    """The tokens at the fewest, the expected and the most turns."""
    totals = [_Tokens(), _Tokens(), _Tokens()]
    for conversation in _conversations(cases, assumed):
        for place, turns in enumerate(conversation.turns):
            tokens = conversation.tokens(turns, assumed.added_tokens)
            totals[place] = totals[place].plus(tokens)
    return totals


def _conversations(
    cases: Iterable[CaseCalls], assumed: ConversationTurns
) -> Iterator[_Conversation]:
    """Yield the conversations that are not answered from the cache to their end."""
    previous_prompt = ""
    for case in cases:
        known = sum(call.cached for call in case.calls)
        unknown = [call for call in case.calls if not call.cached]
        if not unknown:
            continue
        text = _prompt_text(unknown[0].request)
        prompt = len(text) / CHARACTERS_PER_TOKEN
        shared = shared_prefix(previous_prompt, text) / CHARACTERS_PER_TOKEN
        previous_prompt = text
        reply = max(unknown[0].reply_characters / CHARACTERS_PER_TOKEN, assumed.reply_tokens)
        turns = assumed.under(case.settings).without(known)
        turns = turns.at_most(_turns_in_context(prompt, assumed, case.settings))
        yield _Conversation(prompt, shared, reply, turns)


def _turns_in_context(
    prompt: float, assumed: ConversationTurns, settings: PipelineSettings
) -> float:
    """The turns before a prompt exceeds the pipeline's limit of tokens, if it has one."""
    limit: int | None = getattr(settings, "context_limit", None)
    if limit is None:
        return float("inf")
    return 1 + max(0.0, limit - prompt) // assumed.added_tokens


def _amount(tokens: _Tokens, price: Price | None, scale: float) -> Amount:
    calls, prompt, shared, completion = (round(number * scale) for number in tokens)
    cost: float | None = 0.0
    if tokens.calls:
        cost = price.cost(prompt, 0, completion) if price else None
    return Amount(calls, prompt, shared, completion, cost)


def _prompt_text(request: Request) -> str:
    """All that is sent and paid as a prompt: the tools on offer come first."""
    tools = [tool.model_dump_json() for tool in request.tools]
    return "\n".join([*tools, *(message.content for message in request.messages)])


def shared_prefix(text_1: str, text_2: str) -> int:
    """Return the length in characters of the longest common prefix."""
    length = 0
    for character_1, character_2 in zip(text_1, text_2, strict=False):
        if character_1 != character_2:
            break
        length += 1
    return length


def total(amounts: Iterable[Amount]) -> Amount:
    """The sum; its cost is unknown where that of any part is."""
    calls = prompt = shared = completion = 0
    cost: float | None = 0.0
    for amount in amounts:
        calls += amount.calls
        prompt += amount.prompt_tokens
        shared += amount.shared_tokens
        completion += amount.completion_tokens
        cost = None if cost is None or amount.cost_usd is None else cost + amount.cost_usd
    return Amount(calls, prompt, shared, completion, cost)


def amounts_as_json(amounts: AmountRange) -> dict[str, Any]:
    """The expected numbers by name, and `low`, `expected` and `high` with all of theirs."""
    ranges = {name: _amount_as_json(amount) for name, amount in amounts._asdict().items()}
    return _amount_as_json(amounts.expected) | ranges


def _amount_as_json(amount: Amount) -> dict[str, Any]:
    values = amount._asdict()
    values["shared_prompt_tokens"] = values.pop("shared_tokens")
    return values


def _turns_as_json(assumed: ConversationTurns) -> dict[str, Any]:
    return {
        **assumed.turns._asdict(),
        "result_tokens": assumed.result_tokens,
        "basis": assumed.basis,
        "source": assumed.source,
    }
