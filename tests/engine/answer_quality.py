"""How good composed answers are, by the official metrics: next to copying a note's first sentences, and
next to the reference answers of the key.

`python -m tests.engine.answer_quality data/dev.json` prints the table of docs/engine-log.md.
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
    return [(case, keys[case.id]) for case in tasks.load_cases(path).notes if case.id in keys][
        :limit
    ]


def by_engine(case: Case, _: CaseKey) -> CitedAnswer:
    """What the embedded engine answers."""
    engine = Engine.load()
    return engine.compose(case, engine.select(engine.judge(case)))


def from_the_key(case: Case, key: CaseKey) -> CitedAnswer:
    """The engine's wording of the sentences that the key calls essential."""
    return Engine.load().compose(case, key.essential)


def first_sentences(case: Case, _: CaseKey) -> CitedAnswer:
    """The note's first sentences, as many as fit, each cited."""
    claims: list[Claim] = []
    for sentence in case.sentences:
        if CitedAnswer(claims=tuple(claims)).words + len(sentence.text.split()) <= WORD_LIMIT:
            claims.append(Claim(text=sentence.text, citations=(sentence.id,)))
    return CitedAnswer(claims=tuple(claims))


def reference(_: Case, key: CaseKey) -> CitedAnswer:
    """The key's own answer, with the citations it carries."""
    parsed = [
        line.rpartition(" |")
        for line in key.clinician_answer.replace("|\n", "\n").strip("|\n ").split("\n")
    ]
    return CitedAnswer(
        claims=tuple(Claim(text=text, citations=tuple(ids.split(","))) for text, _, ids in parsed)
    )


WRITERS: dict[str, Write] = {
    "the engine": by_engine,
    "the engine's wording of the key's sentences": from_the_key,
    "first sentences": first_sentences,
    "the key's reference answer": reference,
}


def measured(cases: Labelled, write: Write) -> dict[str, float]:
    """Scores of 2025 (reference: question and essential sentences) and of 2026 subtask 3 (reference: the key's answer).

    `own_line`: the share of citations that stand on a line with words of their sentence, in percent.
    """
    answers = {case.id: write(case, key) for case, key in cases}
    rows = [{"case_id": case.id, "answer": answers[case.id].submission} for case, _ in cases]
    official = archehr2025.score(
        rows, [_reference_2025(*pair) for pair in cases], metrics=METRICS, bootstrap=0
    )
    plain = [
        {"case_id": sid, "prediction": " ".join(c.text for c in each.claims)}
        for sid, each in answers.items()
    ]
    later = archehr2026.score(
        plain,
        [_reference_2026(*pair) for pair in cases],
        subtask=3,
        metrics=METRICS[1:],
        bootstrap=0,
    )
    spoken = sum(len(each.claims) for each in answers.values()) / sum(
        len(each.cited) for each in answers.values()
    )
    return (
        official.scores
        | {f"{name}_2026": value for name, value in later.scores.items()}
        | {"own_line": 100 * spoken}
    )


def _reference_2025(case: Case, key: CaseKey) -> archehr2025.Reference:
    return archehr2025.Reference(
        case_id=case.id,
        question=" ".join(phrase.text for phrase in case.patient_question),
        sentences={each.id: each.text for each in case.sentences},
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
        sys.stdout.write(
            f"{name}: "
            + ", ".join(f"{metric} {value:.1f}" for metric, value in scores.items())
            + "\n"
        )


if __name__ == "__main__":
    main()
