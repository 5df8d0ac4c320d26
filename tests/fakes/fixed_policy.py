"""A fake model server that carries out MedAgentBench's instructions by fixed rules, over the typed tools.

    python -m tests.fakes.fixed_policy        prints the base URL and serves until it is stopped

It shows that environment, tools and graders fit together; its score is not the score of any model. The rules are
about wording and contain no patients and no values.
"""

import json
import re
import sys
import threading
from collections.abc import Generator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from statistics import fmean
from typing import Any, NamedTuple, Self

Call = tuple[str, dict[str, Any]]
"""A tool and its arguments."""

Steps = Generator[Call, dict[str, Any], Any]
"""Yields tool calls and receives their results."""

NOT_AVAILABLE = -1
LOINC, SNOMED = "http://loinc.org", "http://snomed.info/sct"

_TASK = re.compile(
    r"Context: (?P<context>.*?)\nInstruction: (?P<instruction>.*)", re.DOTALL
)
_NOW = re.compile(r"\b(\S+)(?=\s+now\b)")
_PATIENT = re.compile(r"(?<![\w-])([A-Z]{0,3}\d{5,})(?![\w-])")
_PERSON = re.compile(
    r"\bname(?:d| of)?\s+(?P<name>\S.*?),?\s+and\s+(?:a\s+)?(?:DOB|date of birth|birth ?date)"
    r"\s*(?:of|:)?\s*(?P<birth_date>\d{4}-\d\d-\d\d)",
    re.IGNORECASE,
)
_CODES = {
    "ndc": re.compile(r"\bNDC\b[^.]*?\bis:?\s*\"?(\d+-\d+-\d+)", re.IGNORECASE),
    "loinc": re.compile(r"\bLOINC\b[^.]*?\bis:?\s*\"?(\d+-\d)\b", re.IGNORECASE),
    "snomed": re.compile(r"\bSNOMED\b[^.]*?\bis:?\s*\"?(\d{6,18})\b", re.IGNORECASE),
    "flowsheet": re.compile(
        r"\bflowsheet ID\b[^.]*?\bis:?\s*\"?([A-Za-z0-9_-]+)", re.IGNORECASE
    ),
    "lab": re.compile(
        r"(?<!LOINC )(?<!SNOMED )\bcode for [^.\"]*?\bis:?\s*\"?([A-Za-z0-9_-]+)",
        re.IGNORECASE,
    ),
}
_CODE_NAMES = {
    "ndc": re.compile(r"\bNDC for (?:replacement )?(.+?) is\b", re.IGNORECASE),
    "loinc": re.compile(r"\bLOINC code for (?:ordering )?(.+?) is\b", re.IGNORECASE),
    "snomed": re.compile(r"\bSNOMED code for (.+?) is\b", re.IGNORECASE),
}
_QUOTED = re.compile(r"[\"“]([^\"“”]+)[\"”]")
_FALLBACK_ANSWER = re.compile(r"answer should be [\"“]([^\"”]+)[\"”]", re.IGNORECASE)
_MAX_AGE = re.compile(
    r"(?:greater|older|more) than (\d+|a|one) years?(?: old)?", re.IGNORECASE
)
_LOOKBACK = re.compile(r"\b(?:last|past|previous)\s+(\d+)\s+hours?\b", re.IGNORECASE)
_NEXT_DAY_AT = re.compile(r"\bnext day at (\d{1,2})\s*am\b", re.IGNORECASE)
_ASKS_FOR_MEAN = re.compile(r"\b(?:average|mean)\b", re.IGNORECASE)
_ASKS_FOR_AGE = re.compile(r"\bage of\b|\bhow old\b", re.IGNORECASE)
_ASKS_TO_ORDER = re.compile(r"\border\b", re.IGNORECASE)
_ASKS_TO_RECORD = re.compile(
    r"\b(?:record|document|chart) it\b|^\s*(?:record|document)\b", re.IGNORECASE
)


class GaveUp(Exception):
    """The policy cannot carry out the instruction; its model says why, without calling a tool."""


class Task(NamedTuple):
    """An instruction with its context, and the parts that the rules recognise in them."""

    instruction: str
    context: str

    @property
    def patient(self) -> str:
        return _first_group(_PATIENT, self.instruction)

    @property
    def now(self) -> datetime:
        return datetime.fromisoformat(_first_group(_NOW, self.context))

    def code(self, kind: str) -> str:
        """The code of a kind: ndc, loinc, snomed, flowsheet or lab; empty if there is none."""
        return _first_group(_CODES[kind], f"{self.instruction}\n{self.context}")

    def code_name(self, kind: str, default: str) -> str:
        """What a code stands for."""
        return (
            _first_group(
                _CODE_NAMES[kind], f"{self.instruction}\n{self.context}"
            ).strip()
            or default
        )


