"""Replies in the forms that servers of reasoning and of local models send them: read, or explained in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from archqa.agents.labelling import Verdict, Verdicts
from archqa.llm.model import FinishReason, Reply, TransientError
from archqa.llm.structured import Rejected, parse_output
from archqa.runs.plan import Selection
from archqa.runs.predict import predict
from archqa.runs.record import CaseStatus
from archqa.settings import load_settings
from tests.fakes.server import FakeServer
from tests.llm.asking import make_request, model_replying_with

Json = dict[str, Any]

T = '{"rationale": "It names the drain.", "label": "essential"}'
"""The answer that every format wraps."""

DRAFT = '{"rationale": "Only a draft.", "label": "not-relevant"}'
"""It fits the schema as well, and is no answer."""

THOUGHT = f'The user wants {{"x": 1}}. Perhaps {DRAFT}? No.'


def completion(content: Any = T, finish: str | None = "stop", **message: Any) -> Json:
    """A chat completion with this content."""
    return {
        "id": "c1",
        "object": "chat.completion",
        "model": "fake",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish,
                "message": {"role": "assistant", "content": content, **message},
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
    }


def body(content: Any = T, finish: str | None = "stop", **message: Any) -> bytes:
    return json.dumps(completion(content, finish, **message)).encode()


def stream(
    *deltas: Json, end: str = "data: [DONE]\n\n", finish: str | None = "stop"
) -> bytes:
    """The events of a stream, the last one with the reason of its end."""
    events = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return ("".join(lines) + end).encode()


def bare() -> bytes:
    return json.dumps({"choices": [{"message": {"content": T}}]}).encode()


def function_call(name: str) -> list[Json]:
    return [{"id": "1", "type": "function", "function": {"name": name, "arguments": T}}]


READ: dict[str, bytes] = {
    # The examples that people report.
    "answer in reasoning_content": body("", reasoning_content=T),
    "answer in reasoning, content null": body(None, reasoning=T),
    "think": body(f"<think>{THOUGHT}</think>\n{T}"),
    "think without its opening": body(f"{THOUGHT}\n</think>\n\n{T}"),
    "harmony": body(
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{T}"
    ),
    "magistral": body(f"[THINK]{THOUGHT}[/THINK]{T}"),
    "thinking": body(f"<thinking>{THOUGHT}</thinking>{T}"),
    "parts": body(
        [
            {"type": "thinking", "thinking": [{"type": "text", "text": THOUGHT}]},
            {"type": "text", "text": T},
        ]
    ),
    "JSON as a text": body(json.dumps(T)),
    "array": body(f"[{T}]"),
    "wrapper": body(f'{{"response": {T}}}'),
    "twice": body(f"{T}\n{T}"),
    "trailing comma": body(T.replace('"essential"}', '"essential",\n}')),
    "literal of Python": body(str(json.loads(T))),
    "fence in prose": body(f"Here you are:\n```json\n{T}\n```\nDoes this help?"),
    "schema echoed": body(f'{{"properties": {T}, "type": "object"}}'),
    "bare": bare(),
    "end marker": body(f"{T}<|im_end|>"),
    "byte order mark": b"\xef\xbb\xbf" + body(),
    "blank lines to keep the connection": b"\n\n \r\n\n" + body(),
    "comments to keep the connection": b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n" + body(),
    "stream": stream({"role": "assistant", "content": ""}, {"content": T[:20]}, {"content": T[20:]}),
    # Further ones of the same kinds.
    "vLLM: reasoning beside the answer": body(f"\n\n{T}", reasoning_content=THOUGHT),
    "SGLang: reasoning null": body(T, reasoning_content=None, tool_calls=None),
    "Ollama: thinking field": body(T, thinking=THOUGHT),
    "LM Studio: fenced answer in reasoning": body("", reasoning_content=f"```json\n{T}\n```"),
    "LM Studio: closed thought in reasoning": body("", reasoning=f"<think>{THOUGHT}</think>{T}"),
    "OpenRouter: reasoning details": body(
        T, reasoning=THOUGHT, reasoning_details=[{"type": "reasoning.text", "text": THOUGHT}]
    ),
    "OpenRouter: comments before a stream": b": OPENROUTER PROCESSING\n\n" + stream({"content": T}),
    "Azure: filters around the choice": json.dumps(
        {**completion(), "prompt_filter_results": [{"prompt_index": 0}]}
    ).encode(),
    "LiteLLM: the schema as a tool": body(None, tool_calls=function_call("json_tool_call")),
    "LiteLLM: content already parsed": body(json.loads(T)),
    "Responses style: output_text part": body([{"type": "output_text", "text": T, "annotations": []}]),
    "a single part, not in a list": body({"type": "text", "text": T}),
    "parts that are texts": body([T[:9], T[9:]]),
    "parts: reasoning first": body([{"type": "reasoning", "text": THOUGHT}, {"type": "text", "text": T}]),
    "gpt-oss: final channel alone": body(f"<|channel|>final<|message|>{T}<|return|>"),
    "gpt-oss: constrained final channel": body(
        f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"
        f"<|start|>assistant<|channel|>final <|constrain|>json<|message|>{T}<|return|>"
    ),
    "gpt-oss: without control tokens": body(f"analysis{THOUGHT}assistantfinal{T}"),
    "gpt-oss: with the role before the channel": body(
        f"<|start|>assistant<|channel|>analysis<|message|>{THOUGHT}<|end|><|start|>assistant<|channel|>final<|message|>{T}"
    ),
    "Command: thinking tokens": body(f"<|START_THINKING|>{THOUGHT}<|END_THINKING|>{T}"),
    "Kimi: thinking marks": body(f"◁think▷{THOUGHT}◁/think▷{T}"),
    "DeepSeek: answer tags": body(f"<think>{THOUGHT}</think><answer>{T}</answer>"),
    "Qwen: empty thought": body(f"<think>\n\n</think>\n\n{T}"),
    "two thoughts": body(f"<think>{THOUGHT}</think> Hm. <think>{DRAFT}</think>{T}"),
    "Gemma: end of turn": body(f"```json\n{T}\n```<end_of_turn>\n"),
    "Llama: end markers": body(f"{T}<|eot_id|></s>"),
    "DeepSeek: template token": body(f"{T}<｜end▁of▁sentence｜>"),
    "llama.cpp: line end in a text": body(T.replace("the drain", "the\n drain")),
    "a draft, then the answer": body(f"{DRAFT}\nWait, that is wrong.\n{T}"),
    "an object of another kind after the answer": body(f'{T}\n{{"confidence": 0.9}}'),
    "wrapper with thoughts": body(json.dumps({"thoughts": THOUGHT, "final": json.loads(T)})),
    "wrapper of a text": body(json.dumps({"output": T})),
    "call in the text": body(f'{{"name": "output", "arguments": {T}}}'),
    "wrapper in a list": body(f'{{"results": [{T}]}}'),
    "Python with None and a trailing comma": body(
        "{'rationale': 'It names the drain.', 'label': 'essential',}"
    ),
    "stream with reasoning": stream({"reasoning_content": THOUGHT}, {"content": T}),
    "stream of one whole message": b"data: " + body() + b"\n\ndata: [DONE]\n\n",
    "stream with named events": stream({"content": T}).replace(b"data: {", b"event: message\ndata: {"),
    "stream with CRLF": stream({"content": T}).replace(b"\n", b"\r\n"),
}  # fmt: skip


async def reply_to(content: bytes) -> Reply:
    return await model_replying_with(content).ask(make_request())


@pytest.mark.parametrize("name", READ)
async def test_the_answer_is_read_out_of_the_format(name: str) -> None:
    reply = await reply_to(READ[name])
    text = reply.text or reply.tool_calls[-1].arguments
    verdict = parse_output(text, Verdict)
    assert verdict.label == "essential"
    assert " ".join(verdict.rationale.split()) == "It names the drain."


VERDICTS = {
    "verdicts": [
        {"rationale": "So.", "label": "essential", "sentence_id": "1"},
        {"rationale": "No.", "label": "not-relevant", "sentence_id": "2"},
    ]
}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(VERDICTS).replace("}]", "},],"),
        str(VERDICTS),
        str(VERDICTS).replace("}]", "},],"),
        json.dumps({"result": {"output": VERDICTS}}),
        json.dumps({"result": json.dumps(VERDICTS)}),
        f"{json.dumps(VERDICTS['verdicts'][0])}\n{json.dumps(VERDICTS)}",
        f"{json.dumps(VERDICTS)}\n{json.dumps(VERDICTS['verdicts'][0])}",
    ],
)
def test_an_object_of_objects_is_read_whole(text: str) -> None:
    assert len(parse_output(text, Verdicts).verdicts) == 2


def test_what_is_wrong_is_said_of_the_object_that_was_meant() -> None:
    wrong = {"verdicts": [{"rationale": "So.", "label": "maybe", "sentence_id": "1"}]}
    with pytest.raises(Rejected, match=r"verdicts\.0\.label: Input should be"):
        parse_output(f'{json.dumps(wrong)}\n{{"confidence": 0.9}}', Verdicts)


@pytest.mark.parametrize(
    "text", ["{" * 90_000 + "}", "{'a':" * 18_000 + "}", "[{" * 40_000 + "}"]
)
def test_a_hostile_nesting_is_rejected(text: str) -> None:
    with pytest.raises(Rejected):
        parse_output(text, Verdict)


async def test_a_stream_adds_up_to_calls_tokens_and_model() -> None:
    first = {"index": 0, "id": "c1", "function": {"name": "add", "arguments": '{"a"'}}
    more = {"index": 0, "function": {"arguments": ": 1}"}}
    content = stream({"tool_calls": [first]}, {"tool_calls": [more]}, end="")
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    last = json.dumps({"choices": [], "usage": usage, "model": "qwen"})
    reply = await reply_to(content + f"data: {last}\n\ndata: [DONE]\n\n".encode())
    [call] = reply.tool_calls
    assert (call.id, call.name, call.arguments) == ("c1", "add", '{"a": 1}')
    assert (reply.usage.prompt_tokens, reply.served_by) == (7, "qwen")


@pytest.mark.parametrize(
    "content",
    [
        stream({"content": T}, finish=None, end=""),
        b'data: {"error": {"message": "overloaded"}}\n\n',
        b": keepalive\n\n",
        b"data: {",
    ],
)
async def test_half_a_stream_is_a_passing_fault(content: bytes) -> None:
    with pytest.raises(TransientError, match="not a chat completion"):
        await reply_to(content)


@pytest.mark.parametrize(
    ("content", "finish"),
    [
        (body("", reasoning_content=THOUGHT), FinishReason.REASONING),
        (body(None, reasoning=THOUGHT), FinishReason.REASONING),
        (body(f"<think>{THOUGHT}"), FinishReason.REASONING),
        (body(f"<think>{THOUGHT}</think>"), FinishReason.REASONING),
        (body(f"<|channel|>analysis<|message|>{THOUGHT}<|end|>"), FinishReason.REASONING),
        (body([{"type": "thinking", "thinking": THOUGHT}]), FinishReason.REASONING),
        (body(None), FinishReason.EMPTY),
        (body([]), FinishReason.EMPTY),
        (body("<|im_end|>"), FinishReason.EMPTY),
        (body(f"<think>{THOUGHT}", finish="length"), FinishReason.LENGTH),
    ],
)  # fmt: skip
async def test_a_draft_in_a_thought_is_no_answer(
    content: bytes, finish: FinishReason
) -> None:
    reply = await reply_to(content)
    assert (reply.finish, reply.text) == (finish, "")


async def test_prose_keeps_its_words() -> None:
    for text in (
        "It is  <b>so</b>.\n",
        "analysis of the note",
        "[1] says </b>",
        "x |> y",
    ):
        assert (await reply_to(body(text))).text == text
    reply = await reply_to(body(f"<think>{THOUGHT}</think>\n\nNo, never."))
    assert reply.text == "No, never."


UNREADABLE = {
    "only-reasoning": "only reasoning, no answer: turn the model's reasoning off",
    "null-content": "an empty reply, no answer: try the model",
    "think-cut": "cut off before an answer began; raise agents.",
    "prose": "no JSON object, only other text: name another model",
}


@pytest.mark.parametrize("fault", UNREADABLE)
def test_a_server_nobody_can_read_is_explained_and_not_asked_twice_a_call(
    fault: str, tmp_path: Path
) -> None:
    """Context, a call a sentence and recruiting: the most that is learned without one readable reply."""
    with FakeServer(f"{fault},always") as server:
        typed = {"base_url": server.base_url, "model": "fake", "api_key": "k"}
        run = predict(
            "mini",
            out=tmp_path / "run",
            selection=Selection(limit=1),
            settings=load_settings(typed=typed),
        )
        [case] = run.cases
        assert server.count <= len(case.sentences) + 3
    assert run.count(CaseStatus.FAILED) == 1
    [record] = run.records
    assert UNREADABLE[fault] in record.error


@pytest.mark.parametrize("fault", ["only-reasoning", "null-content", "prose"])
def test_one_unreadable_reply_among_others_is_asked_for_again(
    fault: str, tmp_path: Path
) -> None:
    with FakeServer(f"{fault},first=1,only=decision") as server:
        typed = {"base_url": server.base_url, "model": "fake", "api_key": "k"}
        run = predict(
            "mini",
            out=tmp_path / "run",
            selection=Selection(limit=1),
            settings=load_settings(typed=typed),
        )
    assert run.count(CaseStatus.ANSWERED) == 1
    assert server.requests.agents["decision"] == 2
