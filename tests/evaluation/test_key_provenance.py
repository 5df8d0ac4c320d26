"""What a score was scored against is said beside it, and a key made of the run itself loudest."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from archqa.core.case import Case
from archqa.core.judgement import Relevance
from archqa.core.key import record_version
from archqa.errors import InputError
from archqa.evaluation.scoring import ScoreReport, ScoreSettings, score
from archqa.report import report_html
from archqa.review import AnswerVersion, ReviewStore, SubmittedReview
from archqa.runs.run import Run
from tests.report.synthetic_runs import cases_with_specialties, create_run, gold_of
from tests.safety.storage_tools import archqa

CASES = cases_with_specialties(4, sentences=15)
NO_RESAMPLES = ScoreSettings(bootstrap=0)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return create_run(tmp_path, CASES, name="one", with_key=False)


def own_labels(run: Path, case: Case) -> dict[str, str]:
    """What a click on "all of it is right" would say."""
    record = Run.open(run).get_record(case.id)
    assert record is not None
    cited = record.answer.cited if record.answer else frozenset()
    return {
        name: "essential" if name in cited else "not-relevant"
        for name in case.sentence_ids
    }


def gold_labels(case: Case, count: int = 15) -> dict[str, str]:
    return {name: str(gold_of(case)[name]) for name in case.sentence_ids[:count]}


def corrected(run: Path, case: Case) -> dict[str, str]:
    """The run's own choice, but for one sentence."""
    labels = own_labels(run, case)
    last = case.sentence_ids[-1]
    return labels | {
        last: "not-relevant" if labels[last] == "essential" else "essential"
    }


def review(
    run: Path, case: Case, labels: dict[str, str], *, blind: bool, by: str = "Ann"
) -> Path:
    """Label a case; return the key of all reviews of the run."""
    store = ReviewStore(run.parent / "annotations")
    version = record_version(Run.open(run).folder.records().line(case.id))
    edits = {f"sentence/{name}": label for name, label in labels.items()}
    answer = AnswerVersion(run.name, "" if blind else version, blind)
    store.save("cases", case, SubmittedReview(by, edits, version=answer))
    key = store.write_key("cases")
    assert key is not None
    return key.path


def scored(run: Path, key: Path, **options: Any) -> ScoreReport:
    return score(run, key=key, settings=NO_RESAMPLES, **options)


def test_a_published_key_is_named_and_its_scores_have_no_warning(
    tmp_path: Path,
) -> None:
    run = create_run(tmp_path, CASES)
    report = score(run, settings=NO_RESAMPLES)
    stored = json.loads((run / "scores.json").read_text())["key"]
    assert stored["kind"] == "file"
    assert stored["path"] == str(tmp_path / "cases_key.json")
    assert stored["sha256"] == report.fingerprints["key"]
    assert stored["statement"] == "Scored against the key file cases_key.json."
    assert not any("key" in warning for warning in report.scores.warnings)


def test_a_key_of_the_runs_own_predictions_is_no_measurement(run: Path) -> None:
    for case in CASES:
        key = review(run, case, own_labels(run, case), blind=False)
    report = scored(run, key)
    assert report.scores.scores["strict_micro_f1"] == 100
    assert report.key is not None
    assert (report.key.circular, report.key.equals_run) == (True, True)
    assert report.scores.warnings[0].startswith("THIS IS NO MEASUREMENT")
    stored = json.loads((run / "scores.json").read_text())["key"]
    assert (stored["circular"], stored["from_this_run"], stored["runs"]) == (
        True,
        True,
        ["one"],
    )


def test_corrections_made_while_looking_at_the_run_are_circular(run: Path) -> None:
    review(run, CASES[0], corrected(run, CASES[0]), blind=False)
    key = review(run, CASES[1], gold_labels(CASES[1]), blind=True, by="Ben")
    report = scored(run, key)
    assert report.key is not None
    assert (report.key.circular, report.key.equals_run, report.key.blind) == (
        True,
        False,
        False,
    )
    assert "labelled 1 of 2 cases" in report.scores.warnings[0]
    assert "Ann and Ben" in report.key.statement


def test_blind_labels_are_not_circular(run: Path) -> None:
    key = review(run, CASES[0], gold_labels(CASES[0]), blind=True)
    report = scored(run, key)
    assert report.key is not None
    assert (report.key.circular, report.key.blind, report.key.runs) == (False, True, ())
    assert "15 labels by Ann, set without seeing any answer" in report.key.statement
    assert not any("CIRCULAR" in warning for warning in report.scores.warnings)


def test_labels_made_on_another_run_are_named_and_not_circular(
    run: Path, tmp_path: Path
) -> None:
    other = create_run(tmp_path, CASES, seed=2, name="two", with_key=False)
    report = scored(run, review(other, CASES[0], gold_labels(CASES[0]), blind=False))
    assert report.key is not None
    assert not report.key.circular
    assert "answers of two" in report.key.statement


