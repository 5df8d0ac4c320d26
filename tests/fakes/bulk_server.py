"""A fake FHIR server with bulk exports on loopback: kick-off, status, files by ranges, deletion.

Source: hl7.org/fhir/uv/bulkdata/STU2/export.html; RFC 9110, section 14 (range requests).
"""

import json
from collections.abc import Iterable
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from tests.safety.raw_server import RawServer, Request, Response

TOKEN = "loopback-token"
TRANSACTION_TIME = "2030-01-01T00:00:00.000+00:00"


class BulkServer:
    """Exports `texts` (JSON of resources by type). An export outlasts the server, by its address.

    Every status is asked for twice: the first look finds the export running.
    """

    def __init__(self, texts: dict[str, list[str]], port: int = 0) -> None:
        self._texts = texts
        self._looks = 0
        self._server = RawServer(self._answer, port)
        self.port = self._server.port
        self.base = f"{self._server.url}/fhir"

    def __enter__(self) -> Self:
        self._server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.__exit__(*error)

    def _answer(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return _outcome(401, "login", "No token.")
        path = urlsplit(request.target).path.removeprefix("/fhir/")
        if path.endswith("$export"):
            return self._start(path, request)
        job, _, name = path.removeprefix("jobs/").partition("/")
        if request.method == "DELETE":
            return _json(202, {})
        if name:
            return _file(
                self._content(name.removesuffix(".ndjson")), name, request.headers
            )
        self._looks += 1
        if self._looks % 2:
            return Response(202, (), (("X-Progress", "half"), ("Content-Length", "0")))
        return _json(200, self._manifest(job))

    def _start(self, path: str, request: Request) -> Response:
        if path.startswith("Group/"):
            return _outcome(404, "not-found", "There is no Group of that id.")
        assert request.headers["prefer"] == "respond-async"
        query = parse_qs(urlsplit(request.target).query)
        types = query.get("_type", [",".join(self._texts)])[0]
        is_newer = "_since" in query
        location = f"{self.base}/jobs/{'none' if is_newer else types}"
        return Response(
            202, (), (("Content-Location", location), ("Content-Length", "0"))
        )

    def _manifest(self, job: str) -> dict[str, Any]:
        output = []
        for resource_type in sorted(job.split(",")):
            if resource_type in self._texts:
                url = f"{self.base}/jobs/{job}/{resource_type}.ndjson"
                count = len(self._texts[resource_type])
                output.append({"type": resource_type, "url": url, "count": count})
        return {
            "transactionTime": TRANSACTION_TIME,
            "request": f"{self.base}/$export",
            "requiresAccessToken": True,
            "output": output,
            "error": [],
        }

    def _content(self, resource_type: str) -> bytes:
        return "".join(f"{text}\n" for text in self._texts[resource_type]).encode()


def _file(content: bytes, name: str, headers: dict[str, str]) -> Response:
    """A file, or the part of it from the start of a range."""
    tag = f'"{name}"'
    start = int(
        headers.get("range", "bytes=0-").removeprefix("bytes=").removesuffix("-")
    )
    if headers.get("if-range", tag) != tag:
        start = 0
    part = content[start:]
    reply_headers = [("Content-Length", str(len(part))), ("ETag", tag)]
    if start:
        reply_headers.append(
            ("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        )
    return Response(206 if start else 200, _blocks(part), tuple(reply_headers))


def _blocks(content: bytes) -> Iterable[bytes]:
    for start in range(0, len(content), 2**16):
        yield content[start : start + 2**16]


def _json(status: int, content: dict[str, Any]) -> Response:
    body = json.dumps(content).encode()
    length = ("Content-Length", str(len(body)))
    return Response(status, [body], (("Content-Type", "application/json"), length))


def _outcome(status: int, code: str, text: str) -> Response:
    issue = {"severity": "error", "code": code, "diagnostics": text}
    return _json(status, {"resourceType": "OperationOutcome", "issue": [issue]})
