"""ArchEHR-QA 2026: four subtasks over the same cases, each with a prediction of its own kind.

Source: soni-sarvesh/archehr-qa-2026 at 344b67e: `[{"case_id", "prediction"}]` in a zip as `submission.json`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case, Phrase
from archqa.core.id_lists import list_ids
from archqa.core.key import CaseKey, ClinicianSentence
from archqa.errors import CallerError
from archqa.tasks.archehr_2025.task import CITATION_METRICS, ArchehrQa, ArchehrResult
from archqa.tasks.archehr_2026 import (
    ANSWER_GENERATION,
    EVIDENCE_ALIGNMENT,
    EVIDENCE_IDENTIFICATION,
    QUESTION_INTERPRETATION,
)
from archqa.tasks.files.mistakes import is_blank
from archqa.tasks.files.source import Content
from archqa.tasks.keys import find_key, load_key
from archqa.tasks.task import (
    CaseFile,
    CompletedCase,
    ExportFormat,
    MissingPart,
    ScoreDisplay,
)

_NO_MESSAGE = MissingPart(
    "patient_narrative",
    "holds no message to interpret; give the case a patient_narrative.",
)

QUESTION_WORDS = 15
ANSWER_WORDS = 75


@dataclass(frozen=True)
class ArchehrQa2026(ArchehrQa):
    """One of the four subtasks. Their cases look like those of 2025: only `--task` can tell them."""

    subtask: Literal[1, 2, 3, 4] = 1

    def recognises(self, content: Content) -> bool:
        """Never by content."""
        return False

    def missing_parts(self, item: Case) -> Iterator[MissingPart]:
        """As in 2025; subtask 1 interprets the patient's message alone."""
        if self.subtask != 1:
            yield from super().missing_parts(item)
        elif is_blank(item.patient_narrative):
            yield _NO_MESSAGE

    def submission(self, ended: Iterable[CompletedCase]) -> list[dict[str, Any]]:
        """`[{"case_id", "prediction"}]` of the cases that ended with what this subtask takes."""
        rows = []
        for case in ended:
            prediction = self.prediction(case)
            if prediction is not None:
                rows.append({"case_id": case.item.id, "prediction": prediction})
        return rows

    def prediction(self, ended: CompletedCase) -> Any:
        """The prediction of one case: a question, sentence ids, an answer or links.

        It is None if the run made no such prediction.
        """
        if self.subtask in {2, 3}:
            if ended.answer is None:
                return None
            return (
                list(ended.evidence)
                if self.subtask == 2
                else to_plain_prose(ended.answer)
            )
        if not isinstance(ended.result, ArchehrResult):
            return None
        if self.subtask == 4:
            return ended.result.to_json().get("links")
        words = (ended.result.question or "").split()
        return " ".join(words[:QUESTION_WORDS]) or None


def to_plain_prose(answer: CitedAnswer) -> str:
    """An answer as prose of at most 75 words, without citations and pipes.

    Only a leading line that is too long by itself is cut.
    """
    words: list[str] = []
    for claim in submitted_claims(answer):
        words.extend(_words(claim))
    return " ".join(words[:ANSWER_WORDS])


def submitted_claims(answer: CitedAnswer) -> list[Claim]:
    """The lines of an answer that the prose has. Lines are left out whole.

    A line that only names further evidence says nothing without its citations, so it is left out
    too.
    """
    claims: list[Claim] = []
    words = 0
    for claim in answer.claims:
        if claim.is_pointer:
            continue
        length = len(_words(claim))
        if words and words + length > ANSWER_WORDS:
            break
        words += length
        claims.append(claim)
    return claims


def _words(claim: Claim) -> list[str]:
    return claim.text.replace("|", "/").split()


