"""The subtasks of 2026: a question from the message alone, and links of a given answer, by models and by the engine."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from archqa.agents.agent import RunContext
from archqa.agents.engine_backend import EngineBackend
from archqa.agents.model_backend import ModelBackend
from archqa.core.answer import SEE_ALSO, CitedAnswer, Claim
from archqa.core.case import Case, Phrase, Sentence
from archqa.errors import CallerError, ServerUnavailable, Unusable
from archqa.evaluation.scoring import ScoreSettings, score
from archqa.llm.model import Request
from archqa.llm.scripted import ScriptedModel
from archqa.runs.export import export, zip_submission
from archqa.runs.predict import predict
from archqa.runs.run import Run
from archqa.settings import load_settings
from archqa.tasks import load_cases, load_key, with_clinician_answers
from archqa.tasks.archehr_2025.task import ArchehrResult
from archqa.tasks.archehr_2026.pipelines import align, interpret
from archqa.tasks.archehr_2026.settings import AlignmentSettings
from archqa.tasks.archehr_2026.task import to_plain_prose
from archqa.tasks.pipeline import PipelineResult
from archqa.tasks.pipelines import default, find
from tests.fakes.note_model import scripted_note_model
from tests.fakes.replies import refusal_reply

ROOT = Path(__file__).resolve().parents[3]
CASE = Case(
    id="c",
    patient_narrative="Why the tube? I live alone.",
    clinician_question="A question only the key knows",
    sentences=(
        Sentence(id="1", text="Brief hospital course:"),
        Sentence(
            id="2",
            text="A chest tube was placed on day 2 for a large right pneumothorax.",
        ),
        Sentence(id="3", text="Metformin was held because of the contrast."),
    ),
    answer_sentences=(
        Phrase(id="1", text="The tube was placed for a large pneumothorax."),
    ),
)


def context_of(agent: str, script: Any) -> tuple[RunContext, ScriptedModel]:
    model = ScriptedModel(script)
    return RunContext({agent: ModelBackend(model, "m")}), model


async def linked(script: Any, **switches: Any) -> PipelineResult:
    context, _ = context_of("alignment", script)
    return await align(CASE, context, AlignmentSettings(**switches))


async def test_the_question_is_found_in_the_message_without_sight_of_the_clinicians() -> (
    None
):
    context, model = context_of("question_interpretation", scripted_note_model([]))
    ending = await interpret(CASE, context, AlignmentSettings())
    assert ending.result == ArchehrResult(question="Why was the tube placed?")
    prompt_text = "\n".join(message.content for message in model.asked[0].messages)
    assert "only the key knows" not in prompt_text
    assert "pneumothorax" not in prompt_text


async def test_the_engine_does_not_see_the_clinicians_question_either() -> None:
    for question in ("", "A question only the key knows"):
        case = CASE.model_copy(update={"clinician_question": question})
        ending = await interpret(
            case,
            RunContext({"question_interpretation": EngineBackend()}),
            AlignmentSettings(),
        )
        assert ending.result == ArchehrResult(question="Why the tube?")


async def test_a_question_that_stays_too_long_is_cut_where_the_scorer_cuts() -> None:
    long = " ".join(["word"] * 30)
    context, model = context_of(
        "question_interpretation", lambda _: json.dumps({"question": long})
    )
    ending = await interpret(CASE, context, AlignmentSettings())
    assert ending.result.to_json()["question"] == " ".join(["word"] * 15)
    assert "at most 15 are allowed" in model.asked[1].messages[-1].content


async def test_the_links_of_the_model_stand() -> None:
    ending = await linked(scripted_note_model(["2"]))
    assert ending.result.to_json() == {
        "links": [{"answer_id": "1", "evidence_id": ["2"]}]
    }
    assert ending.remarks == ()


async def test_a_server_that_is_down_stops_the_run_and_is_not_replaced() -> None:
    with pytest.raises(ServerUnavailable):
        await linked(lambda _: ServerUnavailable("down"))


async def test_a_model_that_cannot_link_is_replaced_by_the_engine_and_remarked() -> (
    None
):
    ending = await linked(lambda _: "no JSON")
    assert ending.result.to_json()["links"] == [
        {"answer_id": "1", "evidence_id": ["2"]}
    ]
    [remark] = ending.remarks
    assert remark == "the embedded engine links the answer: the agent failed (Unusable)"


async def test_without_the_fallback_a_model_that_cannot_link_has_failed() -> None:
    with pytest.raises(Unusable, match="alignment: the server sent no JSON object"):
        await linked(lambda _: "no JSON", fallback=False)


async def test_a_model_that_declines_is_not_replaced_by_the_engine() -> None:
    with pytest.raises(Unusable, match="The model declined"):
        await linked(lambda _: refusal_reply())


async def test_ids_that_nobody_has_never_get_into_links() -> None:
    def invents(request: Request) -> str:
        return json.dumps(
            {
                "links": [
                    {"rationale": "r", "answer_id": "1", "evidence_id": ["2", "99"]}
                ]
            }
        )

    ending = await linked(invents)
    assert ending.result.to_json()["links"] == [
        {"answer_id": "1", "evidence_id": ["2"]}
    ]


async def test_a_case_without_an_answer_says_what_to_do() -> None:
    context, _ = context_of("alignment", scripted_note_model([]))
    with pytest.raises(Unusable, match="--key FILE"):
        await align(
            CASE.model_copy(update={"answer_sentences": ()}),
            context,
            AlignmentSettings(),
        )


def test_the_answers_come_from_the_case_else_from_the_key_and_never_their_citations() -> (
    None
):
    file = with_clinician_answers(
        load_cases(ROOT / "data/dev.json", "archehr-2026-st4"), None
    )
    keys = load_key(ROOT / "data/dev_key.json").keys
    for case in file.notes:
        answer_text = " ".join(sentence.text for sentence in case.answer_sentences)
        assert "|" not in answer_text
        assert keys[case.id].clinician_answer.split()[0] in answer_text
        assert not keys[case.id].labels.keys() & set(answer_text.split("|")[1:])


def test_without_any_answer_the_key_is_asked_for(tmp_path: Path) -> None:
    alone = tmp_path / "alone.json"
    alone.write_bytes((ROOT / "data/mini/mini.json").read_bytes())
    with pytest.raises(
        CallerError, match=r"3 cases have no answer to link.\nName a key"
    ):
        with_clinician_answers(load_cases(alone, "archehr-2026-st4"), None)
    assert with_clinician_answers(
        load_cases(alone, "archehr-2026-st4"), ROOT / "data/mini/mini_key.json"
    ).notes


def test_an_answer_is_handed_in_as_prose_without_pipes_in_75_words() -> None:
    claims = [
        Claim(text=f"{'word ' * 30}a|b.", citations=("1",)),
        Claim(text="Second line.", citations=("2",)),
    ]
    answer = CitedAnswer(claims=(*claims, Claim(text="last " * 60, citations=())))
    answer_text = to_plain_prose(answer)
    assert "|" not in answer_text
    assert answer_text.endswith("Second line.")
    assert len(answer_text.split()) <= 75


def test_prose_has_no_line_that_only_names_further_evidence() -> None:
    claims = (
        Claim(text="Cr rose to 4.1.", citations=("1",)),
        Claim(text=SEE_ALSO, citations=("2", "3")),
    )
    assert to_plain_prose(CitedAnswer(claims=claims)) == "Cr rose to 4.1."


@pytest.mark.parametrize("subtask", [1, 2, 3, 4])
def test_each_subtask_has_a_pipeline_for_models_and_one_for_the_engine(
    subtask: int,
) -> None:
    task = f"archehr-2026-st{subtask}"
    assert default(task, model=False).name == "embedded"
    assert default(task, model=True).backend == "model"
    assert find("dmis", task).backend == "model"


@pytest.mark.parametrize(
    ("subtask", "metric", "kind"),
    [
        (1, "rouge1", str),
        (2, "strict_micro_f1", list),
        (3, "rouge1", str),
        (4, "micro_f1", list),
    ],
)
def test_each_subtask_runs_with_the_engine_and_is_scored(
    subtask: int, metric: str, kind: type, tmp_path: Path
) -> None:
    task = f"archehr-2026-st{subtask}"
    run = predict("mini", task=task, out=tmp_path / "run")
    rows = json.loads((run.path / "submission.json").read_text())
    assert [row["case_id"] for row in rows] == [
        case.id for case in load_cases("mini").cases
    ]
    assert all(
        isinstance(row["prediction"], kind) and row["prediction"] for row in rows
    )
    report = score(run.path, settings=ScoreSettings(metrics=(metric,)))
    assert report.scores.scores[metric] > 0


@pytest.mark.parametrize("subtask", [1, 2, 3, 4])
def test_each_subtask_runs_with_a_model(subtask: int, tmp_path: Path) -> None:
    task = f"archehr-2026-st{subtask}"
    model = ScriptedModel(scripted_note_model(["1", "2"]))
    settings = load_settings(
        typed={"pipeline": "dmis", "base_url": "http://127.0.0.1:9/v1", "cache": False}
    )
    run = predict(
        "mini", task=task, out=tmp_path / "run", settings=settings, scripted=model
    )
    rows = json.loads((run.path / "submission.json").read_text())
    assert len(rows) == 3
    assert model.asked


def test_evidence_of_the_engine_scores_the_same_in_both_years(tmp_path: Path) -> None:
    metrics = ScoreSettings(
        metrics=("strict_micro_f1", "strict_micro_precision", "strict_micro_recall")
    )
    scores_2025, scores_2026 = (
        score(
            predict("mini", task=task, out=tmp_path / task).path, settings=metrics
        ).scores.scores
        for task in ("archehr-2025", "archehr-2026-st2")
    )
    assert scores_2025 == scores_2026


def test_a_release_that_holds_messages_alone_is_enough_for_subtask_1(
    tmp_path: Path,
) -> None:
    file = tmp_path / "st1.xml"
    file.write_text(
        '<annotations><case id="121"><patient_narrative>They cut my wife open twice. Why did they go back in?'
        "</patient_narrative></case></annotations>"
    )
    run = predict(str(file), task="archehr-2026-st1", out=tmp_path / "run")
    assert run.submission() == [
        {"case_id": "121", "prediction": "Why did they go back in?"}
    ]


def test_answer_sentences_of_the_case_file_are_linked_without_any_key(
    tmp_path: Path,
) -> None:
    file = tmp_path / "st4.xml"
    file.write_text(
        '<annotations><case id="121"><patient_narrative>Why the tube?</patient_narrative><note_excerpt_sentences>'
        '<sentence id="1">A chest tube was placed for a large right pneumothorax.</sentence>'
        '<sentence id="2">Metformin was held because of the contrast.</sentence></note_excerpt_sentences>'
        '<answer_sentences><sentence id="7">The tube was placed for a large pneumothorax.</sentence>'
        "</answer_sentences></case></annotations>"
    )
    run = predict(str(file), task="archehr-2026-st4", out=tmp_path / "run")
    assert run.submission() == [
        {"case_id": "121", "prediction": [{"answer_id": "7", "evidence_id": ["1"]}]}
    ]


@pytest.fixture(scope="module")
def notes_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of the six stages of 2025, which has what subtasks 2 and 3 submit."""
    model = ScriptedModel(scripted_note_model(["1", "2"]))
    settings = load_settings(
        typed={"pipeline": "dmis", "base_url": "http://127.0.0.1:9/v1", "cache": False}
    )
    folder = tmp_path_factory.mktemp("notes") / "run"
    return predict("mini", out=folder, settings=settings, scripted=model)


