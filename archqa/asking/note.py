"""Answers one question about one note by the pipeline of the task, without a run folder."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from archqa.core.answer import Claim
from archqa.core.case import Case
from archqa.core.probability import mean_probabilities
from archqa.core.step import Step
from archqa.core.usage import Usage, sum_usage
from archqa.core.value import FrozenModel
from archqa.errors import without_suppressed_causes
from archqa.llm.model import Model
from archqa.notes.sentences import case_from_text
from archqa.runs.backends import Backends
from archqa.runs.destinations import Announce, Destination, run_destinations
from archqa.runs.event_loop import run_sync
from archqa.runs.plan import choose_pipeline
from archqa.runs.record import CaseRecord, CaseStatus
from archqa.runs.settings_check import check_settings_used
from archqa.settings import Settings, load_settings
from archqa.tasks import archehr_2025
from archqa.tasks.pipeline import NoteResult

TASK = archehr_2025.NAME

OnStep = Callable[[Step], object]


class EvidenceLine(FrozenModel):
    """Evidence of a claim: a sentence of a note, or a resource of the record.

    `probability` of being essential is the engine's or the agents' mean, None if none was stated. `source`
    names the document, `start_char_index` counts characters from its beginning.
    """

    id: str
    kind: str
    text: str
    probability: float | None = None
    source: str = ""
    start_char_index: int | None = None


class AskResult(NamedTuple):
    """An answer with its evidence.

    `case` and `record` are of the notes, None if there are none; `on_record` is the `RecordAnswer` from a
    patient's resources, None for a pasted note.
    """

    question: str
    claims: tuple[Claim, ...]
    evidence: tuple[EvidenceLine, ...]
    performer: str
    remarks: tuple[str, ...] = ()
    usage: Usage = Usage()
    case: Case | None = None
    record: CaseRecord | None = None
    on_record: Any = None

    @property
    def text(self) -> str:
        """The claims, one a line, each with its citations: `text |ids|`."""
        return "\n".join(f"{claim.text} |{','.join(claim.citations)}|" for claim in self.claims)


@without_suppressed_causes
def ask_note(
    question: str,
    note: str,
    settings: Settings | None = None,
    *,
    on_step: OnStep = lambda _: None,
    announce: Announce | None = None,
    scripted: Model | None = None,
) -> AskResult:
    """The answer to a question from the text of a note, and the sentences it rests on.

    `on_step` is called with each step as it ends, `announce` with the hosts that get record text
    before the first request (by default a log warning names them). Raises `CallerError` for an empty question or
    note, `CaseFailed` if there is no answer, and `ModelError`.
    """
    settings = settings or load_settings()
    check_settings_used(settings, choose_pipeline(settings, TASK))
    case = case_from_text(question, note)
    return run_sync(answer_case(case, settings, on_step, scripted, announce))


async def answer_case(
    case: Case,
    settings: Settings,
    on_step: OnStep = lambda _: None,
    scripted: Model | None = None,
    announce: Announce | None = None,
) -> AskResult:
    """The same for a case that is already split. Raises `CaseFailed`, `ModelError` and `BudgetExceeded`."""
    settings = settings.replace(record=None)
    pipeline = choose_pipeline(settings, TASK)
    backends = Backends(settings, pipeline, scripted, announce=announce)
    usages: list[Usage] = []

    def record_step(step: Step) -> None:
        usages.append(step.usage)
        on_step(step)

    try:
        outcome = await pipeline.run(
            case, backends.context(record_step), settings.for_pipeline(pipeline)
        )
    finally:
        await backends.close()
    assert isinstance(outcome, NoteResult)
    performer = ", ".join(dict.fromkeys(backends.describe().values()))
    result = _ask_result(case, outcome, performer, sum_usage(usages))
    return result._replace(remarks=(*result.remarks, *backends.remarks))


def note_destinations(settings: Settings) -> tuple[Destination, ...]:
    """Where a question about a note sends its text."""
    settings = settings.replace(record=None)
    return run_destinations(settings, choose_pipeline(settings, TASK))


def _ask_result(case: Case, outcome: NoteResult, performer: str, usage: Usage) -> AskResult:
    record = CaseRecord(
        id=case.id,
        status=CaseStatus.ANSWERED,
        answer=outcome.answer,
        evidence=outcome.essential,
        judgements=outcome.judgements,
        experts=outcome.experts,
        remarks=outcome.remarks,
        usage=usage,
    )
    return AskResult(
        question=case.clinician_question or case.patient_narrative,
        claims=outcome.answer.claims,
        evidence=tuple(_sentence_evidence(case, outcome)),
        performer=performer,
        remarks=outcome.remarks,
        usage=usage,
        case=case,
        record=record,
    )


def _sentence_evidence(case: Case, outcome: NoteResult) -> Iterator[EvidenceLine]:
    probabilities = mean_probabilities(outcome.judgements)
    for sentence in case.sentences:
        if sentence.id in outcome.answer.cited:
            yield EvidenceLine(
                id=sentence.id,
                kind="sentence",
                text=sentence.text,
                probability=probabilities.get(sentence.id),
                start_char_index=sentence.start_char_index,
            )
