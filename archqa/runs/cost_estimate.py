"""Estimates the cost of a run: every prompt is rendered and counted, no request is sent.

Tokens are estimated at four characters each. A conversation is priced from its first prompt and the
turns that such conversations take: each turn sends all turns before it again. Tokens of a prefix
that a prompt shares with the previous prompt are also counted on their own, since most servers
charge less for them. Requests of several runs over one cache are paid once.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from archqa.agents.conversation import ConversationTurns, Turns, conversation_turns
from archqa.agents.dry_run_backend import DryRunCall
from archqa.core.id_lists import list_ids
from archqa.core.question import Item
from archqa.core.value import JsonObject
from archqa.errors import CaseFailed
from archqa.llm.model import CHARACTERS_PER_TOKEN, Request
from archqa.llm.prices import Price
from archqa.llm.scripted import ScriptedModel
from archqa.runs.backends import Backends
from archqa.runs.event_loop import run_sync
from archqa.runs.model_server import model_agents
from archqa.runs.plan import Plan
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

    @classmethod
    def total(cls, amounts: Iterable["Amount"]) -> "Amount":
        """The sum; its cost is unknown where that of any part is."""
        total = cls(0, 0, 0, 0, 0.0)
        for amount in amounts:
            cost: float | None = None
            if total.cost_usd is not None and amount.cost_usd is not None:
                cost = total.cost_usd + amount.cost_usd
            total = cls(
                total.calls + amount.calls,
                total.prompt_tokens + amount.prompt_tokens,
                total.shared_tokens + amount.shared_tokens,
                total.completion_tokens + amount.completion_tokens,
                cost,
            )
        return total

    def as_json(self) -> JsonObject:
        """The numbers by name."""
        values = self._asdict()
        values["shared_prompt_tokens"] = values.pop("shared_tokens")
        return values


class AmountRange(NamedTuple):
    """The least, the expected and the most; all equal where nothing has to be guessed."""

    low: Amount
    expected: Amount
    high: Amount

    def as_json(self) -> JsonObject:
        """The expected numbers by name, and `low`, `expected` and `high` with all of theirs."""
        ranges = {name: amount.as_json() for name, amount in self._asdict().items()}
        return self.expected.as_json() | ranges


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

    def as_json(self) -> JsonObject:
        """The row as JSON values; its own numbers are the expected ones."""
        turns = None
        if self.turns:
            turns = {
                **self.turns.turns._asdict(),
                "result_tokens": self.turns.result_tokens,
                "basis": self.turns.basis,
                "source": self.turns.source,
            }
        return {
            "agent": self.agent,
            "model": self.model,
            "cached_calls": self.cached_calls,
            **self.amounts.as_json(),
            "shared_tokens": self.amounts.expected.shared_tokens,
            "turns": turns,
            "price": self.price.origin if self.price else None,
        }


class CostEstimate(NamedTuple):
    """The cost of a run by agent. `sampled_cases` of `cases` cases were rendered.

    `incomplete_cases` of these could be followed only up to some call after which others may come:
    the estimate is then a lower bound. Conversations are not among them: their later turns are
    estimated. `uncalled_agents` may be called in the run, but were not in the dry run. `variants`
    is the number of runs over these cases.
    """

    rows: tuple[AgentCost, ...]
    cases: int
    sampled_cases: int
    incomplete_cases: int = 0
    uncalled_agents: tuple[str, ...] = ()
    variants: int = 1

    @property
    def amounts(self) -> AmountRange:
        """Calls, tokens and cost of the whole run, without any discount for shared prefixes."""
        return AmountRange(
            low=Amount.total(row.amounts.low for row in self.rows),
            expected=Amount.total(row.amounts.expected for row in self.rows),
            high=Amount.total(row.amounts.high for row in self.rows),
        )

    @property
    def calls(self) -> int:
        """Calls the run is expected to make."""
        return self.amounts.expected.calls

    @property
    def cached_calls(self) -> int:
        """Calls the cache answers."""
        return sum(row.cached_calls for row in self.rows)

    @property
    def cost_usd(self) -> float | None:
        """The expected dollars; None where a price is unknown."""
        return self.amounts.expected.cost_usd

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the numbers rest on: turns of conversations, prices, and what is not in them."""
        of_turns = []
        of_prices = []
        for row in self.rows:
            if not row.amounts.expected.calls:
                continue
            if row.turns is not None:
                turns = row.turns.turns
                of_turns.append(
                    f"{row.agent}: {turns.expected:g} turns a conversation ({row.turns.basis}; "
                    f"{turns.low:g} to {turns.high:g}), each of which sends those before it again, "
                    f"and {row.turns.result_tokens} tokens for a tool's result (assumed). "
                    f"{row.turns.source}."
                )
            origin = (
                row.price.origin
                if row.price
                else "its price is unknown, and so is the cost"
            )
            of_prices.append(f"{row.model}: {origin}.")
        remarks = [*of_turns, *of_prices]
        called = {row.agent for row in self.rows}
        uncalled = [agent for agent in self.uncalled_agents if agent not in called]
        if uncalled:
            remarks.append(
                f"Not in the estimate, since a dry run does not call them: {list_ids(uncalled)}."
            )
        return tuple(dict.fromkeys(remarks))

    def as_json(self) -> JsonObject:
        """The object that `archqa predict --dry-run --json` prints."""
        return {
            "cases": self.cases,
            "variants": self.variants,
            "rehearsed": self.sampled_cases,
            "incomplete_cases": self.incomplete_cases,
            "cached_calls": self.cached_calls,
            **self.amounts.as_json(),
            "remarks": list(self.remarks),
            "by_agent": [row.as_json() for row in self.rows],
        }


