"""`archqa ask`: questions about a note or a patient, without a run folder."""

from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from archqa.asking.answer import Answer, Status
from archqa.asking.ask import ask
from archqa.asking.patient import SeveralPatients
from archqa.asking.question import AskOptions, check_source, parse_time
from archqa.cli.asked_answer import print_answer
from archqa.cli.asked_sessions import (
    begin_session,
    check_session,
    list_or_forget,
    record_of_session,
)
from archqa.cli.console import configure_logging, print_json, print_line, print_notice
from archqa.cli.options import (
    AllowPlainHttpOption,
    AssignmentsOption,
    BaseUrlOption,
    ConfigOption,
    JobsOption,
    JsonOption,
    ModelOption,
    QuietOption,
    VerboseOption,
)
from archqa.cli.settings import command_settings, print_embedded_notice
from archqa.cli.waiting import Counter, shown_when_slow
from archqa.core.version import __version__
from archqa.errors import CallerError
from archqa.notes.note_files import read_note
from archqa.runs.destinations import Announcer

if TYPE_CHECKING:
    from archqa.asking.many import AnsweredRow, AskedRow


class Format(StrEnum):
    """How an answer is printed."""

    TEXT = "text"
    JSON = "json"
    FHIR = "fhir"


FAILED = "failed"
"""What a row without an answer is counted as."""


def command(
    question: Annotated[str | None, typer.Argument(help="The question.")] = None,
    note: Annotated[
        Path | None, typer.Option(help="A note: text, HTML, RTF or PDF; - for standard input.")
    ] = None,
    patient: Annotated[
        str | None, typer.Option(help="A patient of the record: FHIR id, identifier (MRN) or name.")
    ] = None,
    record: Annotated[
        str | None, typer.Option(help="The FHIR store or server that has the patient.")
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="When a patient is asked about.",
            show_default="the present, or the end of a dead patient's or a shifted record",
        ),
    ] = None,
    context: Annotated[
        str, typer.Option(help='What else is known, e.g. "He was admitted twice".')
    ] = "",
    questions: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Many questions: .csv or .jsonl with question, note or patient."
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The answers to --questions: .csv or .jsonl."),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Keep the thread: understand follow-ups by the last question."
        ),
    ] = None,
    new_session: Annotated[
        bool, typer.Option("--new-session", help="Begin the session anew.")
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Remove the session; nothing is asked.")
    ] = False,
    sessions: Annotated[
        bool, typer.Option("--sessions", help="List the sessions and the ids of their patients.")
    ] = False,
    max_words: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Leave out lines past N words; none is cut."),
    ] = None,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format", help="How one answer is printed; fhir: a Bundle.", show_default="text"
        ),
    ] = None,
    jobs: JobsOption = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    allow_plain_http: AllowPlainHttpOption = None,
    config: ConfigOption = None,
    assign: AssignmentsOption = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Answer questions from a note or a patient's record, with evidence for every line.

    An answer is answered, not found, not understood or declined (a judgement or a prediction);
    the exit code is 0 for each. A note is split into sentences, which the answer cites by number.
    For a patient, the resources and the notes among them (DocumentReference) are searched; a
    --note given too is one more of them. Without --model or --base-url the engine inside archqa
    answers, on this machine alone; a key in the environment sends nothing.

    Examples:
      archqa ask "Why was he given furosemide?" --note discharge.txt
      archqa ask "What was the last creatinine?" --patient 1b7c7 --record mimic.db --now 2153-12-31
      archqa ask "Is she allergic to penicillin?" --patient "Lopez, Maria" --record record.db
      archqa ask "Is she on metformin?" --patient 1b7c7 --record record.db --format fhir
      archqa ask --questions questions.csv --out answers.csv
      archqa ask "Is she on metformin?" --patient 1b7c7 --record mimic.db --session ward
      archqa ask "And since when?" --session ward

    In a session a follow-up is understood by the last question and its answer, and what was
    understood is printed; the session's own patient or note is asked. It is kept in a private file,
    20 questions at most; --forget removes it.

    A file of questions has the columns question and note (its text) or patient; other columns go
    along. If the command is stopped, run it again: it goes on where it stopped.
    """
    configure_logging(verbose=verbose, quiet=quiet)
    options = {
        "model": model,
        "base_url": base_url,
        "allow_plain_http": allow_plain_http,
        "jobs": jobs,
    }
    settings = command_settings(config, options, assign)
    if sessions or forget:
        list_or_forget(session, question, forget=forget, as_json=as_json)
        return
    _check_call(question, questions, out)
    form = _format(form, questions, as_json=as_json)
    check_session(session, questions, new_session=new_session)
    _check_asked_place(question, session, (note, patient, record))
    if settings.pipeline is None and not settings.prefers_model_pipeline:
        print_embedded_notice(settings.replace(record=record or record_of_session(session)))
    text = _note_text(note)
    ask_options = AskOptions(
        settings=settings,
        record=record,
        now=parse_time(now),
        context=context,
        max_words=max_words,
        announce=Announcer(print_notice, quiet=quiet),
    )
    if question is not None:
        begin_session(session, anew=new_session)
        _ask_one(question, text, patient, session, ask_options, form)
    elif questions is not None and out is not None:
        from archqa.asking.many import read_questions

        rows = read_questions(questions, record, text, patient)
        _ask_many(rows, out, ask_options, as_json=as_json)


def _check_asked_place(
    question: str | None, session: str | None, place: tuple[Path | None, str | None, str | None]
) -> None:
    """A session has a place of its own; else it must be said what to ask."""
    if question is not None and session is None:
        check_source(*place)


def _note_text(note: Path | None) -> str | None:
    if note is None:
        return None
    text, remarks = read_note(note)
    for remark in remarks:
        print_notice(remark)
    return text


def _check_call(question: str | None, questions: Path | None, out: Path | None) -> None:
    if (question is None) == (questions is None):
        raise CallerError(
            "Ask one question, or a file of them.\n"
            'Write it as "QUESTION", or name the file with --questions FILE.'
        )
    if questions is not None and out is None:
        raise CallerError("The answers need a file.\nName it with --out FILE.csv or FILE.jsonl.")
    if questions is None and out is not None:
        raise CallerError("--out is for --questions.\nLeave it out; the answer is printed.")
    if out is not None:
        from archqa.asking.many import check_suffix

        check_suffix(out, "answers")


def _format(form: Format | None, questions: Path | None, *, as_json: bool) -> Format:
    """Return the format that was typed. Raises `CallerError` for two, and for one of many answers."""
    if form is None:
        return Format.JSON if as_json else Format.TEXT
    if as_json and form is not Format.JSON:
        raise CallerError("--json is another format than --format.\nLeave one of them out.")
    if questions is not None:
        raise CallerError(
            "--format is for one question; the answers to --questions are as their file ends.\n"
            "Leave it out."
        )
    return form


def _ask_one(
    question: str,
    note: str | None,
    patient: str | None,
    session: str | None,
    options: AskOptions,
    form: Format,
) -> None:
    try:
        is_of_note = note is not None and patient is None
        with shown_when_slow("searching the note" if is_of_note else "searching the chart"):
            answer = ask(
                question,
                note,
                patient=patient,
                record=options.record,
                now=options.now,
                context=options.context,
                max_words=options.max_words,
                session=session,
                settings=options.settings,
                announce=options.announce,
            )
    except SeveralPatients as error:
        _print_candidates(error, as_json=form is not Format.TEXT)
        raise
    if form is Format.JSON:
        print_json(answer.as_json())
    elif form is Format.FHIR:
        print_json(_fhir_bundle(answer))
    else:
        print_answer(answer)


def _fhir_bundle(answer: Answer) -> dict[str, Any]:
    """Return the answer as a FHIR Bundle, each line with its Provenance."""
    from archqa.fhir.views.answer_bundle import AnsweredLine, AnsweredQuestion, answer_bundle

    at = datetime.now(UTC)
    answered = AnsweredQuestion(
        question=answer.question,
        status=answer.status.value,
        lines=tuple(AnsweredLine(line.text, line.citations) for line in answer.lines),
        at=at,
        version=__version__,
        message=answer.message,
        patient=answer.patient["id"] if answer.patient else None,
        model=answer.answered_by.model or "",
        remarks=answer.remarks,
    )
    return answer_bundle([answered], at)


def _print_candidates(error: SeveralPatients, *, as_json: bool) -> None:
    """Print the patients to choose from: stdout may hold a record's text, stderr must not."""
    if as_json:
        print_json(error.as_json)
    else:
        print_line(error.details)