def with_clinician_answers(file: CaseFile, key: Path | None) -> CaseFile:
    """The case file with an answer to link in every case of subtask 4, without its citations.

    A case without an answer of its own gets the one in `key`, else in the key next to the case file.
    Files of other tasks are returned as they are. Raises `CallerError` if a case has no answer anywhere,
    `InputError` for a malformed key.
    """
    if file.task != EVIDENCE_ALIGNMENT:
        return file
    unanswered = [case.id for case in file.notes if not case.answer_sentences]
    if key is None and unanswered and str(file.path) != "-":
        key = find_key(file.path)
    if key is None and unanswered:
        raise CallerError(
            f"{len(unanswered)} cases have no answer to link.\n"
            "Name a key that holds the answers with --key FILE."
        )
    keys = load_key(key).keys if key else {}
    cases = []
    unanswered = []
    for case in file.notes:
        if not case.answer_sentences and case.id in keys:
            phrases = []
            for sentence in clinician_sentences(keys[case.id]):
                phrases.append(Phrase(id=sentence.id, text=sentence.text))
            case = case.model_copy(update={"answer_sentences": tuple(phrases)})
        if not case.answer_sentences:
            unanswered.append(case.id)
        cases.append(case)
    if unanswered:
        raise CallerError(
            f"{key} has no answer for case {list_ids(unanswered)}.\n"
            "Name another key with --key FILE."
        )
    return replace(file, cases=tuple(cases))


def clinician_sentences(key: CaseKey) -> tuple[ClinicianSentence, ...]:
    """The sentences of the clinician's answer; where a key has none, its lines with their `|ids|` are.

    Their text is as the clinician wrote it; scores are computed on lines that the official scorer
    parsed (`archqa.tasks.archehr_2026.scoring`).
    """
    if key.clinician_answer_sentences:
        return key.clinician_answer_sentences
    sentences: list[ClinicianSentence] = []
    for line in key.clinician_answer.splitlines():
        if not line.strip():
            continue
        text, ids = line, ""
        parts = line.strip().rsplit("|", maxsplit=2)
        if len(parts) == 3:
            text, ids, _ = parts
        sentence = ClinicianSentence(
            id=str(len(sentences) + 1),
            text=text.strip(),
            citations=tuple(filter(None, map(str.strip, ids.split(",")))),
        )
        sentences.append(sentence)
    return tuple(sentences)


def _subtask(
    number: Literal[1, 2, 3, 4],
    name: str,
    title: str,
    display: ScoreDisplay,
    *,
    scoring: str,
    pipelines: str = "",
    word_limit: int | None = None,
) -> ArchehrQa2026:
    """One subtask; without pipelines of its own, those of 2025 do it."""
    package = "archqa.tasks.archehr_2026"
    made_by = f"Runs of --task {name} have it."
    pipelines_path = f"{package}.pipelines:{pipelines}"
    if not pipelines:
        made_by = "Runs over notes with cited answers have it."
        pipelines_path = "archqa.tasks.archehr_2025.pipelines:CITED_ANSWER_PIPELINES"
    return ArchehrQa2026(
        name,
        f"ArchEHR-QA 2026, subtask {number}: {title}",
        word_limit=word_limit,
        result_type=ArchehrResult,
        pipelines_path=pipelines_path,
        scoring_path=f"{package}.scoring:{scoring}",
        display=display,
        export=ExportFormat(as_zip=True, needs_all_cases=True, made_by=made_by),
        subtask=number,
    )


SUBTASK_1 = _subtask(
    1,
    QUESTION_INTERPRETATION,
    "question interpretation",
    ScoreDisplay(headline=("overall_score", "rougeLsum"), case_metrics=("rougeLsum",)),
    scoring="INTERPRETATION",
    pipelines="INTERPRETATION_PIPELINES",
    word_limit=QUESTION_WORDS,
)

SUBTASK_2 = _subtask(
    2,
    EVIDENCE_IDENTIFICATION,
    "evidence identification",
    ScoreDisplay(
        headline=(
            "overall_score",
            "strict_micro_f1",
            "strict_micro_precision",
            "strict_micro_recall",
        ),
        case_metrics=CITATION_METRICS,
    ),
    scoring="IDENTIFICATION",
)

SUBTASK_3 = _subtask(
    3,
    ANSWER_GENERATION,
    "answer generation",
    ScoreDisplay(
        headline=("overall_score", "rougeLsum", "bleu", "sari"),
        case_metrics=("rougeLsum",),
    ),
    scoring="GENERATION",
    word_limit=ANSWER_WORDS,
)

SUBTASK_4 = _subtask(
    4,
    EVIDENCE_ALIGNMENT,
    "answer-evidence alignment",
    ScoreDisplay(
        headline=("overall_score", "micro_f1", "micro_precision", "micro_recall"),
        case_metrics=("micro_precision", "micro_recall", "micro_f1"),
    ),
    scoring="ALIGNMENT",
    pipelines="ALIGNMENT_PIPELINES",
)
