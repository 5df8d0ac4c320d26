"""How good composed answers are by the official metrics.

They are compared with a note's first sentences, and with the reference answers of the key.

`python -m tests.engine.answer_quality data/dev.json` prints the table of training/engine-log.md.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from archqa import tasks
from archqa.core.answer import WORD_LIMIT, CitedAnswer, Claim
from archqa.core.case import Case
from archqa.core.key import CaseKey
from archqa.engine import Engine
from scoring.tasks import archehr2025, archehr2026

Labelled = list[tuple[Case, CaseKey]]
Write = Callable[[Case, CaseKey], CitedAnswer]
METRICS = ["strict_micro_f1", "bleu", "rougeLsum", "sari"]
"""The official metrics that need no model."""


def labelled(path: Path, limit: int | None = None) -> Labelled:
    """The cases of a file with the key next to it."""
    keys = tasks.load_key(path.with_name(f"{path.stem}_key.json")).keys
    cases = tasks.load_cases(path).notes
    labelled_cases = [(case, keys[case.id]) for case in cases if case.id in keys]
    return labelled_cases[:limit]


def by_engine(case: Case, _: CaseKey) -> CitedAnswer:
    """The answer of the embedded engine."""
    engine = Engine.load()
    return engine.compose(case, engine.select(engine.judge(case)))


def from_the_key(case: Case, key: CaseKey) -> CitedAnswer:
    """The engine's wording of the sentences that the key calls essential."""
    return Engine.load().compose(case, key.essential)


def first_sentences(case: Case, _: CaseKey) -> CitedAnswer:
    """The note's first sentences, as many as fit, each cited."""
    claims: list[Claim] = []
    free_words = WORD_LIMIT
    for sentence in case.sentences:
        words = len(sentence.text.split())
        if words <= free_words:
            claims.append(Claim(text=sentence.text, citations=(sentence.id,)))
            free_words -= words
    return CitedAnswer(claims=tuple(claims))


def reference(_: Case, key: CaseKey) -> CitedAnswer:
    """The key's own answer, with the citations it carries."""
    answer = key.clinician_answer.replace("|\n", "\n").strip("|\n ")
    claims = []
    for line in answer.split("\n"):
        text, _, ids = line.rpartition(" |")
        claims.append(Claim(text=text, citations=tuple(ids.split(","))))
    return CitedAnswer(claims=tuple(claims))


WRITERS: dict[str, Write] = {
    "the engine": by_engine,
    "the engine's wording of the key's sentences": from_the_key,
    "first sentences": first_sentences,
    "the key's reference answer": reference,
}


def measured(cases: Labelled, write: Write) -> dict[str, float]:
    """Scores of 2025 and, with the suffix `_2026`, of subtask 3 of 2026.

    The reference of 2025 is the question and the essential sentences, that of 2026 the key's
    answer. `stated` is the share of cited ids on a line that states something, in percent.
    """
    submission_2025 = []
    submission_2026 = []
    stated = 0
    citations = 0
    for case, key in cases:
        answer = write(case, key)
        statements = [claim for claim in answer.claims if not claim.is_pointer]
        text = " ".join(claim.text for claim in statements)
        submission_2025.append({"case_id": case.id, "answer": answer.submission})
        submission_2026.append({"case_id": case.id, "prediction": text})
        stated += len(CitedAnswer(claims=tuple(statements)).cited)
        citations += len(answer.cited)
    result_2025 = archehr2025.score(
        submission_2025,
        [_reference_2025(case, key) for case, key in cases],
        metrics=METRICS,
        bootstrap=0,
    )
    result_2026 = archehr2026.score(
        submission_2026,
        [_reference_2026(case, key) for case, key in cases],
        subtask=3,
        metrics=METRICS[1:],
        bootstrap=0,
    )
    scores = dict(result_2025.scores)
    for name, value in result_2026.scores.items():
        scores[f"{name}_2026"] = value
    scores["stated"] = 100 * stated / citations
    return scores


def _reference_2025(case: Case, key: CaseKey) -> archehr2025.Reference:
    return archehr2025.Reference(
        case_id=case.id,
        question=" ".join(phrase.text for phrase in case.patient_question),
        sentences=case.text_of,
        labels={sid: label.value for sid, label in key.labels.items()},
        narrative=case.patient_narrative,
        clinician_question=case.clinician_question,
    )


def _reference_2026(case: Case, key: CaseKey) -> archehr2026.Reference:
    answer = " ".join(claim.text for claim in reference(case, key).claims)
    return archehr2026.Reference(
        case_id=case.id, narrative=case.patient_narrative, clinician_answer=answer
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=Path)
    cases = labelled(parser.parse_args().cases)
    for name, write in WRITERS.items():
        scores = measured(cases, write)
        columns = [f"{metric} {value:.1f}" for metric, value in scores.items()]
        sys.stdout.write(f"{name}: {', '.join(columns)}\n")


if __name__ == "__main__":
    main()
