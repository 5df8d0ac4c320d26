"""A run by batches: stage by stage, from files alone or through a server, with the predictions of an ordinary run."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest

from archqa.cli import main
from archqa.errors import InputError
from archqa.llm.model import Message, Request
from archqa.llm.scripted import ScriptedModel
from archqa.llm.server import ModelServer
from archqa.runs.batch import open_batch
from archqa.runs.predict import predict
from archqa.runs.run import Run
from archqa.settings import Settings
from tests.runs.conftest import default_reply

Reply = Callable[[Request], str]


def archqa_command(*words: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["archqa", *words])
        with contextlib.suppress(SystemExit):
            main.run()
    return capsys.readouterr().out


def request_in(line: dict[str, Any]) -> Request:
    body = line["body"]
    messages = tuple(Message(**message) for message in body["messages"])
    schema = body["response_format"]["json_schema"]["schema"]
    return Request(model=body["model"], messages=messages, output_schema=schema)


def answered(line: str, reply: Reply = default_reply) -> str:
    """An output line, as the Batch API's reference shows one."""
    row = json.loads(line)
    message = {"role": "assistant", "content": reply(request_in(row))}
    body = {
        "id": "c", "object": "chat.completion", "created": 1, "model": row["body"]["model"],
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }  # fmt: skip
    return json.dumps(
        {
            "id": "b",
            "custom_id": row["custom_id"],
            "response": {"status_code": 200, "body": body},
            "error": None,
        }
    )


def rounds_of(run: Path) -> list[Path]:
    return sorted(
        (run / "batch").glob("round-*.jsonl"),
        key=lambda path: int(path.stem.split("-")[1]),
    )


def begin(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archqa_command(
        "batch",
        "submit",
        "mini",
        "--model",
        "gpt-4.1",
        "--out",
        str(run),
        "--offline",
        capsys=capsys,
    )


def answer_rounds(
    run: Path, capsys: pytest.CaptureFixture[str], reply: Reply = default_reply
) -> list[set[str]]:
    """Answer file after file until nothing waits; returns which agents each file asked."""
    asked: list[set[str]] = []
    while len(rounds_of(run)) > len(asked):
        path = rounds_of(run)[-1]
        lines = path.read_text().splitlines()
        asked.append(
            {
                json.loads(line)["body"]["response_format"]["json_schema"]["name"]
                for line in lines
            }
        )
        output = run.parent / f"out-{len(asked)}.jsonl"
        output.write_text("\n".join(answered(line, reply) for line in lines))
        archqa_command("batch", "fetch", str(run), "--from", str(output), capsys=capsys)
        archqa_command("batch", "submit", str(run), "--offline", capsys=capsys)
        assert len(asked) < 20, "the run does not end"
    return asked


def test_a_batched_run_goes_stage_by_stage_and_ends_as_an_ordinary_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path / "run", capsys)
    stages = answer_rounds(tmp_path / "run", capsys)
    assert stages == [
        {"context"},
        {"general_expert", "recruiting"},
        {"specialist"},
        {"decision"},
    ]
    run = Run.open(tmp_path / "run")
    ordinary = predict(
        "mini",
        out=tmp_path / "whole",
        scripted=ScriptedModel(default_reply),
        pipeline="dmis",
        cache=False,
    )
    assert run.submission() == ordinary.submission()
    assert run.summary()["calls"] == ordinary.summary()["calls"]
    assert len(run.folder.steps("3")) == run.records[0].usage.calls
    assert (run.path / "submission.json").is_file()


def test_batched_tokens_cost_half(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path / "run", capsys)
    answer_rounds(tmp_path / "run", capsys)
    summary = Run.open(tmp_path / "run").summary()
    dollars_a_call = (
        (1000 * 2.0 + 100 * 8.0) / 1e6 / 2
    )  # gpt-4.1: $2 in, $8 out per million tokens
    assert summary["cost_usd"] == pytest.approx(summary["calls"] * dollars_a_call)


def test_a_repair_turn_goes_into_the_next_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def careless(request: Request) -> str:
        recruiting = "experts" in (request.output_schema or {})["properties"]
        return (
            json.dumps({"experts": []})
            if recruiting and len(request.messages) == 2
            else default_reply(request)
        )

    begin(tmp_path / "run", capsys)
    stages = answer_rounds(tmp_path / "run", capsys, careless)
    assert stages == [
        {"context"},
        {"general_expert", "recruiting"},
        {"recruiting"},
        {"specialist"},
        {"decision"},
    ]
    assert Run.open(tmp_path / "run").complete