def next_call(messages: list[dict[str, Any]]) -> Call:
    """The tool that the policy calls next in a conversation. Raises `GaveUp`."""
    text = next(message["content"] for message in messages if message["role"] == "user")
    match = _TASK.search(text)
    if match is None:
        raise GaveUp("This is not an instruction of MedAgentBench.")
    steps = carry_out(Task(match["instruction"], match["context"]))
    call = next(steps)
    for message in messages:
        if message["role"] == "tool":
            call = steps.send(json.loads(message["content"]))
    return call


def carry_out(task: Task) -> Steps:
    """Carry out an instruction to its end."""
    if _PERSON.search(task.instruction):
        yield from _find_patient(task)
    elif _ASKS_FOR_AGE.search(task.instruction):
        yield from _report_age(task)
    elif _ASKS_TO_RECORD.search(task.instruction) and task.code("flowsheet"):
        yield from _record_vital_sign(task)
    elif _ASKS_TO_ORDER.search(task.instruction) and not task.code("lab"):
        yield from _order_referral(task)
    elif _ASKS_TO_ORDER.search(task.instruction) and _MAX_AGE.search(task.instruction):
        yield from _reorder_if_old(task)
    elif _ASKS_TO_ORDER.search(task.instruction):
        yield from _replace_if_low(task)
    elif task.code("lab"):
        yield from _report_value(task)
    raise GaveUp("The instruction is of no kind that the policy knows.")


def _find_patient(task: Task) -> Steps:
    person = _PERSON.search(task.instruction)
    assert person is not None
    first_name = person["name"].split()[
        0
    ]  # Where the family name begins is not in the text.
    search = {"name": first_name, "birthdate": person["birth_date"]}
    words = set(person["name"].casefold().split())
    candidates = yield from _found("find_patients", search)
    patients = [patient for patient in candidates if words <= _name_words(patient)]
    if len(patients) == 1:
        explanation = "The only patient of this name and date of birth."
        yield from _finish([patients[0]["record_number"][0]], explanation, patients)
    fallback = _first_group(_FALLBACK_ANSWER, task.instruction) or NOT_AVAILABLE
    explanation = "Several patients have them." if patients else "No patient has them."
    yield from _finish([fallback], explanation, [])


def _report_age(task: Task) -> Steps:
    patients = yield from _found("find_patients", {"identifier": task.patient})
    if not patients:
        yield from _finish([NOT_AVAILABLE], "The record has no such patient.", [])
    born = patients[0]["birthDate"]
    age = yield from _result("calculate", {"expression": f"age('{born}', now)"})
    yield from _finish([age["value"]], f"Born {born}.", patients)


def _report_value(task: Task) -> Steps:
    measurements = yield from _measurements(task)
    latest = _latest(measurements)
    if latest is None:
        yield from _finish(
            [NOT_AVAILABLE], "There is no measurement in the time asked for.", []
        )
    elif _ASKS_FOR_MEAN.search(task.instruction):
        mean = fmean(measurement["value"] for measurement in measurements)
        explanation = f"The mean of {len(measurements)} measurements."
        yield from _finish([mean], explanation, measurements)
    else:
        yield from _finish(
            [latest["value"]], f"Measured at {latest['time']}.", [latest]
        )


def _record_vital_sign(task: Task) -> Steps:
    patients = yield from _found("find_patients", {"identifier": task.patient})
    value = _first_group(_QUOTED, task.instruction)
    sign = {
        "patient": task.patient,
        "flowsheet": task.code("flowsheet"),
        "value": value,
    }
    objection = yield from _write([("record_vital", sign)], patients)
    yield from _finish([], objection or "Recorded.", patients)


def _order_referral(task: Task) -> Steps:
    """A referral or a test without any condition."""
    patients = yield from _found("find_patients", {"identifier": task.patient})
    order = yield from _service_order(task, _first_group(_QUOTED, task.instruction))
    objection = yield from _write([order], patients)
    yield from _finish([], objection or "Ordered.", patients)


def _replace_if_low(task: Task) -> Steps:
    """Read the latest measurement, and order a replacement if it is low."""
    latest = _latest((yield from _measurements(task)))
    if latest is None:
        explanation = (
            "There is no measurement in the time asked for; nothing is ordered."
        )
        yield from _finish([NOT_AVAILABLE], explanation, [])
    assert latest is not None
    measured = {"measured": latest["value"], "unit": latest["unit"]}
    dose = yield "replacement_dose", measured
    if "error" in dose:
        yield from _finish([latest["value"]], f"Refused: {dose['error']}", [latest])
    if not dose["low"]:
        yield from _finish([latest["value"]], "Not low: nothing is ordered.", [latest])
    medication = {
        "patient": task.patient,
        "ndc": task.code("ndc"),
        "name": task.code_name("ndc", "replacement"),
        **{name: dose[name] for name in ("route", "dose", "unit", "hours")},
    }
    orders: list[Call] = [("order_medication", medication)]
    if task.code("loinc"):
        orders.append((yield from _service_order(task)))
    yield from _found("find_patients", {"identifier": task.patient})
    objection = yield from _write(orders, [latest])
    yield from _finish([latest["value"]], objection or "Low: replaced.", [latest])


