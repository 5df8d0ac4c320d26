"""Runs the paper's agent on one task, over a store or over a FHIR server that misbehaves."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from archqa.llm.scripted import ScriptedModel
from archqa.runs.predict import predict
from archqa.runs.record import CaseRecord
from tests.tasks.medagentbench.invented import SyntheticBenchmark, task

ONE = "S9000001"

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def fhir_server(answer: Answer) -> Iterator[tuple[str, list[str]]]:
    """A FHIR server on loopback that answers every request with `answer`.

    Its address, and the paths requested.
    """
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            answer(self)

        def do_POST(self) -> None:
            requests.append(f"POST {self.path}")
            answer(self)

        def log_message(self, *_: Any) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/fhir", requests
    finally:
        server.shutdown()
        thread.join(5)


def always(status: int, body: Any) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        text = (body(handler) if callable(body) else json.dumps(body)).encode()
        handler.send_response(status)
        handler.send_header("content-type", "application/fhir+json")
        handler.send_header("content-length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text)

    return answer


def bundle(*resources: dict[str, Any], following: str = "") -> dict[str, Any]:
    link = [{"relation": "next", "url": following}] if following else []
    return {
        "resourceType": "Bundle",
        "type": "searchset",
        "link": link,
        "entry": [{"resource": r} for r in resources],
    }


def run_task(
    benchmark: SyntheticBenchmark | str,
    tmp_path: Path,
    *lines: Any,
    row: dict[str, Any] | None = None,
    **more: Any,
) -> CaseRecord:
    """How one task ends when a model says these lines in turn."""
    record = benchmark if isinstance(benchmark, str) else str(benchmark.store)
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([row or task(4, ONE)]))
    model = ScriptedModel(lines[0] if callable(lines[0]) else lines)
    run = predict(
        tasks,
        out=tmp_path / "run",
        pipeline="paper",
        record=record,
        scripted=model,
        model="m",
        cache=False,
        **more,
    )
    return run.records[0]


def turns(record: CaseRecord) -> list[str]:
    return [
        turn["content"] for turn in record.result.history if turn["role"] == "user"
    ][1:]