@pytest.mark.parametrize(("subtask", "metric"), [(2, "strict_micro_f1"), (3, "rouge1")])
def test_a_run_over_notes_serves_subtasks_2_and_3(
    subtask: int, metric: str, notes_run: Run, tmp_path: Path
) -> None:
    name = f"archehr-2026-st{subtask}"
    content = export(notes_run.path, name)
    with zipfile.ZipFile(io.BytesIO(zip_submission(content))) as archive:
        assert archive.namelist() == ["submission.json"]
        rows = json.loads(archive.read("submission.json"))
    assert [set(row) for row in rows] == [{"case_id", "prediction"}] * 3
    (tmp_path / f"{name}.json").write_text(content)
    report = score(
        tmp_path / f"{name}.json",
        task=name,
        key=ROOT / "data/mini/mini_key.json",
        data=ROOT / "data/mini/mini.json",
        settings=ScoreSettings(metrics=(metric,)),
    )
    assert metric in report.scores.scores


def test_evidence_of_a_model_scores_the_same_in_both_years(
    notes_run: Run, tmp_path: Path
) -> None:
    (tmp_path / "st2.json").write_text(export(notes_run.path, "archehr-2026-st2"))
    settings = ScoreSettings(metrics=("strict_micro_f1",))
    key, data = ROOT / "data/mini/mini_key.json", ROOT / "data/mini/mini.json"
    in_2026 = score(
        tmp_path / "st2.json",
        task="archehr-2026-st2",
        key=key,
        data=data,
        settings=settings,
    )
    assert (
        in_2026.scores.scores
        == score(notes_run.path, key=key, settings=settings).scores.scores
    )


@pytest.mark.parametrize("subtask", [1, 4])
def test_export_of_a_subtask_that_the_run_lacks_says_which_runs_have_it(
    subtask: int, notes_run: Run
) -> None:
    name = f"archehr-2026-st{subtask}"
    message = f"have nothing for {name}.\nRuns of --task {name} have it."
    with pytest.raises(CallerError, match=message):
        export(notes_run.path, name)


def test_equal_submissions_make_equal_zips() -> None:
    assert zip_submission("[]") == zip_submission("[]")