def estimate_cost(plan: Plan, *, sample_size: int | None = None) -> CostEstimate:
    """Dry-run the cases, or an evenly spaced sample of them, and scale the calls to all cases."""
    return estimate_variants([plan], sample_size=sample_size)


def estimate_variants(
    plans: Sequence[Plan], *, sample_size: int | None = None
) -> CostEstimate:
    """The same for several runs over the same cases, one after the other.

    A request that an earlier one has made is answered from the cache, where there is one.
    """
    cases = plans[0].cases
    max_cases = sample_size or len(cases)
    step = max(1, -(-len(cases) // max_cases))
    sample = cases[::step]
    requested: set[tuple[str, str]] = set()
    calls_by_agent: dict[tuple[str, str], list[_CaseCalls]] = defaultdict(list)
    incomplete = 0
    uncalled: dict[str, None] = {}
    for plan in plans:
        dry_run = run_sync(_dry_run(sample, plan))
        incomplete += dry_run.incomplete_cases
        agents = set()
        for case in dry_run.cases:
            of_case: dict[tuple[str, str], list[DryRunCall]] = defaultdict(list)
            for call in case.calls:
                agents.add(call.agent)
                if plan.settings.cache.enabled:
                    request = (call.server, call.request.digest)
                    call = call._replace(cached=call.cached or request in requested)
                    requested.add(request)
                of_case[call.agent, call.request.model].append(call)
            for stage, calls in of_case.items():
                calls_by_agent[stage].append(case._replace(calls=calls))
        for agent in model_agents(plan.settings, plan.pipeline):
            if agent not in agents:
                uncalled[agent] = None
    rows = []
    for (agent, model), agent_cases in calls_by_agent.items():
        price = plans[0].settings.price_of(model)
        rows.append(
            _agent_cost(agent, model, agent_cases, price, len(cases) / len(sample))
        )
    return CostEstimate(
        tuple(rows), len(cases), len(sample), incomplete, tuple(uncalled), len(plans)
    )


class _CaseCalls(NamedTuple):
    """The calls of one case in the order they were made, and the settings of its pipeline."""

    calls: Sequence[DryRunCall]
    settings: PipelineSettings


class _DryRun(NamedTuple):
    """The calls of each case, and how many cases could not be followed to their end."""

    cases: list[_CaseCalls]
    incomplete_cases: int


async def _dry_run(cases: Sequence[Item], plan: Plan) -> _DryRun:
    backends = Backends(
        plan.settings, plan.pipeline, ScriptedModel([])
    )  # It needs no key.
    settings = plan.settings.for_pipeline(plan.pipeline)
    cases_with_calls: list[_CaseCalls] = []
    incomplete_cases = 0
    try:
        for case in cases:
            calls: list[DryRunCall] = []
            context = backends.dry_run_context(calls, case)
            try:
                await plan.pipeline.run(case, context, settings)
            except CaseFailed:
                # One that stopped in a conversation counts: its further turns are estimated.
                stopped_in_conversation = (
                    calls and calls[-1].agent in conversation_turns()
                )
                incomplete_cases += not stopped_in_conversation
            cases_with_calls.append(
                _CaseCalls(calls, settings)
            )  # Those before a failure count.
    finally:
        await backends.close()
    return _DryRun(cases_with_calls, incomplete_cases)


class _Tokens(NamedTuple):
    """Calls and tokens before they are scaled to all cases."""

    calls: float = 0
    prompt: float = 0
    shared: float = 0
    completion: float = 0

    def plus(self, other: "_Tokens") -> "_Tokens":
        return _Tokens(*(mine + more for mine, more in zip(self, other, strict=True)))

    def amount(self, price: Price | None, scale: float) -> Amount:
        calls, prompt, shared, completion = (round(number * scale) for number in self)
        cost: float | None = 0.0
        if self.calls:
            cost = price.cost(prompt, 0, completion) if price else None
        return Amount(calls, prompt, shared, completion, cost)


def _agent_cost(
    agent: str,
    model: str,
    cases: Sequence[_CaseCalls],
    price: Price | None,
    scale: float,
) -> AgentCost:
    turns = conversation_turns().get(agent)
    if turns is None:
        low = expected = high = _tokens_of_calls(cases)
    else:
        turns = turns._replace(turns=turns.under(cases[0].settings))
        low = expected = high = _Tokens()
        for conversation in _conversations(cases, turns):
            fewest, likely, most = conversation.turns
            low = low.plus(conversation.tokens(fewest, turns.added_tokens))
            expected = expected.plus(conversation.tokens(likely, turns.added_tokens))
            high = high.plus(conversation.tokens(most, turns.added_tokens))
    amounts = AmountRange(
        low.amount(price, scale),
        expected.amount(price, scale),
        high.amount(price, scale),
    )
    cached_calls = sum(call.cached for case in cases for call in case.calls)
    return AgentCost(agent, model, round(cached_calls * scale), amounts, turns, price)


def _tokens_of_calls(cases: Iterable[_CaseCalls]) -> _Tokens:
    count = prompt = shared = completion = 0
    previous_prompt = ""
    for case in cases:
        for call in case.calls:
            if call.cached:
                continue
            text = _prompt_text(call.request)
            count += 1
            prompt += len(text)
            shared += _shared_prefix(previous_prompt, text)
            completion += call.reply_characters
            previous_prompt = text
    return _Tokens(
        count,
        prompt // CHARACTERS_PER_TOKEN,
        shared // CHARACTERS_PER_TOKEN,
        completion // CHARACTERS_PER_TOKEN,
    )


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


def _conversations(
    cases: Iterable[_CaseCalls], assumed: ConversationTurns
) -> Iterator[_Conversation]:
    """Yield the conversations that are not answered from the cache to their end."""
    previous_prompt = ""
    for case in cases:
        unknown = [call for call in case.calls if not call.cached]
        if not unknown:
            continue
        text = _prompt_text(unknown[0].request)
        prompt = len(text) / CHARACTERS_PER_TOKEN
        shared = _shared_prefix(previous_prompt, text) / CHARACTERS_PER_TOKEN
        previous_prompt = text
        reply = max(
            unknown[0].reply_characters / CHARACTERS_PER_TOKEN, assumed.reply_tokens
        )
        turns = assumed.under(case.settings).without(len(case.calls) - len(unknown))
        context_limit: int | None = getattr(case.settings, "context_limit", None)
        if context_limit is not None:
            # The turns before a prompt exceeds the pipeline's limit of tokens.
            turns = turns.at_most(
                1 + max(0.0, context_limit - prompt) // assumed.added_tokens
            )
        yield _Conversation(prompt, shared, reply, turns)


def _prompt_text(request: Request) -> str:
    """All that is sent and paid as a prompt: the tools on offer come first."""
    tools = [tool.model_dump_json() for tool in request.tools]
    return "\n".join([*tools, *(message.content for message in request.messages)])


def _shared_prefix(text_1: str, text_2: str) -> int:
    """Return the length in characters of the longest common prefix."""
    length = 0
    for character_1, character_2 in zip(text_1, text_2, strict=False):
        if character_1 != character_2:
            break
        length += 1
    return length
