"""Cases, answers and runs show themselves in a notebook without trusting their text."""

from pathlib import Path

import pytest

from archqa.asking.answer import Answer, Evidence, Status
from archqa.core.answer import CitedAnswer, Claim
from archqa.core.case import Case, Sentence
from archqa.errors import CallerError
from archqa.report import show_case
from archqa.runs.run import Run
from tests.report.synthetic_runs import cases_with_specialties, create_run


@pytest.mark.parametrize(
    "words", ["<script>alert(1)</script>", "a & b < c", '"quoted"']
)
def test_a_case_and_an_answer_show_text_as_text(words: str) -> None:
    case = Case(
        id="1", patient_narrative=words, sentences=(Sentence(id="<i>", text=words),)
    )
    answer = CitedAnswer(claims=(Claim(text=words, citations=("<b>",)),))
    for html in (case._repr_html_(), answer._repr_html_()):
        assert "<script>" not in html
        assert "<i>" not in html
        assert "<b>]" not in html
        assert "&lt;" in html


def test_an_answer_that_was_not_found_shows_the_nearest_passages() -> None:
    near = Evidence(id="4", kind="sentence", text="On <b>iron.", heading="Plan")
    answer = Answer(question="q", status=Status.NOT_FOUND, related=(near,))
    html = answer._repr_html_()
    assert "Nearest passages: (1)" in html
    assert "On &lt;b&gt;iron." in html
    assert "Plan" in html
    assert "Evidence" not in html


def test_a_run_gives_tables_of_cases_and_of_judgements(tmp_path: Path) -> None:
    run = Run.open(create_run(tmp_path, cases_with_specialties(2, sentences=5)))
    assert list(run.to_pandas()["case_id"]) == ["s1", "s2"]
    held = run.judgements_to_pandas()
    assert len(held) == 2 * 5 * 4  # cases, sentences, agents
    assert set(held.columns) >= {
        "case_id",
        "sentence_id",
        "agent",
        "label",
        "probability",
        "cited",
    }
    record = run.get_record("s1")
    assert record is not None
    assert set(held[(held.case_id == "s1") & held.cited].sentence_id) == set(
        record.evidence
    )
    assert "As sentence" in record._repr_html_()
    assert "archehr-2025" in run._repr_html_()


def test_one_case_is_shown_in_a_frame_of_its_own(tmp_path: Path) -> None:
    path = create_run(tmp_path, cases_with_specialties(2, sentences=5))
    shown = show_case(path, "s2")
    assert shown._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html')
    assert "sandbox" in shown._repr_html_()
    assert '<article class="case' in shown.html
    with pytest.raises(CallerError, match="s1, s2"):
        show_case(path, "s9")