def _reorder_if_old(task: Task) -> Steps:
    """Report the latest value and its time; order a new test if it is too old or there is none."""
    latest = _latest((yield from _measurements(task)))
    cited = [latest] if latest else []
    years = _first_group(_MAX_AGE, task.instruction)
    oldest = task.now.replace(
        year=task.now.year - (int(years) if years.isdigit() else 1)
    )
    explanation = "Recent enough: nothing is ordered."
    if latest is None or datetime.fromisoformat(latest["time"]) < oldest:
        patients = yield from _found("find_patients", {"identifier": task.patient})
        order = yield from _service_order(task)
        objection = yield from _write([order], cited or patients)
        explanation = objection or "Too old or absent: a new test is ordered."
    answers = [latest["value"], latest["time"]] if latest else [NOT_AVAILABLE]
    yield from _finish(answers, explanation, cited)


def _service_order(task: Task, note: str = "") -> Steps:
    """Return the call that orders a test or a referral."""
    kind = "loinc" if task.code("loinc") else "snomed"
    order = {
        "patient": task.patient,
        "system": LOINC if kind == "loinc" else SNOMED,
        "code": task.code(kind),
        "name": task.code_name(kind, kind),
        "note": note,
        "priority": "stat",  # The benchmark's function file asks for it, whatever an instruction says.
    }
    hour = _first_group(_NEXT_DAY_AT, task.instruction)
    if hour:
        next_day = yield from _result("dates", {"days": 1, "at": f"{int(hour):02}:00"})
        order["when"] = next_day["time"]
    return "order_service", order


def _measurements(task: Task) -> Steps:
    """Return the valid measurements of the instruction's code, of the time asked for."""
    search: dict[str, Any] = {"patient": task.patient, "code": task.code("lab")}
    hours = _first_group(_LOOKBACK, task.instruction)
    if hours:
        search["within_hours"] = int(hours)
    return (yield from _found("search_labs", search))


def _write(orders: list[Call], evidence: list[dict[str, Any]]) -> Steps:
    """Write until something is refused; return the reasons against it, empty if all is written."""
    references = [resource["id"] for resource in evidence]
    for tool, arguments in orders:
        order = {**arguments, "evidence": references}
        preview = yield tool, order
        if "error" in preview or preview["against_it"]:
            return f"Refused: {preview.get('error') or ' '.join(preview['against_it'])}"
        written = yield tool, {**order, "settled": True}
        if not written.get("written"):
            return f"Refused: {written.get('error', '')}"
    return ""


def _finish(answers: list[Any], explanation: str, cited: list[dict[str, Any]]) -> Steps:
    references = [resource["id"] for resource in cited]
    yield (
        "finish",
        {"answers": answers, "explanation": explanation, "cited": references},
    )
    raise GaveUp("The answers were refused.")


def _found(tool: str, arguments: dict[str, Any]) -> Steps:
    """Return the resources that a search finds. Raises `GaveUp`."""
    result = yield from _result(tool, arguments)
    return result["resources"]


def _result(tool: str, arguments: dict[str, Any]) -> Steps:
    result = yield tool, arguments
    if "error" in result:
        raise GaveUp(f"{tool}: {result['error']}")
    return result


def _latest(measurements: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The latest measurement; the first of several at the same time."""
    return max(
        measurements, key=lambda one: datetime.fromisoformat(one["time"]), default=None
    )


def _name_words(patient: dict[str, Any]) -> set[str]:
    words: set[str] = set()
    for name in patient.get("name") or []:
        for part in (*(name.get("given") or []), name.get("family") or ""):
            words.update(part.casefold().split())
    return words


def _first_group(pattern: re.Pattern[str], text: str) -> str:
    match = pattern.search(text)
    return match[1] if match else ""


class PolicyServer:
    """The server in a thread of this process, for as long as a `with` lasts.

    `options` are keywords of `archqa.predict`, `arguments` words of `archqa predict`.
    """

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self.options: dict[str, Any] = {
            "pipeline": "typed",
            "model": "fixed-policy",
            "base_url": self.base_url,
            "cache": False,
        }
        self.arguments = ("--pipeline", "typed", "--model", "fixed-policy")
        self.arguments += ("--base-url", self.base_url, "--set", "cache=false")
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message: dict[str, Any] = {"role": "assistant", "content": None}
        try:
            tool, arguments = next_call(body["messages"])
            function = {"name": tool, "arguments": json.dumps(arguments)}
            call_id = f"call_{len(body['messages'])}"
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": function}
            ]
        except GaveUp as reason:
            message["content"] = str(reason)
        finish = "tool_calls" if "tool_calls" in message else "stop"
        choice = {"index": 0, "finish_reason": finish, "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        completion = {"model": body["model"], "choices": [choice], "usage": usage}
        content = json.dumps({"object": "chat.completion", **completion}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""


if __name__ == "__main__":
    with PolicyServer() as server:
        print(server.base_url, flush=True)  # noqa: T201
        sys.stdin.read()