def _ask_many(rows: "list[AskedRow]", out: Path, options: AskOptions, *, as_json: bool) -> None:
    """Ask what an earlier, stopped command did not, and write all answers.

    Exit code 1 if a row has none.
    """
    # One question needs nothing of what reads and writes tables.
    from archqa.asking.many import AnswerJournal, answer_row, answer_rows, write_answers

    journal = AnswerJournal(out, options)
    answered = journal.answered(rows)
    if answered:
        print_notice(f"{len(answered)} of {len(rows)} questions were answered before.")
    positions = [position for position in range(len(rows)) if position not in answered]
    counter = Counter(len(rows), "questions asked")

    def keep(index: int, result: "AnsweredRow") -> None:
        answered[positions[index]] = result
        journal.add(rows[positions[index]], result)
        counter.show(len(answered))

    answer_rows([rows[position] for position in positions], options, keep)
    counter.finish(len(answered))
    write_answers(out, [answer_row(row, answered[index]) for index, row in enumerate(rows)])
    tally = _tally(answered.values())
    if not tally[FAILED]:
        journal.remove()
    _print_summary(out, tally, as_json=as_json)
    if tally[FAILED]:
        raise typer.Exit(1)


def _tally(results: "Iterable[AnsweredRow]") -> dict[str, int]:
    """Return how many questions ended with each status, and how many failed."""
    tally = dict.fromkeys([*(status.value for status in Status), FAILED], 0)
    for result in results:
        tally[result.answer.status.value if result.answer else FAILED] += 1
    return tally


def _print_summary(out: Path, tally: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json({"out": str(out), "questions": sum(tally.values()), **tally})
        return
    counts = [f"{count} {name.replace('_', ' ')}" for name, count in tally.items() if count]
    print_notice(", ".join(counts))
    print_line(out)
