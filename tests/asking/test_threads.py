"""Questions in a thread through `archqa.ask`: kept in private files, understood, and shown."""

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import archqa
from archqa.asking.answer import Answer, AnsweredQuestion, Status
from archqa.asking.thread import MOST_TURNS, Place, Turn
from archqa.asking.thread.session_files import SessionFolder
from archqa.errors import CallerError, InputError
from archqa.fhir import Store
from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from archqa.settings import Settings
from tests.asking.scripted import answering, scripted_answers
from tests.asking.test_asking import small_record

NOTE = (
    "Brief Hospital Course:\n"
    "He came in with dyspnea. Furosemide 40 mg daily was given for fluid overload. "
    "It was stopped on day 3. His wife drove him home."
)


@pytest.fixture
def record(tmp_path: Path) -> Path:
    return small_record(tmp_path)


def sessions() -> Path:
    return Path(os.environ["XDG_DATA_HOME"]) / "archqa" / "sessions"


class TestInAThread:
    def test_the_question_before_that_is_asked_of_the_record(
        self, record: Path
    ) -> None:
        thread = archqa.Thread()
        archqa.ask("last creatinine?", patient="p1", record=record, session=thread)
        answer = archqa.ask("and before that?", session=thread)
        assert answer.question == "and before that?"
        assert answer.understood == "last creatinine before 2150-03-04?"
        assert answer.lines[0].citations == ("Observation/o1",)
        assert answer.as_json()["understood"] == answer.understood

    def test_a_whole_question_is_understood_as_it_is_typed(self, record: Path) -> None:
        thread = archqa.Thread()
        archqa.ask("last creatinine?", patient="p1", record=record, session=thread)
        answer = archqa.ask("How old is she?", session=thread)
        assert answer.understood is None
        assert answer.patient == {"id": "p1", "name": "Ada Example"}

    def test_the_evidence_is_shown_among_its_neighbours(self) -> None:
        thread = archqa.Thread()
        archqa.ask("Why was furosemide given?", NOTE, session=thread)
        answer = archqa.ask("where does it say that?", session=thread)
        (line,) = answer.lines
        assert line.text == (
            "He came in with dyspnea. Furosemide 40 mg daily was given for fluid overload. "
            "It was stopped on day 3."
        )
        assert line.answering is not None
        marked = line.text[line.answering.start : line.answering.end]
        assert marked == "Furosemide 40 mg daily was given for fluid overload."
        assert line.citations == (answer.evidence[0].id,)

    def test_evidence_of_a_document_is_shown_with_its_date(self, record: Path) -> None:
        thread = archqa.Thread()
        place = {"patient": "p1", "record": record}
        archqa.ask("What did the biopsy show?", **place, session=thread)  # type: ignore[arg-type]
        answer = archqa.ask("show me the note", session=thread)
        assert answer.status is Status.ANSWERED
        assert answer.lines[0].text.startswith("2150-03-05: ")
        assert "interstitial nephritis" in answer.lines[0].text

    def test_showing_asks_nothing_anew(self, record: Path) -> None:
        thread = archqa.Thread()
        archqa.ask("last creatinine?", patient="p1", record=record, session=thread)
        doubted = archqa.ask("are you sure?", session=thread)
        assert doubted.lines[0].text.startswith(
            "Observation of 2150-03-04: Creatinine, 2.9 mg/dL"
        )
        assert "concluded anew" in doubted.remarks[0]
        after = archqa.ask("and before that?", session=thread)
        assert after.understood == "last creatinine before 2150-03-04?"

    def test_what_is_not_understood_asks_back_and_changes_nothing(
        self, record: Path
    ) -> None:
        thread = archqa.Thread()
        archqa.ask("last creatinine?", patient="p1", record=record, session=thread)
        unclear = archqa.ask("of what?", session=thread)
        assert unclear.status is Status.NOT_UNDERSTOOD
        assert unclear.not_understood == ("of", "what")
        assert "“of what”" in unclear.message
        assert archqa.ask("thanks", session=thread).status is Status.NOT_UNDERSTOOD
        assert [turn.question for turn in thread.turns] == ["last creatinine?"]

    def test_notes_outside_the_time_before_do_not_answer(
        self, record: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        thread = archqa.Thread()
        place = {"patient": "p1", "record": record}
        first = archqa.ask("What did the biopsy show?", **place, session=thread)  # type: ignore[arg-type]
        assert first.evidence[0].date.startswith("2150-03-05")
        # The search of notes knows no dates: it may well find the same sentence again.
        same = first.model_copy(update={"question": "?"})

        async def answer_again(*_: object) -> AnsweredQuestion:
            return AnsweredQuestion(same)

        monkeypatch.setattr("archqa.asking.chart.answer_from_chart", answer_again)
        before = archqa.ask("and before that?", session=thread)
        assert before.understood == "What did the last biopsy show before 2150-03-05?"
        assert before.status is Status.NOT_FOUND
        assert (before.lines, before.evidence) == ((), ())
        assert "Left out: 1 line" in before.remarks[-1]

    def test_another_patient_is_refused(self, record: Path) -> None:
        thread = archqa.Thread()
        archqa.ask("last creatinine?", patient="p1", record=record, session=thread)
        assert archqa.ask("how old?", patient="Ada Example", session=thread).patient
        with pytest.raises(CallerError, match="another patient"):
            archqa.ask("last creatinine?", patient="p2", session=thread)
        with pytest.raises(CallerError, match="another note"):
            archqa.ask("Why?", NOTE, session=thread)

    def test_the_first_question_says_what_is_asked(self) -> None:
        with pytest.raises(CallerError, match="not said what to ask"):
            archqa.ask("what dose?", session=archqa.Thread())


class TestInAFile:
    def test_a_session_goes_on_with_its_own_patient(self, record: Path) -> None:
        archqa.ask("last creatinine?", patient="p1", record=record, session="ward")
        answer = archqa.ask("the one before?", session="ward")
        assert answer.lines[0].citations == ("Observation/o1",)

    def test_only_the_owner_can_read_it(self) -> None:
        archqa.ask("Why was furosemide given?", NOTE, session="ward")
        file = sessions() / "ward.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert [path.name for path in file.parent.iterdir()] == ["ward.json"]

    def test_a_damaged_file_is_one_clear_error_without_its_content(self) -> None:
        archqa.ask("Why was furosemide given?", NOTE, session="ward")
        (sessions() / "ward.json").write_text('{"place": {"note": "Furosemide"')
        with pytest.raises(InputError) as caught:
            archqa.ask("what dose?", session="ward")
        assert "is no session of archqa" in str(caught.value)
        assert "--session ward --forget" in str(caught.value)
        assert "Furosemide" not in str(caught.value)
        assert SessionFolder().entries()[0].is_readable is False
        assert SessionFolder().forget("ward")

    def test_processes_that_ask_at_once_lose_no_turn(self) -> None:
        folder = SessionFolder()
        place = Place(note=NOTE)

        def add(number: int) -> None:
            turn = Turn(question=f"q{number}", understood="q", status=Status.ANSWERED)
            folder.add("ward", place, [turn])

        with ThreadPoolExecutor(8) as workers:
            list(workers.map(add, range(16)))
        questions = {turn.question for turn in folder.load("ward").turns}
        assert questions == {f"q{number}" for number in range(16)}

    def test_the_latest_twenty_turns_are_kept(self) -> None:
        folder = SessionFolder()
        for number in range(MOST_TURNS + 3):
            turn = Turn(question=f"q{number}", understood="q", status=Status.ANSWERED)
            folder.add("ward", Place(note=NOTE), [turn])
        turns = folder.load("ward").turns
        assert (len(turns), turns[0].question, turns[-1].question) == (20, "q3", "q22")

    def test_a_session_that_another_process_began_is_not_mixed(self) -> None:
        folder = SessionFolder()
        turn = Turn(question="q", understood="q", status=Status.ANSWERED)
        folder.add("ward", Place(patient="p1", patient_id="p1", record="r"), [turn])
        with pytest.raises(CallerError, match="another patient"):
            folder.add("ward", Place(patient="p2", patient_id="p2", record="r"), [turn])

    @pytest.mark.parametrize("name", ["", "../x", ".hidden", "a b", "x" * 65, "a/b"])
    def test_a_name_is_no_path(self, name: str) -> None:
        with pytest.raises(CallerError, match="session's name"):
            archqa.ask("Why?", NOTE, session=name)


class TestWithAModel:
    def ask(
        self, follow_up: str, rewritten: str, kind: str = "rewritten"
    ) -> tuple[Answer, ScriptedModel]:
        def reply(request: Request) -> str:
            if "kind" in (request.output_schema or {}).get("properties", {}):
                return json.dumps(
                    {"rationale": "r", "kind": kind, "question": rewritten}
                )
            return answering(("Furosemide 40 mg daily was given.", "3"))

        thread = archqa.Thread()
        settings = Settings(cache=False)
        archqa.ask("Why was furosemide given?", NOTE, session=thread, settings=settings)
        model = scripted_answers(reply)
        answer = archqa.ask(
            follow_up, session=thread, settings=settings, scripted=model
        )
        return answer, model

    def test_it_rewrites_what_the_rules_cannot(self) -> None:
        question = "What happened after furosemide was given?"
        answer, model = self.ask("what happened next?", question)
        assert answer.understood == question
        assert answer.status is Status.ANSWERED
        shown = str(model.asked[0].messages)
        assert "Furosemide 40 mg daily was given for fluid overload." in shown
        assert "what happened next?" in shown

    def test_it_is_not_asked_what_the_rules_resolve(self) -> None:
        answer, model = self.ask("what dose?", "unused")
        assert answer.understood == "What is the dose of furosemide?"
        assert all("what dose?" not in str(request.messages) for request in model.asked)

    @pytest.mark.parametrize(
        "invented", ["Was metoprolol given next?", "What happened on day 7?", ""]
    )
    def test_numbers_and_drugs_of_its_own_are_rejected(self, invented: str) -> None:
        answer, _ = self.ask("what happened next?", invented)
        assert answer.status is Status.NOT_UNDERSTOOD
        assert "what happened next" in answer.message

    def test_it_may_find_it_unclear(self) -> None:
        answer, _ = self.ask("what happened next?", "", kind="unclear")
        assert answer.status is Status.NOT_UNDERSTOOD

    def test_it_may_find_a_new_subject(self) -> None:
        answer, _ = self.ask("what happened next?", "", kind="new_subject")
        assert (answer.status, answer.understood) == (Status.ANSWERED, None)


def test_its_agent_has_settings_in_a_thread_alone() -> None:
    own = {"follow_up": {"backend": "model"}}
    others = own | {"planner": {"backend": "model"}}
    thread = archqa.Thread()
    assert archqa.ask(
        "Why was furosemide given?", NOTE, session=thread, agents=own
    ).lines
    with pytest.raises(CallerError, match="follow_up"):
        archqa.ask("Why was furosemide given?", NOTE, agents=own)
    with pytest.raises(CallerError, match="planner"):
        archqa.ask("Why was furosemide given?", session=thread, agents=others)


def test_a_session_of_sentence_ids_with_numbers_is_shown(record: Path) -> None:
    """Sentences are also cited as `DocumentReference/<id>#<n>`."""
    from archqa.asking.answer import AnswerLine, Evidence
    from archqa.asking.thread.ask_in_thread import shown_evidence

    piece = Evidence(
        id="DocumentReference/d1#4",
        kind="sentence",
        text="# GERD: famotidine in place of omeprazole.",
    )
    turn = Turn(
        question="show me",
        understood="Why?",
        status=Status.ANSWERED,
        lines=(AnswerLine(text=piece.text, citations=(piece.id,)),),
        evidence=(piece,),
    )
    with Store.open(record) as store:
        place = Place(patient_id="p1", record=str(record))
        shown = shown_evidence(turn, place, store, is_doubt=False)
    assert shown.lines[0].text.endswith(f"prednisone started. {piece.text}")
    assert shown.lines[0].citations == (piece.id,)
