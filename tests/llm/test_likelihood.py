"""Probabilities of the choices in a reply, from the probabilities of its tokens."""

import json
import math
from typing import Any

import pytest

from archqa.llm.client import parse_completion
from archqa.llm.completion import label_probabilities
from archqa.llm.dialect import Dialect
from archqa.llm.model import Message, Reply, Request, Token

LABELS = ("essential", "supplementary", "not-relevant")


def reply(*tokens: Token) -> Reply:
    return Reply(text="".join(token.text for token in tokens), tokens=tokens)


def test_the_probability_of_each_choice_is_that_of_the_token_it_begins_with() -> None:
    labelled_reply = reply(
        Token(text='{"label": "'),
        Token(text="ess", likely={"ess": 0.6, "not": 0.3, "sup": 0.05, "xyz": 0.05}),
        Token(text='ential"}'),
    )
    [probabilities] = label_probabilities(labelled_reply, "label", LABELS)
    assert probabilities == pytest.approx(
        {"essential": 0.6 / 0.95, "supplementary": 0.05 / 0.95, "not-relevant": 0.3 / 0.95}
    )


def test_a_token_that_holds_the_quote_and_the_word_is_read_from_the_word_on() -> None:
    labelled_reply = reply(
        Token(text='{"label":'),
        Token(text=' "not', likely={' "not': 0.8, ' "ess': 0.2}),
        Token(text='-relevant"}'),
    )
    [probabilities] = label_probabilities(labelled_reply, "label", LABELS)
    assert probabilities == pytest.approx(
        {"essential": 0.2, "supplementary": 0.0, "not-relevant": 0.8}
    )


def test_each_time_the_field_is_filled_in_counts_in_order() -> None:
    essential = (
        Token(text='{"label": "'),
        Token(text="essential", likely={"essential": 0.9, "not": 0.1}),
        Token(text='"}'),
    )
    not_relevant = (
        Token(text='{"label": "'),
        Token(text="not", likely={"not": 0.7, "ess": 0.3}),
        Token(text='-relevant"}'),
    )
    verdicts = label_probabilities(reply(*essential, *not_relevant), "label", LABELS)
    values = [round(verdict["essential"], 2) for verdict in verdicts if verdict]
    assert values == [0.9, 0.3]


def test_there_are_no_probabilities_where_few_tokens_begin_a_choice() -> None:
    labelled_reply = reply(
        Token(text='{"label": "'),
        Token(text="e", likely={"e": 0.2, "zzz": 0.7}),
        Token(text='ssential"}'),
    )
    assert label_probabilities(labelled_reply, "label", LABELS) == [None]
    assert label_probabilities(Reply(text='{"label": "essential"}'), "label", LABELS) == []


def completion(**choice: Any) -> dict[str, Any]:
    return {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop", **choice}]}


def test_logprobs_are_read_and_unlikely_alternatives_dropped() -> None:
    top = [{"token": "o", "logprob": math.log(0.9)}, {"token": "q", "logprob": math.log(0.001)}]
    content = [{"token": "ok", "logprob": math.log(0.9), "top_logprobs": top}]
    [token] = parse_completion(completion(logprobs={"content": content}), None).tokens
    assert token.text == "ok"
    assert set(token.likely) == {"o", "ok"}


@pytest.mark.parametrize(
    "logprobs", [None, {}, {"content": None}, {"content": [{"token": "x"}]}, "?"]
)
def test_absent_or_malformed_logprobs_are_ignored(logprobs: object) -> None:
    assert parse_completion(completion(logprobs=logprobs), None).tokens == ()


def test_logprobs_are_requested_on_demand_and_not_after_a_refusal() -> None:
    request = Request(model="m", messages=(Message(role="user", content="?"),), likelihoods=True)
    assert Dialect().arguments(request)["logprobs"] is True
    assert "logprobs" not in Dialect().arguments(request.model_copy(update={"likelihoods": False}))
    weaker = Dialect().fallback_for("'logprobs' is not supported with this model", structured=False)
    assert weaker is not None
    assert "logprobs" not in weaker.arguments(request)


def test_a_request_without_logprobs_keeps_its_digest() -> None:
    plain = Request(model="m", messages=(Message(role="user", content="?"),))
    assert "likelihoods" not in json.dumps(plain.model_dump(mode="json"))
    assert plain.digest != plain.model_copy(update={"likelihoods": True}).digest
