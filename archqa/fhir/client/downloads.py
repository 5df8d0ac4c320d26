"""Download a file of an export, and go on where an earlier attempt ended.

    0001-Patient.ndjson.part    what has arrived so far
    0001-Patient.ndjson.tag     what the server calls its content (ETag), if it does
    0001-Patient.ndjson         the whole file

Source: RFC 9110, sections 13.1.5 and 14.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO

import httpx2

from archqa.fhir.client.export_server import ExportServer, RemoteFile, TransientFailure
from archqa.fhir.outcome import FhirError
from archqa.safety.files import write_private_text
from archqa.safety.http_replies import BodyReader, ReplyUnreadable

_MAX_BYTES = 2**50
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d+/(?:\d+|\*)")
_WHOLE_SIZE = re.compile(r"bytes \*/(\d{1,18})")


def part_path(path: Path) -> Path:
    """Return where a file is until it is whole."""
    return path.with_name(f"{path.name}.part")


def download(
    server: ExportServer,
    file: RemoteFile,
    path: Path,
    *,
    with_token: bool,
    progress: Callable[[int], None],
) -> None:
    """Add what is missing of a file, which takes its own name when it is whole; one attempt.

    `progress` is told the bytes that arrive. Raises `TransientFailure` where another attempt may go
    on, `FhirError` if the server does not have the file any more or sent another number of
    resources, and as `ExportServer.open_file`.
    """
    part = part_path(path)
    offset = part.stat().st_size if part.exists() else 0
    headers = {"accept": "application/fhir+ndjson", "accept-encoding": "identity"}
    tag = _read_tag(path)
    if offset:
        headers["range"] = f"bytes={offset}-"
    if offset and tag:
        headers["if-range"] = tag
    with server.open_file(file.url, headers, with_token=with_token) as reply:
        if reply.status_code == 416:
            _check_whole(reply, part, offset)
        elif reply.status_code == 206:
            _check_start(reply, part, offset)
            _append(reply, part, progress)
        else:
            part.unlink(missing_ok=True)
            write_private_text(_tag_path(path), _strong_tag(reply))
            _append(reply, part, progress)
    _check_count(file, part)
    part.replace(path)
    _tag_path(path).unlink(missing_ok=True)


def count_lines(path: Path) -> int:
    """Return the number of lines that are not blank."""
    with path.open("rb") as file:
        return sum(1 for line in file if not line.isspace())


def _append(reply: httpx2.Response, part: Path, progress: Callable[[int], None]) -> None:
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        with os.fdopen(descriptor, "ab") as file:
            _copy_body(reply, file, progress)
    except BaseException:
        if reply.headers.get("content-encoding", "identity") != "identity":
            part.unlink(missing_ok=True)  # Its bytes are not those that a range counts.
        raise


def _copy_body(reply: httpx2.Response, file: IO[bytes], progress: Callable[[int], None]) -> None:
    assert isinstance(reply.stream, httpx2.SyncByteStream)
    try:
        reader = BodyReader(reply.headers.get("content-encoding", ""), _MAX_BYTES)
        for block in reply.stream:
            content = reader.decode(block)
            file.write(content)
            progress(len(content))
        reader.finish()
    except ReplyUnreadable as problem:
        raise FhirError(f"A file of the export {problem}.", 502, "structure") from None
    except httpx2.HTTPError as error:
        raise TransientFailure(type(error).__name__) from None


def _check_start(reply: httpx2.Response, part: Path, offset: int) -> None:
    """Begin anew if the server sends another part than was asked for."""
    match = _CONTENT_RANGE.fullmatch(reply.headers.get("content-range", ""))
    is_encoded = reply.headers.get("content-encoding", "identity") != "identity"
    if match is None or int(match[1]) != offset or is_encoded:
        part.unlink(missing_ok=True)
        raise TransientFailure("the server sent another part of a file")


def _check_whole(reply: httpx2.Response, part: Path, offset: int) -> None:
    """Begin anew unless the server says that the file ends where its part ends."""
    match = _WHOLE_SIZE.fullmatch(reply.headers.get("content-range", ""))
    if match is None or int(match[1]) != offset or not offset:
        part.unlink(missing_ok=True)
        raise TransientFailure("the server has a shorter file")


def _check_count(file: RemoteFile, part: Path) -> None:
    if file.count is None:
        return
    lines = count_lines(part)
    if lines != file.count:
        part.unlink()
        numbers = f"the server counts {file.count} resources and sent {lines}"
        raise FhirError(f"{file.type}: {numbers}. Nothing was loaded.", 502, "incomplete")


def _tag_path(path: Path) -> Path:
    return path.with_name(f"{path.name}.tag")


def _read_tag(path: Path) -> str:
    try:
        return _tag_path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def _strong_tag(reply: httpx2.Response) -> str:
    """Return the ETag, if equal tags mean equal bytes."""
    tag = str(reply.headers.get("etag", ""))
    is_strong = tag.startswith('"') and tag.endswith('"') and tag.isascii() and tag.isprintable()
    return tag if is_strong else ""
