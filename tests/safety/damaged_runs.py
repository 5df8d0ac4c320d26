"""Runs whose files are damaged in many ways."""

import json
import shutil
import zlib
from collections.abc import Iterator
from math import inf, nan
from pathlib import Path
from typing import Any

FILES = ("run.json", "cases.jsonl", "input.jsonl", "trace", "scores.json")
DEEP = "[" * 900 + "]" * 900
CONTENTS = {
    "empty": b"",
    "an empty line": b"\n",
    "no JSON": b"{not json\n",
    "binary": b"\xff\xfe\x00\x80\n",
    "null": b"null\n",
    "a list": b"[]\n",
    "an object of nothing": b"{}\n",
    "a number": b"1e999\n",
    "deep": DEEP.encode() + b"\n",
    "deeper": b"[" * 100_000 + b"\n",
    "deep object": b'{"a":' * 900 + b"1" + b"}" * 900 + b"\n",
}
VALUES: tuple[Any, ...] = (
    None, [], {}, "", "x\ud800", 10**400, -1, 1e308, True, [[[1]]], inf, nan, {"x": {"y": []}}, "../../../etc",
)  # fmt: skip


def file_of(run: Path, name: str) -> Path:
    if name == "trace":
        return min((run / "trace").iterdir())
    return run / name


EXAMPLES = {
    "run.json: task is ''",
    "run.json: data.path is ''",
    "run.json: started_at is ''",
    "run.json: run is 'x\\ud800'",
    "run.json: schema_version is '100000000000'",
    "run.json: deep",
    "run.json: seconds is 'inf'",
    "run.json: seconds is 'nan'",
    "cases.jsonl: binary",
    "cases.jsonl: a folder",
    "input.jsonl: absent",
    "input.jsonl: case_id is '../../../etc'",
    "trace: a folder",
    "trace: no JSON",
    "trace: deeper",
    "trace: without usage",
    "scores.json: deeper",
    "scores.json: cut short",
    "scores.json: scores is 'None'",
    "scores.json: missing is '[]'",
    "scores.json: scores.strict_micro_f1 is '100000000000'",
}
"""Damages that once made a command or a page fail, each in another place."""


def is_example(description: str) -> bool:
    """Whether a damage is one of the examples, or of a fixed sample of the others."""
    return description in EXAMPLES or zlib.crc32(description.encode()) % 150 == 0


def damages(run: Path) -> Iterator[tuple[str, Path]]:
    """Damage copies of a run one by one; yield what was done, and the copy."""
    copy = run.parent / "damaged"
    for name in FILES:
        for description, content in _contents(file_of(run, name)):
            if not is_example(f"{name}: {description}"):
                continue
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(run, copy)
            path = file_of(copy, name)
            path.unlink()
            if content is None:
                path.mkdir()
            elif content:
                path.write_bytes(content[0])
            yield f"{name}: {description}", copy


def _contents(path: Path) -> Iterator[tuple[str, tuple[bytes] | tuple[()] | None]]:
    """Yield the new content of a file; none for an absent file, None for a folder."""
    original = path.read_bytes()
    yield "absent", ()
    yield "a folder", None
    yield "cut short", (original[: len(original) // 2],)
    yield "the last line twice", (original + original.splitlines(keepends=True)[-1],)
    for description, content in CONTENTS.items():
        yield description, (content,)
    is_lines = path.suffix == ".jsonl"
    document = original.splitlines()[0] if is_lines else original
    for description, value in _mutations(json.loads(document)):
        yield description, (json.dumps(value).encode() + b"\n",)


def _mutations(document: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, member in document.items():
        yield f"without {name}", {key: document[key] for key in document if key != name}
        for value in VALUES:
            yield f"{name} is {str(value)[:12]!a}", {**document, name: value}
        if isinstance(member, list) and member and isinstance(member[0], dict):
            for description, value in _mutations(member[0]):
                yield (
                    f"{name}[0] {description}",
                    {**document, name: [value, *member[1:]]},
                )
        if isinstance(member, dict) and member:
            for inner in list(member)[:6]:
                for value in VALUES:
                    yield f"{name}.{inner} is {str(value)[:12]!a}", {
                        **document, name: {**member, inner: value},
                    }  # fmt: skip
