"""The task ArchEHR-QA 2025."""

from archqa.core.answer import WORD_LIMIT
from archqa.tasks.archehr_2025 import NAME
from archqa.tasks.archehr_2025.cases import ArchehrQa
from archqa.tasks.archehr_2026.result import ArchehrResult
from archqa.tasks.task import ExportFormat, ScoreDisplay

CITATION_METRICS = ("strict_micro_precision", "strict_micro_recall", "strict_micro_f1")

ARCHEHR_2025 = ArchehrQa(
    NAME,
    "ArchEHR-QA 2025: cited answers",
    word_limit=WORD_LIMIT,
    result_type=ArchehrResult,
    pipelines_path="archqa.tasks.archehr_2025.pipelines:CITED_ANSWER_PIPELINES",
    scoring_path="archqa.tasks.archehr_2025.scoring:BRIDGE",
    display=ScoreDisplay(
        headline=(
            "overall_score",
            "strict_micro_f1",  # The official overall factuality score, scored alone as well.
            "overall_relevance_score",
            "partial_relevance_score",
            "strict_micro_precision",
            "strict_micro_recall",
        ),
        case_metrics=CITATION_METRICS,
    ),
    export=ExportFormat(needs_all_cases=True),
)
