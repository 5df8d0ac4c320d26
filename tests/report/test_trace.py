"""The trace of a case: stages, calls, attempts, and what the embedded engine computed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from archqa.core.step import Step
from archqa.core.usage import Usage
from archqa.report import report_html
from archqa.report.agreement import agreement_table
from archqa.report.case_view import case_view
from archqa.report.report_data import load_report_data
from archqa.report.trace import Trace, case_trace, full_trace
from archqa.report.trace_texts import MAX_TEXT_LENGTH
from archqa.runs.run import Run
from tests.report.synthetic_runs import cases_with_specialties, create_run

SYSTEM = {"role": "system", "content": "You judge."}
QUESTION = {"role": "user", "content": "Why?"}
USAGE = Usage(calls=1, prompt_tokens=100, completion_tokens=10, cost_usd=0.01, seconds=2.0)


def model_step(agent: str, messages: Sequence[dict[str, Any]], reply: str, **fields: Any) -> Step:
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
    return Step(agent=agent, about=about, backend="embedded", model="embedded:0", parsed=parsed)


def run_with(folder: Path, steps: Sequence[Step], sentences: int = 5) -> Run:
    """A run of one case with these steps alone."""
    path = create_run(folder, cases_with_specialties(1, sentences))
    run = Run.open(path)
    trace = path / case_trace(run, run.cases[0].id).file
    trace.write_text("".join(step.model_dump_json() + "\n" for step in steps))
    return run


def full(run: Run) -> Trace:
    return full_trace(run, run.cases[0])


def repaired(agent: str, about: str, first_reply: str) -> tuple[Step, Step]:
    """A reply that is sent back, and the one after the repair."""
    prompt = (SYSTEM, QUESTION)
    repair = (
        {"role": "assistant", "content": first_reply},
        {"role": "user", "content": f"Not {first_reply}: name a sentence."},
    )
    rejected = model_step(agent, prompt, first_reply, about=about, rejected="No sentence.")
    accepted = model_step(agent, (*prompt, *repair), "3", about=about, parsed={"answer": "3"})
    return rejected, accepted


def test_a_repair_is_an_attempt_of_its_call_and_repeats_no_message(tmp_path: Path) -> None:
    trace = full(run_with(tmp_path, repaired("decision", "", "none")))
    (stage,) = trace.stages
    (call,) = stage.calls
    first, second = call.attempts
    assert first.rejection.text == "No sentence."
    assert [text.text for text in first.received] == ["You judge.", "Why?"]
    assert second.received_kind == "repair"
    assert [text.text for text in second.received] == ["Not none: name a sentence."]
    assert call.outcome == "accepted"
    assert stage.usage.prompt_tokens == 200
    assert stage.usage.cost_usd == 0.02


def test_repairs_of_calls_side_by_side_do_not_mix(tmp_path: Path) -> None:
    cardiology = repaired("specialist", "cardiology", "a")
    surgery = repaired("specialist", "surgery", "b")
    steps = (cardiology[0], surgery[0], surgery[1], cardiology[1])
    (stage,) = full(run_with(tmp_path, steps)).stages
    assert [call.about for call in stage.calls] == ["cardiology", "surgery"]
    assert [call.attempts[1].received[0].text[:5] for call in stage.calls] == ["Not a", "Not b"]


def test_the_same_prompt_asked_twice_is_two_calls_unless_it_was_sent_back(tmp_path: Path) -> None:
    accepted = model_step("decision", (SYSTEM, QUESTION), "yes", parsed={"answer": "yes"})
    declined = accepted.model_copy(update={"rejected": "The model declined.", "parsed": None})
    assert full(run_with(tmp_path, (accepted, accepted))).call_count == 2
    (tmp_path / "again").mkdir()
    assert full(run_with(tmp_path / "again", (declined, accepted))).call_count == 1


def test_the_tools_of_a_conversation_stand_with_their_results(tmp_path: Path) -> None:
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
    ((call,),) = [stage.calls for stage in full(run_with(tmp_path, steps)).stages]
    assert call.is_conversation
    search, finish = [attempt.tool_calls[0] for attempt in call.attempts]
    assert search.arguments.text == '{"code": "GLU"}'
    assert search.result is not None
    assert search.result.text == "93 mg/dL"
    assert finish.result is None
    assert call.attempts[1].received == ()


def test_what_the_engine_judged_sentence_by_sentence_is_one_step(tmp_path: Path) -> None:
    steps = [
        engine_step("general_expert", {"label": "essential", "probability": 0.8}, str(sentence))
        for sentence in range(1, 30)
    ]
    trace = full(run_with(tmp_path, steps, sentences=29))
    (stage,) = trace.stages
    assert stage.calls == ()
    assert stage.engine is not None
    assert stage.engine.judgement_count == 29
    assert stage.engine.judgements is not None
    row = stage.engine.judgements.rows[28]
    assert (row.sentence_id, row.cells[0].label, row.cells[0].probability) == (
        "29",
        "essential",
        0.8,
    )


def test_the_engines_specialists_are_columns_of_one_table(tmp_path: Path) -> None:
    verdict = {"sentence_id": "1", "label": "essential", "probability": 0.8}
    steps = [
        engine_step("specialist", {"verdicts": [verdict]}, specialty)
        for specialty in ("cardiology", "surgery")
    ]
    (stage,) = full(run_with(tmp_path, steps)).stages
    assert stage.engine is not None
    assert stage.engine.judgements is not None
    assert stage.engine.judgements.roles == ("cardiology", "surgery")


def test_a_long_text_is_cut_and_says_how_much(tmp_path: Path) -> None:
    long_reply = "x" * (MAX_TEXT_LENGTH + 7)
    run = run_with(tmp_path, [model_step("decision", (SYSTEM,), long_reply)])
    reply = full(run).stages[0].calls[0].attempts[0].reply
    assert (len(reply.text), reply.omitted) == (MAX_TEXT_LENGTH, 7)


def test_a_report_without_text_has_the_agents_and_their_cost(tmp_path: Path) -> None:
    steps = repaired("specialist", "zweifelsohne", "zweifelsohne")
    run = run_with(tmp_path, steps)
    html = report_html([run.path], text=False)
    assert "zweifelsohne" not in html
    assert "No sentence." not in html
    assert "2 attempts" in html
    assert "220 tokens · 4.0 s · $0.02" in html.replace("\u202f", "")


def test_a_report_has_what_was_sent_back_but_no_prompt(tmp_path: Path) -> None:
    html = report_html([run_with(tmp_path, repaired("decision", "", "none")).path])
    assert "sent back" in html
    assert "No sentence." in html
    assert "You judge." not in html


ENGINE = {"kind": "embedded", "digest": "0"}


def judged_by(path: Path, backends: dict[str, dict[str, str]]) -> Path:
    """The run, as if these backends had run its agents."""
    manifest = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**manifest, "backends": backends}))
    return path


def test_the_engine_is_not_compared_with_itself(tmp_path: Path) -> None:
    path = create_run(tmp_path, cases_with_specialties(2))
    engine = {"general_expert": ENGINE, "specialist": ENGINE}
    data = load_report_data(judged_by(path, engine))
    assert agreement_table(data) is None
    assert case_view(0, data.run.cases[0], [data]).runs[0].grid is None


def test_the_engine_in_several_roles_is_one_agent_beside_a_model(tmp_path: Path) -> None:
    path = create_run(tmp_path, cases_with_specialties(2))
    model = {"kind": "model", "name": "m1", "server": "http://127.0.0.1"}
    backends = {"general_expert": model, "specialist": ENGINE}
    data = load_report_data(judged_by(path, backends))
    table = agreement_table(data)
    assert table is not None
    assert table.names == ("embedded engine", "general expert", "the key")
    grid = case_view(0, data.run.cases[0], [data]).runs[0].grid
    assert grid is not None
    assert grid.agents == ("general expert", "embedded engine")
