"""The version of a run's record: what a reviewer saw is told from what a later run answered."""

import hashlib


def record_version(line: bytes | str) -> str:
    """12 hex digits of the SHA-256 of the record's line in `cases.jsonl`, without the line end."""
    content = line.encode() if isinstance(line, str) else line
    return hashlib.sha256(content.rstrip(b"\r\n")).hexdigest()[:12]
