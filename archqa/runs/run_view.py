"""A run as HTML of a notebook: what it is, how it stands, its scores and its first cases."""

import json
from itertools import islice
from typing import TYPE_CHECKING, Any

from archqa.core import html
from archqa.core.case import Case
from archqa.core.question import ClinicalTask, Item
from archqa.core.score_view import scores_html
from archqa.runs.record import CaseRecord, CaseStatus

if TYPE_CHECKING:
    from archqa.runs.run import Run

_SHOWN_CASES = 5


def run_html(run: "Run") -> str:
    """Return the view; all text is escaped, and there is no script."""
    scores = _stored_scores(run)
    parts = [
        html.table(("run", ""), _facts(run)),
        scores_html(scores, scores["warnings"]) if scores else _not_scored(run),
        html.table(("case", "status", "question", "answer"), _case_rows(run)),
        _further_cases(run),
    ]
    return "".join(parts)


def _facts(run: "Run") -> list[tuple[str, str]]:
    manifest = run.manifest
    usage = run.usage
    answering = ", ".join(dict.fromkeys(manifest.backends.values()))
    cost = "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.2f}"
    facts = {
        "folder": str(run.path),
        "task": manifest.task,
        "pipeline": f"{manifest.pipeline} ({answering})" if answering else manifest.pipeline,
        "status": f"{manifest.status.value}: {_counts(run)}",
        "model calls": f"{usage.calls}, cost {cost}" if usage.calls else "none",
        "took": f"{manifest.seconds:.1f} s",
    }
    if manifest.remarks:
        facts["remarks"] = " ".join(manifest.remarks)
    return [(html.text(name), html.shortened(value, 300)) for name, value in facts.items()]


def _counts(run: "Run") -> str:
    total = len(run.manifest.case_ids)
    counts = [f"{total:,} cases"]
    for status in CaseStatus:
        if count := run.count(status):
            counts.append(f"{count:,} {status.value}")
    return ", ".join(counts)


def _stored_scores(run: "Run") -> dict[str, Any] | None:
    """Return what `archqa score` wrote into the folder; None if it has not, or it is damaged."""
    try:
        content = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))
        has_all = {"task", "cases", "scores", "intervals", "signatures", "missing", "warnings"}
        return content if has_all <= content.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def _not_scored(run: "Run") -> str:
    return f"<p>Not scored yet: <code>archqa.score({html.text(repr(str(run.path)))})</code></p>"


def _case_rows(run: "Run") -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for item in islice(run.cases, _SHOWN_CASES):
        record = run.get_record(item.id)
        rows.append(
            (
                html.text(item.id),
                html.text(record.status.value if record else "open"),
                html.shortened(_question(item)),
                html.shortened(_answer(record) if record else ""),
            )
        )
    return rows


def _question(item: Item) -> str:
    if isinstance(item, Case):
        return item.clinician_question or item.patient_narrative
    return item.instruction if isinstance(item, ClinicalTask) else item.question


def _answer(record: CaseRecord) -> str:
    if record.answer:
        return record.answer.submission
    if record.result and record.result.answer_text:
        return record.result.answer_text
    return ", ".join(record.evidence) or record.error


def _further_cases(run: "Run") -> str:
    hidden = len(run.manifest.case_ids) - _SHOWN_CASES
    if hidden <= 0:
        return ""
    return f"<p>and {hidden:,} more: <code>.to_pandas()</code> has all.</p>"
