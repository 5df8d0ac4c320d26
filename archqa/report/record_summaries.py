"""What a table shows of each case of a run, read without building its whole record.

A record of a question on a FHIR record may hold thousands of rows; a list of all cases needs none.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from archqa.core.result import reference_names
from archqa.errors import InputError
from archqa.runs.record import CaseRecord
from archqa.safety.files import storage_errors

_ANSWER_FIELDS = ("agent_answer", "result", "question")
"""Fields of a `result` that hold the answer."""


class RecordSummary(NamedTuple):
    """How a case ended. `answer` and `evidence` are what two runs are compared by.

    `sure` is the mean probability that the agents state of the sentences that the answer cites;
    None where they state none. `tokens` is None if no model was called.
    """

    id: str
    status: str
    error: str
    remarks: tuple[str, ...]
    tokens: int | None
    cost: float | None
    seconds: float
    sure: float | None
    answer: str
    evidence: frozenset[str]


def read_summaries(run: Path) -> dict[str, RecordSummary]:
    """Return a summary of each case that has ended, by id.

    Raises `InputError` for a line that is no record. A last line without its end was cut short by
    a kill and does not count.
    """
    path = run / "cases.jsonl"
    summaries = {}
    with storage_errors(path):
        if not path.is_file():
            return {}
        with path.open("rb") as file:
            for line_number, line in enumerate(file, start=1):
                if line.endswith(b"\n"):
                    summary = _parse_line(path, line_number, line)
                    summaries[summary.id] = summary
    return summaries


def _parse_line(path: Path, line_number: int, line: bytes) -> RecordSummary:
    try:
        return _summary(json.loads(line))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        fix = "Somebody edited the file; remove the line to run its case again."
        raise InputError(path, [f":{line_number}: is not a case record."], fix) from None


def summarise(record: CaseRecord) -> RecordSummary:
    """Return the summary of a record."""
    return _summary(record.model_dump(mode="json"))


def _summary(record: Mapping[str, Any]) -> RecordSummary:
    usage = record.get("usage") or {}
    evidence = frozenset(_evidence(record))
    return RecordSummary(
        id=record["id"],
        status=record["status"],
        error=record.get("error") or "",
        remarks=tuple(record.get("remarks") or ()),
        tokens=_tokens(usage),
        cost=usage.get("cost_usd", 0.0) if _was_called(usage) else None,
        seconds=record.get("seconds") or 0.0,
        sure=_mean_of_cited(record.get("judgements") or {}, evidence),
        answer=_answer(record),
        evidence=evidence,
    )


def _was_called(usage: Mapping[str, Any]) -> bool:
    return bool(usage.get("calls") or usage.get("cached_calls"))


def _tokens(usage: Mapping[str, Any]) -> int | None:
    if not _was_called(usage):
        return None
    return int(usage.get("prompt_tokens") or 0) + int(usage.get("completion_tokens") or 0)


def _answer(record: Mapping[str, Any]) -> str:
    if record.get("answer"):
        return "\n".join(claim["text"] for claim in record["answer"]["claims"])
    result = record.get("result") or {}
    for field in _ANSWER_FIELDS:
        if result.get(field):
            return str(result[field])
    return ""


def _evidence(record: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a record links, cites or submits: ids of sentences or `Type/id` of resources."""
    result = record.get("result") or {}
    cited_resources = result.get("cited_fhir_resources") or {}
    yield from reference_names(cited_resources)
    linked = [name for link in result.get("links") or () for name in link["evidence_id"]]
    claims = (record.get("answer") or {}).get("claims") or ()
    cited = [name for claim in claims for name in claim.get("citations") or ()]
    yield from linked or cited or record.get("evidence") or ()


def _mean_of_cited(
    judgements: Mapping[str, Iterable[Mapping[str, Any]]], cited: frozenset[str]
) -> float | None:
    stated = []
    for of_agent in judgements.values():
        for judgement in of_agent:
            probability = judgement.get("probability")
            if probability is not None and judgement["sentence_id"] in cited:
                stated.append(float(probability))
    return sum(stated) / len(stated) if stated else None
