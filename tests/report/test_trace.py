"""The trace of a case: stages, calls, attempts, and what the embedded engine computed."""

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from archqa.core.step import Step
from archqa.core.usage import Usage
from archqa.report import report_html
from archqa.settings import Settings
from tests.report.synthetic_runs import cases_with_specialties, create_run

SYSTEM = {"role": "system", "content": "You judge."}
QUESTION = {"role": "user", "content": "Why?"}
USAGE = Usage(
    calls=1, prompt_tokens=100, completion_tokens=10, cost_usd=0.01, seconds=2.0
)


def model_step(
    agent: str, messages: Sequence[dict[str, Any]], reply: str, **fields: Any
) -> Step:
    return Step(
        agent=agent,
        backend="model",
        model="m1",
        messages=tuple(messages),
        reply=reply,
        usage=USAGE,
        **fields,
    )


def engine_step(agent: str, parsed: dict[str, Any], about: str = "") -> Step:
    return Step(
        agent=agent, about=about, backend="embedded", model="embedded:0", parsed=parsed
    )


def run_with(folder: Path, steps: Sequence[Step], sentences: int = 5) -> Path:
    """A run of one case with these steps alone."""
    run = create_run(folder, cases_with_specialties(1, sentences))
    [trace] = (run / "trace").iterdir()
    trace.write_text("".join(step.model_dump_json() + "\n" for step in steps))
    return run


async def trace_page(folder: Path, steps: Sequence[Step], sentences: int = 5) -> str:
    """The page of the trace with these steps, without its style."""
    pytest.importorskip("fastapi", reason="the extra `web` is not installed")
    from archqa.web import WebConfig, create_app

    run = run_with(folder, steps, sentences)
    transport = httpx2.ASGITransport(
        app=create_app(WebConfig([run]), settings=Settings())
    )
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8484"
    ) as client:
        page = (await client.get(f"/runs/{run.name}/cases/0/trace")).text
    return page.split("</style>")[1]


def words(page: str) -> str:
    """The text of a page or of a part of it."""
    text = html.unescape(re.sub("<[^>]*>", " ", page)).replace("\u202f", "")
    return " ".join(text.split())


def repaired(agent: str, about: str, first_reply: str) -> tuple[Step, Step]:
    """A reply that is sent back, and the one after the repair."""
    prompt = (SYSTEM, QUESTION)
    repair = (
        {"role": "assistant", "content": first_reply},
        {"role": "user", "content": f"Not {first_reply}: name a sentence."},
    )
    rejected = model_step(
        agent, prompt, first_reply, about=about, rejected="No sentence."
    )
    accepted = model_step(
        agent, (*prompt, *repair), "3", about=about, parsed={"answer": "3"}
    )
    return rejected, accepted


async def test_a_repair_is_an_attempt_of_its_call_and_repeats_no_message(
    tmp_path: Path,
) -> None:
    page = await trace_page(tmp_path, repaired("decision", "", "none"))
    assert "1 agent call on models, 2 requests, 1 sent back" in words(page)
    assert "✓ accepted after repair" in words(page)
    first, second = page.split("<b>Attempt ")[1:]
    assert re.findall(r"<pre[^>]*>(.*?)</pre>", first) == [
        "You judge.",
        "Why?",
        "none",
        "No sentence.",
    ]
    assert "Rejection No sentence." in words(first)
    assert re.findall(r"<pre[^>]*>(.*?)</pre>", second) == [
        "Not none: name a sentence.",
        "3",
    ]
    assert "Repair Not none: name a sentence." in words(second)
    assert "220 tokens" in words(page)
    assert "$0.02" in words(page)


async def test_repairs_of_calls_side_by_side_do_not_mix(tmp_path: Path) -> None:
    cardiology = repaired("specialist", "cardiology", "a")
    surgery = repaired("specialist", "surgery", "b")
    steps = (cardiology[0], surgery[0], surgery[1], cardiology[1])
    page = await trace_page(tmp_path, steps)
    calls = page.split('<details class="t-call"')[1:]
    assert [
        re.findall(r"Not \w: name|cardiology|surgery", words(call)) for call in calls
    ] == [
        ["cardiology", "Not a: name", "Not a: name"],
        ["surgery", "Not b: name", "Not b: name"],
    ]


async def test_the_same_prompt_asked_twice_is_two_calls_unless_it_was_sent_back(
    tmp_path: Path,
) -> None:
    accepted = model_step(
        "decision", (SYSTEM, QUESTION), "yes", parsed={"answer": "yes"}
    )
    declined = accepted.model_copy(
        update={"rejected": "The model declined.", "parsed": None}
    )
    twice = await trace_page(tmp_path, (accepted, accepted))
    (tmp_path / "again").mkdir()
    again = await trace_page(tmp_path / "again", (declined, accepted))
    assert "2 agent calls on models" in words(twice)
    assert "1 agent call on models" in words(again)


