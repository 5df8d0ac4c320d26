"""The four subtasks of ArchEHR-QA 2026 as tasks."""

from archqa.tasks.archehr_2025.task import CITATION_METRICS
from archqa.tasks.archehr_2026 import (
    ANSWER_GENERATION,
    EVIDENCE_ALIGNMENT,
    EVIDENCE_IDENTIFICATION,
    QUESTION_INTERPRETATION,
)
from archqa.tasks.archehr_2026.result import ArchehrResult
from archqa.tasks.archehr_2026.submission import ANSWER_WORDS, QUESTION_WORDS, ArchehrQa2026
from archqa.tasks.task import ExportFormat, ScoreDisplay

_CITED_ANSWER_PIPELINES = "archqa.tasks.archehr_2025.pipelines.catalogue:CITED_ANSWER_PIPELINES"

SUBTASK_1 = ArchehrQa2026(
    QUESTION_INTERPRETATION,
    "ArchEHR-QA 2026, subtask 1: question interpretation",
    word_limit=QUESTION_WORDS,
    result_type=ArchehrResult,
    pipelines_path="archqa.tasks.archehr_2026.pipelines:INTERPRETATION_PIPELINES",
    scoring_path="archqa.tasks.archehr_2026.scoring:INTERPRETATION",
    display=ScoreDisplay(headline=("overall_score", "rougeLsum"), case_metrics=("rougeLsum",)),
    export=ExportFormat(
        as_zip=True,
        needs_all_cases=True,
        made_by=f"Runs of --task {QUESTION_INTERPRETATION} have it.",
    ),
    subtask=1,
)

SUBTASK_2 = ArchehrQa2026(
    EVIDENCE_IDENTIFICATION,
    "ArchEHR-QA 2026, subtask 2: evidence identification",
    result_type=ArchehrResult,
    pipelines_path=_CITED_ANSWER_PIPELINES,
    scoring_path="archqa.tasks.archehr_2026.scoring:IDENTIFICATION",
    display=ScoreDisplay(
        headline=(
            "overall_score",
            "strict_micro_f1",
            "strict_micro_precision",
            "strict_micro_recall",
        ),
        case_metrics=CITATION_METRICS,
    ),
    export=ExportFormat(
        as_zip=True,
        needs_all_cases=True,
        made_by="Runs over notes with cited answers have it.",
    ),
    subtask=2,
)

SUBTASK_3 = ArchehrQa2026(
    ANSWER_GENERATION,
    "ArchEHR-QA 2026, subtask 3: answer generation",
    word_limit=ANSWER_WORDS,
    result_type=ArchehrResult,
    pipelines_path=_CITED_ANSWER_PIPELINES,
    scoring_path="archqa.tasks.archehr_2026.scoring:GENERATION",
    display=ScoreDisplay(
        headline=("overall_score", "rougeLsum", "bleu", "sari"), case_metrics=("rougeLsum",)
    ),
    export=ExportFormat(
        as_zip=True,
        needs_all_cases=True,
        made_by="Runs over notes with cited answers have it.",
    ),
    subtask=3,
)

SUBTASK_4 = ArchehrQa2026(
    EVIDENCE_ALIGNMENT,
    "ArchEHR-QA 2026, subtask 4: answer-evidence alignment",
    result_type=ArchehrResult,
    pipelines_path="archqa.tasks.archehr_2026.pipelines:ALIGNMENT_PIPELINES",
    scoring_path="archqa.tasks.archehr_2026.scoring:ALIGNMENT",
    display=ScoreDisplay(
        headline=("overall_score", "micro_f1", "micro_precision", "micro_recall"),
        case_metrics=("micro_precision", "micro_recall", "micro_f1"),
    ),
    export=ExportFormat(
        as_zip=True,
        needs_all_cases=True,
        made_by=f"Runs of --task {EVIDENCE_ALIGNMENT} have it.",
    ),
    subtask=4,
)
