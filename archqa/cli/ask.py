"""`archqa ask`: questions about a note or a patient, without a run folder.

What only sessions and files of questions need is imported for them.
"""

from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from archqa.asking.answer import (
    NEAREST_PASSAGES,
    Answer,
    Evidence,
    Status,
    citation_numbers,
    shown_status,
)
from archqa.asking.ask import ask
from archqa.asking.question import AskOptions, check_source, parse_time
from archqa.cli.console import (
    ProgressLine,
    configure_logging,
    console,
    print_json,
    print_line,
    print_notice,
    shown_when_slow,
)
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
    command_settings,
    print_embedded_notice,
)
from archqa.core.version import __version__
from archqa.errors import CallerError, InputError
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
    question: Annotated[str | None, Argument(help="The question.")] = None,
    note: Annotated[
        Path | None,
        Option(help="A note: text, HTML, RTF or PDF; - for standard input."),
    ] = None,
    patient: Annotated[
        str | None,
        Option(help="A patient of the record: FHIR id, identifier (MRN) or name."),
    ] = None,
    record: Annotated[
        str | None, Option(help="The FHIR store or server that has the patient.")
    ] = None,
    now: Annotated[
        str | None,
        Option(
            metavar="TIME",
            help="When a patient is asked about.",
            show_default="the present, or the end of a dead patient's or a shifted record",
        ),
    ] = None,
    context: Annotated[
        str, Option(help='What else is known, e.g. "He was admitted twice".')
    ] = "",
    questions: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Many questions: .csv or .jsonl with question, note or patient.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        Option(metavar="FILE", help="The answers to --questions: .csv or .jsonl."),
    ] = None,
    session: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Keep the thread: understand follow-ups by the last question.",
        ),
    ] = None,
    new_session: Annotated[
        bool, Option("--new-session", help="Begin the session anew.")
    ] = False,
    forget: Annotated[
        bool, Option("--forget", help="Remove the session; nothing is asked.")
    ] = False,
    sessions: Annotated[
        bool,
        Option("--sessions", help="List the sessions and the ids of their patients."),
    ] = False,
    max_words: Annotated[
        int | None,
        Option(min=1, metavar="N", help="Leave out lines past N words; none is cut."),
    ] = None,
    form: Annotated[
        Format | None,
        Option(
            "--format",
            help="How one answer is printed; fhir: a Bundle.",
            show_default="text",
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

    With a model, it confirms or replaces how a question about a record was read. --set
    grammar=first asks it only what archqa cannot read, --set grammar=off everything.

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
    settings = command_settings(
        config,
        assign,
        model=model,
        base_url=base_url,
        allow_plain_http=allow_plain_http,
        jobs=jobs,
    )
    if forget:
        _forget_session(session, question)
        return
    if sessions:
        _print_sessions(as_json=as_json)
        return
    form = _checked_format(form, question, questions, out, as_json=as_json)
    if session is not None and questions is not None:
        raise CallerError(
            "A file of questions is no session: its rows are asked one by one.\n"
            "Leave --session out."
        )
    if new_session and session is None:
        raise CallerError(
            "--new-session begins a session anew.\nName it with --session NAME."
        )
    if question is not None and session is None:
        check_source(note, patient, record)
    if settings.pipeline is None and not settings.prefers_model_pipeline:
        print_embedded_notice(
            settings.replace(record=record or _record_of_session(session))
        )
    text = None
    if note is not None:
        from archqa.notes.note_files import read_note

        text, remarks = read_note(note)
        for remark in remarks:
            print_notice(remark)
    ask_options = AskOptions(
        settings=settings,
        record=record,
        now=parse_time(now),
        context=context,
        max_words=max_words,
        announce=Announcer(print_notice, quiet=quiet),
    )
    if question is not None:
        if session is not None and new_session:
            from archqa.asking.thread.session_files import SessionFolder

            SessionFolder().forget(session)
        _ask_one(question, text, patient, session, ask_options, form)
    elif questions is not None and out is not None:
        from archqa.asking.many import read_questions

        rows = read_questions(questions, record, text, patient)
        _ask_many(rows, out, ask_options, as_json=as_json)


def _checked_format(
    form: Format | None,
    question: str | None,
    questions: Path | None,
    out: Path | None,
    *,
    as_json: bool,
) -> Format:
    """Return the format that was typed. Raises `CallerError` for options that exclude each other."""
    if (question is None) == (questions is None):
        raise CallerError(
            "Ask one question, or a file of them.\n"
            'Write it as "QUESTION", or name the file with --questions FILE.'
        )
    if questions is not None and out is None:
        raise CallerError(
            "The answers need a file.\nName it with --out FILE.csv or FILE.jsonl."
        )
    if questions is None and out is not None:
        raise CallerError(
            "--out is for --questions.\nLeave it out; the answer is printed."
        )
    if out is not None:
        from archqa.asking.many import check_suffix

        check_suffix(out, "answers")
    if form is None:
        return Format.JSON if as_json else Format.TEXT
    if as_json and form is not Format.JSON:
        raise CallerError(
            "--json is another format than --format.\nLeave one of them out."
        )
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
        with shown_when_slow(
            "searching the note" if is_of_note else "searching the chart"
        ) as on_progress:
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
                on_progress=on_progress,
                announce=options.announce,
            )
    except CallerError as error:
        from archqa.asking.patient import SeveralPatients

        if isinstance(error, SeveralPatients):
            # The patients to choose from: stdout may hold a record's text, stderr must not.
            if form is Format.TEXT:
                print_line(error.details)
            else:
                print_json(error.as_json)
        raise
    if form is Format.JSON:
        print_json(answer.as_json())
    elif form is Format.FHIR:
        print_json(_fhir_bundle(answer))
    else:
        _print_answer(answer)


def _print_answer(answer: Answer) -> None:
    """Print the answer with numbered citations; below it what they stand for, and the remarks."""
    from rich.text import Text

    if answer.message:
        console.print(Text(answer.message), soft_wrap=False)
    for line in answer.lines:
        text = Text(line.text)
        if line.answering is not None:
            text.stylize("bold underline", line.answering.start, line.answering.end)
        numbers = citation_numbers(line.citations, answer.evidence)
        console.print(text + Text(f" [{numbers}]", style="cyan"), soft_wrap=False)
    for remark in answer.remarks:
        console.print(Text(remark, style="italic"), soft_wrap=False)
    console.print()
    for number, piece in enumerate(answer.evidence, start=1):
        console.print(Text.assemble((f"[{number}] ", "cyan"), *_evidence_parts(piece)))
    if answer.related:
        console.print(NEAREST_PASSAGES)
    for piece in answer.related:
        console.print(Text.assemble("- ", *_evidence_parts(piece)))
    facts = [shown_status(answer).words]
    if answer.patient is not None:
        name = answer.patient["name"] or "no name"
        facts.append(f"Patient: {name} [{answer.patient['id']}]")
    if answer.understood:
        facts.append(f"Understood as: {answer.understood}")
    if answer.query:
        facts.append(f"Query: {answer.query}")
    for fact in facts:
        console.print(Text(fact, style="dim"), soft_wrap=False)
    print_notice(f"answered by {answer.answered_by}.")


def _evidence_parts(piece: Evidence) -> list[tuple[str, str]]:
    """The id, which is never cut, date and source, and what the evidence says, with their styles."""
    place = [piece.date]
    if piece.kind == "sentence":
        place = [piece.source, piece.heading.rstrip(":"), piece.date]
    if piece.probability is not None:
        place.append(f"probability {piece.probability:.2f}")
    named = ", ".join(filter(None, place))
    return [
        (piece.id, "bold"),
        (f" ({named})" if named else "", "dim"),
        (f" {' '.join(piece.text.split())}", ""),
    ]


def _fhir_bundle(answer: Answer) -> dict[str, Any]:
    """Return the answer as a FHIR Bundle, each line with its Provenance."""
    from archqa.fhir.views.answer_bundle import (
        AnsweredLine,
        AnsweredQuestion,
        answer_bundle,
    )

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


def _ask_many(
    rows: "list[AskedRow]", out: Path, options: AskOptions, *, as_json: bool
) -> None:
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
    counter = ProgressLine(len(rows), "questions asked", len(answered))

    def keep(index: int, result: "AnsweredRow") -> None:
        answered[positions[index]] = result
        journal.add(rows[positions[index]], result)
        counter.advance()

    answer_rows([rows[position] for position in positions], options, keep)
    counter.finish()
    write_answers(
        out, [answer_row(row, answered[index]) for index, row in enumerate(rows)]
    )
    tally = dict.fromkeys([*(status.value for status in Status), FAILED], 0)
    for result in answered.values():
        tally[result.answer.status.value if result.answer else FAILED] += 1
    if not tally[FAILED]:
        journal.remove()
    if as_json:
        print_json({"out": str(out), "questions": sum(tally.values()), **tally})
    else:
        counts = [
            f"{count} {name.replace('_', ' ')}"
            for name, count in tally.items()
            if count
        ]
        print_notice(", ".join(counts))
        print_line(out)
    if tally[FAILED]:
        raise typer.Exit(1)


def _print_sessions(*, as_json: bool) -> None:
    """Print the names of the sessions and the ids of their patients, and nothing of their content."""
    from archqa.asking.thread.session_files import SessionFolder

    entries = SessionFolder().entries()
    if as_json:
        print_json([entry._asdict() for entry in entries])
        return
    for entry in entries:
        about = f"patient {entry.patient_id}" if entry.patient_id else "a note"
        print_line(f"{entry.name}  {about if entry.is_readable else 'damaged'}")
    if not entries:
        print_notice("There are no sessions.")


def _forget_session(session: str | None, question: str | None) -> None:
    """Remove a session. Raises `CallerError` without a name, or with a question."""
    from archqa.asking.thread.session_files import SessionFolder

    if session is None:
        raise CallerError("--forget removes a session.\nName it with --session NAME.")
    if question is not None:
        raise CallerError(
            "--forget removes a session and asks nothing.\n"
            "Leave the question out, or begin the session anew with --new-session."
        )
    was_there = SessionFolder().forget(session)
    print_notice(
        f"Session {session} removed."
        if was_there
        else f"There is no session {session}."
    )


def _record_of_session(session: str | None) -> str | None:
    """Return the record that a session asks; None if it has none, or cannot be read now."""
    if session is None:
        return None
    from archqa.asking.thread.session_files import SessionFolder

    try:
        place = SessionFolder().load(session).place
    except InputError:  # Told where the question is asked.
        return None
    return place.record if place else None