def test_a_run_that_was_renamed_is_known_by_its_records(
    run: Path, tmp_path: Path
) -> None:
    key = review(run, CASES[0], gold_labels(CASES[0]), blind=False)
    renamed = shutil.move(run, tmp_path / "better")
    report = scored(Path(renamed), key)
    assert report.key is not None
    assert report.key.circular


def test_sentences_without_a_label_count_neither_way(run: Path) -> None:
    case = CASES[0]
    cited = [
        name for name, label in own_labels(run, case).items() if label == "essential"
    ]
    labels = {cited[0]: str(Relevance.ESSENTIAL), cited[1]: str(Relevance.NOT_RELEVANT)}
    report = scored(run, review(run, case, labels, blind=True))
    # One of the two labelled sentences that it cites is essential; the other citations do not count.
    assert len(cited) > 2
    assert report.scores.scores["strict_micro_precision"] == 50
    assert report.scores.scores["strict_micro_recall"] == 100
    assert report.key is not None
    assert (report.key.reviewed_sentences, report.key.unreviewed_sentences) == (2, 13)
    assert (
        "13 sentences of the reviewed cases without a label"
        in report.scores.warnings[0]
    )
    assert report.scores.cases == 1


def test_sentences_on_which_reviewers_disagree_are_said_to_be_left_out(
    run: Path,
) -> None:
    review(run, CASES[0], gold_labels(CASES[0]), blind=True)
    labels = gold_labels(CASES[0]) | {CASES[0].sentence_ids[0]: "supplementary"}
    report = scored(run, review(run, CASES[0], labels, blind=True, by="Ben"))
    assert (
        "1 sentence of the reviewed cases without a label (on 1"
        in report.scores.warnings[0]
    )


@pytest.mark.parametrize(
    "review", [{"run": "one"}, {"reviewers": 3}, {"reviewers": [None]}]
)
def test_a_key_of_reviews_without_reviewers_is_refused(
    run: Path, tmp_path: Path, review: Any
) -> None:
    key = tmp_path / "old_key.json"
    key.write_text(
        json.dumps([{"case_id": CASES[0].id, "answers": [], "review": review}])
    )
    with pytest.raises(InputError, match="names no reviewers"):
        scored(run, key)


@pytest.mark.parametrize("review", [7, "x", []])
def test_a_strange_review_in_a_key_does_no_harm(
    run: Path, tmp_path: Path, review: Any
) -> None:
    answers = [
        {"sentence_id": name, "relevance": "essential"}
        for name in CASES[0].sentence_ids
    ]
    key = tmp_path / "strange_key.json"
    key.write_text(
        json.dumps([{"case_id": CASES[0].id, "answers": answers, "review": review}])
    )
    assert scored(run, key).scores.cases == 1


def test_every_command_that_scores_says_that_the_key_is_circular(
    run: Path, tmp_path: Path
) -> None:
    other = create_run(tmp_path, CASES, seed=2, name="two", with_key=False)
    for case in CASES:
        key = review(run, case, corrected(run, case), blind=False)
    for arguments in (
        ("score", run),
        ("compare", run, other, "--metric", "strict_micro_f1"),
    ):
        result = archqa(*arguments, "--key", key)
        assert result.returncode == 0, result.stderr
        assert "THE KEY IS CIRCULAR" in " ".join(result.stderr.split()), arguments
        shown = " ".join((result.stdout + result.stderr).split())
        assert "set while looking at answers of this very run" in shown, arguments


def test_a_blind_part_makes_a_key_more_than_an_echo_of_the_run(run: Path) -> None:
    review(run, CASES[0], own_labels(run, CASES[0]), blind=False)
    report = scored(run, review(run, CASES[1], own_labels(run, CASES[1]), blind=True))
    assert report.key is not None
    assert (report.key.circular, report.key.equals_run) == (True, False)


def test_the_submission_file_in_a_runs_folder_is_the_runs(run: Path) -> None:
    key = review(run, CASES[0], corrected(run, CASES[0]), blind=False)
    submission = Run.open(run).write_submission()
    report = score(
        submission,
        key=key,
        data=run.parent / "cases.json",
        settings=NO_RESAMPLES,
        keep=False,
    )
    assert report.key is not None
    assert report.key.circular


def test_pages_say_beside_the_scores_what_they_are_against(run: Path) -> None:
    for case in CASES:
        key = review(run, case, own_labels(run, case), blind=False)
    scored(run, key)
    page = report_html([run])
    assert page.count("circular key") >= 1
    assert "set while looking at answers of this very run" in page
    assert "THIS IS NO MEASUREMENT" in page


def test_scores_from_before_keys_were_noted_say_so(run: Path) -> None:
    scored(run, review(run, CASES[0], gold_labels(CASES[0]), blind=True))
    path = run / "scores.json"
    stored = json.loads(path.read_text())
    del stored["key"]
    path.write_text(json.dumps(stored))
    assert "These scores do not say which key they are against" in report_html([run])
