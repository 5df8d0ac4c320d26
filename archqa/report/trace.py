"""The trace of a case as a tree: stages, the calls of their agents, attempts, and their texts."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from archqa.core.case import Case
from archqa.core.question import Item
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.report.page import as_json, shorten
from archqa.runs.folder import trace_name
from archqa.runs.run import Run

MAX_TEXT_LENGTH = 20_000
MAX_PAGE_LENGTH = 1_500_000
"""Characters of all texts of a page; a browser still opens and searches it at once."""

_MAX_CALLS_IN_REPORT = 40
_MAX_CALLS_ON_PAGE = 400
_MAX_SUMMARY_LENGTH = 320
_MAX_REJECTION_LENGTH = 200
_MAX_TABLE_ROWS = 200
_MAX_EXCERPT_LENGTH = 90

_MODEL = "model"
"""The backend of steps that a model took."""
_QUERY_PARSER = "embedded:query-parser"
_EMPTY_REPLY = "{}"
"""What a repair turn shows the model of a reply that had no text."""
_INSTRUCTING_ROLES = ("system", "user")
_LATER_ROLES = frozenset({"assistant", "tool"})

Messages = tuple[dict[str, Any], ...]

Excerpts = Mapping[str, str]
"""Sentence id to its text; empty where texts are not shown."""


class TraceText(NamedTuple):
    """A text of a trace; `omitted` characters of its end are only in the file of the trace."""

    title: str
    text: str
    omitted: int = 0

    @property
    def length(self) -> int:
        """Characters of the text before it was cut."""
        return len(self.text) + self.omitted


class ToolCallView(NamedTuple):
    """A tool that a reply calls; `result` is None if the trace has none."""

    name: str
    arguments: TraceText
    result: TraceText | None


class AttemptView(NamedTuple):
    """One request of a call. `received` is what the model was sent that it had not seen yet:
    `received_kind` says whether that is the prompt, a repair, or a message.
    """

    received_kind: str
    received: tuple[TraceText, ...]
    reply: TraceText
    finish: str
    tool_calls: tuple[ToolCallView, ...]
    rejection: TraceText
    kept_in_part: bool
    usage: Usage


class StatedLabel(NamedTuple):
    """The label that one role gave to one sentence; empty where it gave none."""

    label: str = ""
    probability: float | None = None


class JudgementRow(NamedTuple):
    """One sentence, with the label that each role gave it."""

    sentence_id: str
    excerpt: str
    cells: tuple[StatedLabel, ...]


class JudgementTable(NamedTuple):
    """The judgements of all roles; `omitted` sentences are only in the file of the trace."""

    roles: tuple[str, ...]
    rows: tuple[JudgementRow, ...]
    omitted: int


class CallView(NamedTuple):
    """One call of an agent on a model. Without texts, `attempts` is empty but counted.

    `outcome` is accepted, kept in part, or failed.
    """

    is_conversation: bool
    about: str
    model: str
    prompt: str
    outcome: str
    attempt_count: int
    attempts: tuple[AttemptView, ...]
    tool_call_count: int
    rejections: tuple[str, ...]
    summary: str
    judgements: JudgementTable | None
    usage: Usage


class EngineView(NamedTuple):
    """Everything that the embedded engine computed in one stage."""

    name: str
    judgement_count: int
    summary: str
    judgements: JudgementTable | None
    outputs: tuple[TraceText, ...]
    rejections: tuple[str, ...]


class StageView(NamedTuple):
    """A stage of the pipeline: what the engine computed, and the calls of models.

    `calls` are the first of `call_count`.
    """

    name: str
    engine: EngineView | None
    calls: tuple[CallView, ...]
    call_count: int
    rejected: int
    usage: Usage

    @property
    def omitted(self) -> int:
        """Calls that the page leaves out."""
        return self.call_count - len(self.calls)


class Trace(NamedTuple):
    """The tree of a case; `file` has all of it, relative to the folder of the run."""

    stages: tuple[StageView, ...]
    steps: int
    call_count: int
    rejected: int
    usage: Usage
    file: str
    is_full: bool


def case_trace(
    run: Run,
    case_id: str,
    *,
    text: bool,
    tables: bool,
) -> Trace:
    """Return the tree of a case for a report: without prompts, replies shortened.

    Without `text`, it has only the agents and their cost. `tables` of judgements are left out
    where the report shows the judgements elsewhere.
    """
    extent = _Extent(text, text and tables, None, {})
    return _trace(run, case_id, extent, _MAX_CALLS_IN_REPORT)


def full_trace(run: Run, item: Item) -> Trace:
    """Return the tree of a case with its prompts, replies, rejections, and tool calls."""
    excerpts = {}
    if isinstance(item, Case):
        excerpts = {sentence.id: sentence.text for sentence in item.sentences}
    extent = _Extent(True, True, _TextCutter(), excerpts)
    return _trace(run, item.id, extent, _MAX_CALLS_ON_PAGE)


class _TextCutter:
    """Cuts each text, and all texts of a page together."""

    def __init__(self) -> None:
        self._characters_left = MAX_PAGE_LENGTH

    def cut(self, title: str, text: str) -> TraceText:
        """Return the start of a text that there is room for."""
        start = text[: min(MAX_TEXT_LENGTH, self._characters_left)]
        self._characters_left -= len(start)
        return TraceText(title, start, len(text) - len(start))


class _Extent(NamedTuple):
    """How much of a trace a page has. `cutter` is None where prompts and replies are left out;
    `tables` are of judgements.
    """

    text: bool
    tables: bool
    cutter: _TextCutter | None
    excerpts: Excerpts


def _trace(
    run: Run,
    case_id: str,
    extent: _Extent,
    max_calls: int,
) -> Trace:
    steps = run.folder.steps(case_id)
    steps_by_agent: dict[str, list[Step]] = {}
    for step in steps:
        steps_by_agent.setdefault(step.agent, []).append(step)
    stages = []
    calls_left = max_calls
    for agent, stage_steps in steps_by_agent.items():
        stage = _stage(agent, stage_steps, extent, calls_left)
        calls_left -= len(stage.calls)
        stages.append(stage)
    return Trace(
        stages=tuple(stages),
        steps=len(steps),
        call_count=sum(stage.call_count for stage in stages),
        rejected=sum(stage.rejected for stage in stages),
        usage=sum_usage(step.usage for step in steps),
        file=trace_name(case_id),
        is_full=extent.cutter is not None,
    )


def _stage(
    agent: str,
    steps: Sequence[Step],
    extent: _Extent,
    max_calls: int,
) -> StageView:
    engine_steps = [step for step in steps if step.backend != _MODEL]
    # The calls of the steps that models took, in the order of their first attempts.
    calls: list[_Call] = []
    for model_step in steps:
        if model_step.backend != _MODEL:
            continue
        for earlier in reversed(calls):
            if earlier.add(model_step):
                break
        else:
            calls.append(_Call(model_step))
    call_views = [_call_view(call, extent) for call in calls[:max_calls]]
    return StageView(
        name=agent.replace("_", " "),
        engine=_engine_view(engine_steps, extent) if engine_steps else None,
        calls=tuple(call_views),
        call_count=len(calls),
        rejected=sum(bool(step.rejected) for step in steps),
        usage=sum_usage(step.usage for step in steps),
    )


def _engine_view(steps: Sequence[Step], extent: _Extent) -> EngineView:
    judgement_count = 0
    summaries = []
    outputs = []
    for step in steps:
        labels = _stated_labels(step)
        judgement_count += len(labels)
        if labels:
            continue
        summaries.append(_summarise_output(step))
        if extent.cutter and step.parsed:
            title = step.about or "output"
            outputs.append(extent.cutter.cut(title, as_json(step.parsed)))
    is_parser = steps[0].model == _QUERY_PARSER
    summary = "; ".join(summaries) if extent.text else ""
    return EngineView(
        name="query parser" if is_parser else "embedded engine",
        judgement_count=judgement_count,
        summary=shorten(summary, _MAX_SUMMARY_LENGTH),
        judgements=_judgement_table(steps, extent.excerpts) if extent.tables else None,
        outputs=tuple(outputs),
        rejections=_rejections(steps, extent),
    )


def _call_view(call: "_Call", extent: _Extent) -> CallView:
    steps = [attempt.step for attempt in call.attempts]
    last = steps[-1]
    outcome = "accepted"
    if last.rejected:
        outcome = "kept in part" if last.repaired else "failed"
    tool_names = []
    for step in steps:
        for tool_call in step.tool_calls:
            tool_names.append(str(tool_call.get("name", "")))
    # What the call led to: its output, else its last words or the tools it called.
    summary = ", ".join(tool_names)
    if last.parsed or last.reply:
        summary = _summarise_output(last)
    return CallView(
        is_conversation=call.is_conversation,
        about=last.about if extent.text else "",
        model=last.model,
        prompt=last.prompt,
        outcome=outcome,
        attempt_count=len(steps),
        attempts=_attempt_views(call, extent.cutter) if extent.cutter else (),
        tool_call_count=len(tool_names),
        rejections=_rejections(steps, extent),
        summary=shorten(summary, _MAX_SUMMARY_LENGTH) if extent.text else "",
        judgements=_judgement_table([last], extent.excerpts) if extent.tables else None,
        usage=sum_usage(step.usage for step in steps),
    )


def _rejections(steps: Iterable[Step], extent: _Extent) -> tuple[str, ...]:
    """Return why outputs were sent back, each reason once."""
    if not extent.text:
        return ()
    max_length = _MAX_REJECTION_LENGTH if extent.cutter is None else _MAX_SUMMARY_LENGTH
    reasons = dict.fromkeys(step.rejected for step in steps if step.rejected)
    return tuple(shorten(reason, max_length) for reason in reasons)


class _Attempt(NamedTuple):
    """One request to a model; `new_messages` are those that the attempt before did not have."""

    step: Step
    new_messages: Messages


class _Call:
    """One call of an agent on a model: its attempts, or the turns of its conversation."""

    def __init__(self, step: Step) -> None:
        self.attempts = [_Attempt(step, step.messages)]
        self.is_conversation = bool(step.tool_calls)
        self._messages = step.messages

    def add(self, step: Step) -> bool:
        """Add the step if it continues this call; say whether it does."""
        last = self.attempts[-1].step
        if (step.agent, step.about) != (last.agent, last.about):
            return False
        if self._is_next_turn(step):
            self.is_conversation = True
            self._messages += step.messages
            self.attempts.append(_Attempt(step, step.messages))
            return True
        if self._repeats_messages(step, last):
            new_messages = step.messages[len(self._messages) :]
            self._messages = step.messages
            self.attempts.append(_Attempt(step, new_messages))
            return True
        return False

    def _is_next_turn(self, step: Step) -> bool:
        """Whether the step has the new messages of a conversation only."""
        if not step.messages:
            return bool(self._messages)
        role = step.messages[0].get("role")
        first_role = self._messages[0].get("role") if self._messages else None
        return role in _LATER_ROLES or (role == "user" and first_role == "system")

    def _repeats_messages(self, step: Step, last: Step) -> bool:
        """Whether the step repeats all messages so far, after a reply that was sent back."""
        count = len(self._messages)
        if step.messages[:count] != self._messages:
            return False
        if len(step.messages) == count:
            return bool(last.rejected) and step.model == last.model
        return step.messages[count].get("content") == (last.reply or _EMPTY_REPLY)


def _attempt_views(call: _Call, cutter: _TextCutter) -> tuple[AttemptView, ...]:
    """Return the attempts of a call, with as much of their texts as there is room for."""
    views = []
    earlier: Step | None = None
    following: list[_Attempt | None] = [*call.attempts[1:], None]
    for attempt, later in zip(call.attempts, following, strict=True):
        step = attempt.step
        tool_calls = _tool_call_views(step, later.new_messages if later else (), cutter)
        kind = "prompt"
        if earlier is not None:
            kind = "repair" if earlier.rejected else "message"
        received = []
        for message in attempt.new_messages:
            role = str(message.get("role", ""))
            # The page has the reply before, and the results of its tools, with the attempt before.
            if earlier is None or role in _INSTRUCTING_ROLES:
                content = str(message.get("content") or "")
                received.append(cutter.cut(role, content))
        views.append(
            AttemptView(
                received_kind=kind,
                received=tuple(received),
                reply=cutter.cut("reply", step.reply),
                finish=step.finish,
                tool_calls=tool_calls,
                rejection=cutter.cut("rejection", step.rejected),
                kept_in_part=step.repaired,
                usage=step.usage,
            )
        )
        earlier = step
    return tuple(views)


def _tool_call_views(
    step: Step, next_messages: Messages, cutter: _TextCutter
) -> tuple[ToolCallView, ...]:
    """Return the tool calls of a reply; the next turn starts with their results."""
    results = {}
    for message in next_messages:
        if message.get("role") == "tool":
            call_id = str(message.get("tool_call_id"))
            results[call_id] = str(message.get("content") or "")
    views = []
    for call in step.tool_calls:
        arguments = call.get("arguments")
        text = arguments if isinstance(arguments, str) else as_json(arguments)
        argument_text = cutter.cut("arguments", text)
        result = results.get(str(call.get("id")))
        result_text = None if result is None else cutter.cut("result", result)
        name = str(call.get("name", ""))
        views.append(ToolCallView(name, argument_text, result_text))
    return tuple(views)


def _judgement_table(
    steps: Iterable[Step], excerpts: Excerpts
) -> JudgementTable | None:
    """Return the labels that these steps gave to sentences; None if they gave none."""
    by_sentence: dict[str, dict[str, StatedLabel]] = {}
    roles: dict[str, None] = {}
    for step in steps:
        for role, sentence_id, label in _stated_labels(step):
            roles[role] = None
            by_sentence.setdefault(sentence_id, {})[role] = label
    if not by_sentence:
        return None
    rows = []
    for sentence_id, by_role in list(by_sentence.items())[:_MAX_TABLE_ROWS]:
        cells = tuple(by_role.get(role, StatedLabel()) for role in roles)
        excerpt = shorten(excerpts.get(sentence_id, ""), _MAX_EXCERPT_LENGTH)
        rows.append(JudgementRow(sentence_id, excerpt, cells))
    omitted = len(by_sentence) - len(rows)
    return JudgementTable(tuple(roles), tuple(rows), omitted)


def _stated_labels(step: Step) -> list[tuple[str, str, StatedLabel]]:
    """Return role, sentence id and label of an output that labels one sentence or several."""
    parsed = step.parsed or {}
    if "label" in parsed:
        return [("", step.about, _label(parsed))]
    if not isinstance(parsed.get("verdicts"), list):
        return []
    # The call is about a role, unless it names the sentences that are to be labelled.
    about_ids = {part.strip() for part in step.about.split(",")}
    role = step.about
    labels = []
    for verdict in parsed["verdicts"]:
        if isinstance(verdict, dict):
            sentence_id = str(verdict.get("sentence_id", ""))
            labels.append((sentence_id, _label(verdict)))
            if sentence_id in about_ids:
                role = ""
    return [(role, sentence_id, label) for sentence_id, label in labels]


def _label(verdict: Mapping[str, Any]) -> StatedLabel:
    probability = verdict.get("probability")
    if not isinstance(probability, int | float):
        probability = None
    return StatedLabel(str(verdict.get("label", "")), probability)


def _summarise_output(step: Step) -> str:
    """Return the output, or a summary where the page shows its content elsewhere."""
    parsed = step.parsed
    if parsed is None:
        return step.reply
    if "label" in parsed:
        return str(parsed["label"])
    if isinstance(parsed.get("verdicts"), list):
        labels = []
        for verdict in parsed["verdicts"]:
            if isinstance(verdict, dict):
                labels.append(str(verdict.get("label")))
        return f"{len(labels)} sentences judged, {labels.count('essential')} essential"
    if isinstance(parsed.get("answer"), list):
        texts = []
        for line in parsed["answer"]:
            if isinstance(line, dict):
                texts.append(str(line.get("text", "")))
        return " / ".join(texts)
    return "; ".join(map(_format_field, parsed.values()))


def _format_field(field: Any) -> str:
    if isinstance(field, list | tuple):
        return ", ".join(map(_format_field, field))
    if isinstance(field, str):
        return field
    return json.dumps(field, ensure_ascii=False)