def test_a_file_of_another_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path / "run", capsys)
    stranger = {"custom_id": "f" * 64, "response": {"status_code": 500}, "error": None}
    (tmp_path / "other.jsonl").write_text(json.dumps(stranger))
    run = open_batch(tmp_path / "run", Settings())
    with pytest.raises(InputError, match="1 replies belong to another run"):
        run.take(tmp_path / "other.jsonl")
    (tmp_path / "nonsense.jsonl").write_text("{}\nnot a line")
    with pytest.raises(
        InputError, match=r"nonsense.jsonl:1: is not a line of a batch output file"
    ):
        run.take(tmp_path / "nonsense.jsonl")


def test_a_request_that_fails_round_after_round_fails_its_stage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begin(tmp_path / "run", capsys)
    for number in range(3):
        path = rounds_of(tmp_path / "run")[-1]
        rows = [json.loads(line)["custom_id"] for line in path.read_text().splitlines()]
        failed = [
            {
                "custom_id": row,
                "response": {"status_code": 500, "body": {}},
                "error": None,
            }
            for row in rows
        ]
        (tmp_path / f"{number}.jsonl").write_text(
            "\n".join(json.dumps(row) for row in failed)
        )
        archqa_command(
            "batch",
            "fetch",
            str(tmp_path / "run"),
            "--from",
            str(tmp_path / f"{number}.jsonl"),
            capsys=capsys,
        )
        archqa_command(
            "batch", "submit", str(tmp_path / "run"), "--offline", capsys=capsys
        )
    run = Run.open(tmp_path / "run")
    assert [record.status.value for record in run.records] == ["failed"] * 3
    assert "again and again" in run.records[0].error


class BatchServer:
    """The files and batches of the OpenAI API, in memory."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.batches: dict[str, dict[str, Any]] = {}

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        way = request.url.path.removeprefix("/v1/").split("/")
        if way == ["files"]:
            return self._upload(request)
        if way[0] == "files":
            return httpx2.Response(200, text=self.files[way[1]])
        if request.method == "POST":
            return self._create(json.loads(request.content))
        return httpx2.Response(200, json=self.batches[way[1]])

    def finish(self) -> None:
        for batch in self.batches.values():
            lines = self.files[batch["input_file_id"]].splitlines()
            self.files[f"{batch['id']}-out"] = "\n".join(
                answered(line) for line in lines
            )
            batch |= {"status": "completed", "output_file_id": f"{batch['id']}-out"}

    def _upload(self, request: httpx2.Request) -> httpx2.Response:
        name = f"file-{len(self.files)}"
        content = request.read().decode()
        self.files[name] = "\n".join(
            line.strip() for line in content.splitlines() if line.startswith("{")
        )
        about = {
            "id": name,
            "object": "file",
            "bytes": 1,
            "created_at": 1,
            "filename": "f",
            "purpose": "batch",
            "status": "processed",
        }
        return httpx2.Response(200, json=about)

    def _create(self, asked: dict[str, Any]) -> httpx2.Response:
        name = f"batch-{len(self.batches)}"
        counts = {"total": 3, "completed": 0, "failed": 0}
        self.batches[name] = {
            **asked,
            "id": name,
            "object": "batch",
            "created_at": 1,
            "status": "in_progress",
            "request_counts": counts,
        }
        return httpx2.Response(200, json=self.batches[name])


def test_a_server_is_handed_the_files_and_asked_for_what_came(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = BatchServer()

    def open_server(settings: Settings) -> ModelServer:
        return ModelServer(
            "http://127.0.0.1/v1", "none", transport=httpx2.MockTransport(server)
        )

    monkeypatch.setattr("archqa.runs.batch.open_server", open_server)
    run = tmp_path / "run"
    archqa_command(
        "batch",
        "submit",
        "mini",
        "--model",
        "gpt-4.1",
        "--out",
        str(run),
        capsys=capsys,
    )
    for _ in range(4):
        assert "in_progress, 0 of 3 done" in archqa_command(
            "batch", "status", str(run), capsys=capsys
        )
        server.finish()
        archqa_command("batch", "fetch", str(run), capsys=capsys)
        archqa_command("batch", "submit", str(run), capsys=capsys)
    assert Run.open(run).summary()["answered"] == 3
    assert len(server.batches) == 4