async def test_the_tools_of_a_conversation_stand_with_their_results(
    tmp_path: Path,
) -> None:
    searched = {"id": "1", "name": "search", "arguments": '{"code": "GLU"}'}
    finished = {"id": "2", "name": "finish", "arguments": "{}"}
    later_messages = (
        {"role": "assistant", "content": "", "tool_calls": [searched]},
        {"role": "tool", "content": "93 mg/dL", "tool_call_id": "1"},
    )
    steps = (
        model_step("clinical_typed", (SYSTEM, QUESTION), "", tool_calls=(searched,)),
        model_step("clinical_typed", later_messages, "", tool_calls=(finished,)),
    )
    page = await trace_page(tmp_path, steps)
    assert "conversation: 2 turns , 2 tool calls" in words(page)
    search, finish = page.split("<b>Turn ")[1:]
    assert 'Tool search Call {"code": "GLU"} {"code": "GLU"} Result 93 mg/dL' in words(
        search
    )
    assert "The trace has no result: nothing was asked after this call." in words(
        finish
    )
    assert "93 mg/dL" not in finish
    assert "Message to the agent" not in words(page)


async def test_what_the_engine_judged_sentence_by_sentence_is_one_step(
    tmp_path: Path,
) -> None:
    steps = [
        engine_step(
            "general_expert", {"label": "essential", "probability": 0.8}, str(sentence)
        )
        for sentence in range(1, 30)
    ]
    page = await trace_page(tmp_path, steps, sentences=29)
    assert "embedded engine: 29 judgements" in words(page)
    assert "t-call" not in page
    row = re.findall(r'<tr><th scope="row"><span class="id">29</span>.*?</tr>', page)[0]
    assert words(row).endswith("▸ essential 0.80")


async def test_the_engines_specialists_are_columns_of_one_table(tmp_path: Path) -> None:
    verdict = {"sentence_id": "1", "label": "essential", "probability": 0.8}
    steps = [
        engine_step("specialist", {"verdicts": [verdict]}, specialty)
        for specialty in ("cardiology", "surgery")
    ]
    page = await trace_page(tmp_path, steps)
    [head] = re.findall(r"<thead>.*?</thead>", page)
    assert words(head) == "Sentence cardiology p surgery p"


async def test_a_long_text_is_cut_and_says_how_much(tmp_path: Path) -> None:
    page = await trace_page(tmp_path, [model_step("decision", (SYSTEM,), "x" * 20_007)])
    assert "The first 20000 of 20007 characters" in words(page)
    assert "x" * 20_000 in page
    assert "x" * 20_001 not in page


def test_a_report_without_text_has_the_agents_and_their_cost(tmp_path: Path) -> None:
    steps = repaired("specialist", "zweifelsohne", "zweifelsohne")
    run = run_with(tmp_path, steps)
    page = report_html([run], text=False)
    assert "zweifelsohne" not in page
    assert "No sentence." not in page
    assert "2 attempts" in page
    assert "220 tokens · 4.0 s · $0.02" in words(page)


def test_a_report_has_what_was_sent_back_but_no_prompt(tmp_path: Path) -> None:
    page = report_html([run_with(tmp_path, repaired("decision", "", "none"))])
    assert "sent back" in page
    assert "No sentence." in page
    assert "You judge." not in page


ENGINE = {"kind": "embedded", "digest": "0"}


def judged_by(path: Path, backends: dict[str, dict[str, str]]) -> Path:
    """The run, as if these backends had run its agents."""
    manifest = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**manifest, "backends": backends}))
    return path


def test_the_engine_is_not_compared_with_itself(tmp_path: Path) -> None:
    run = create_run(tmp_path, cases_with_specialties(2))
    engine = {"general_expert": ENGINE, "specialist": ENGINE}
    page = report_html([judged_by(run, engine)])
    assert "Agreement between agents" not in page
    assert "Judgements of the agents" not in page


def test_the_engine_in_several_roles_is_one_agent_beside_a_model(
    tmp_path: Path,
) -> None:
    run = create_run(tmp_path, cases_with_specialties(2))
    model = {"kind": "model", "name": "m1", "server": "http://127.0.0.1"}
    backends = {"general_expert": model, "specialist": ENGINE}
    page = report_html([judged_by(run, backends)])
    [heat] = re.findall(r'<table class="heat">\s*<thead>(.*?)</thead>', page)
    assert words(heat) == "embedded engine general expert the key"
    grids = re.findall(r'<table class="grid">.*?<thead>(.*?)</thead>', page, re.DOTALL)
    assert [words(head) for head in grids] == [
        "Sentence general expert embedded engine key"
    ] * 2
