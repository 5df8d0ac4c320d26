"""What people read instead of names, notations and ids: metrics, answers, resources."""

import html
import json
import re
from pathlib import Path

from archqa.core.question import RecordQuestion
from archqa.core.tables import read_mapping
from archqa.report import report_html
from scoring.tasks import archehr2025, archehr2026, fhir_agentbench, medagentbench
from tests.conftest import ROOT
from tests.report.synthetic_runs import (
    cases_with_specialties,
    create_fhir_run,
    create_run,
)


def _leaderboard_names() -> set[str]:
    names = set(archehr2025.leaderboard_metrics())
    names |= set(archehr2025.COMBINED)
    for subtask in (1, 2, 3, 4):
        names |= set(archehr2026.leaderboard_metrics(subtask))
    names |= set(fhir_agentbench.leaderboard_metrics())
    names |= set(medagentbench.leaderboard_metrics())
    return names


def test_every_official_score_has_a_name_of_its_own() -> None:
    names = _leaderboard_names()
    assert len(names) > 40
    label_of = read_mapping("report/data/metric_names.tsv")
    labels = [label_of[name] for name in names]
    assert len(set(labels)) == len(labels)
    assert [label for label in labels if "_" in label or not label[0].isupper()] == []


def test_an_unknown_score_is_shown_by_its_name_in_words(tmp_path: Path) -> None:
    run = create_run(tmp_path, cases_with_specialties(1))
    scores = {"scores": {"my_own_metric": 12.0, "strict_micro_f1": 50.0}}
    (run / "scores.json").write_text(json.dumps(scores))
    page = report_html([run])
    assert ">my own metric <code" in page
    assert ">Factuality F1 (strict, micro) <code" in page


ANSWERS = {
    '["Glucagon"]': "Glucagon",
    '["a", "b"]': "a, b",
    "[['Midazolam']\n ['Fentanyl Citrate']]": "Midazolam, Fentanyl Citrate",
    '[["a", 1], ["b", 2.5]]': "a, 1; b, 2.5",
    '[[["a", "b"]]]': "a, b",
    "[[nan]]": "no value",
    "[]": "no value",
    "[true]": "true",
    "83": "83",
    "[see note": "[see note",
    "The dose was [5] mg.": "The dose was [5] mg.",
}


def test_an_answer_that_is_a_list_is_shown_as_its_values(tmp_path: Path) -> None:
    items = [
        RecordQuestion(id=f"q{at:02}", question="What?", patient_fhir_id="p")
        for at in range(len(ANSWERS))
    ]
    results = [{"agent_answer": answer} for answer in ANSWERS]
    page = report_html([create_fhir_run(tmp_path, "fhir-agentbench", items, results)])
    shown = re.findall(
        r'<p class="question record keep"><bdi dir="auto">(.*?)</bdi>', page
    )
    assert [html.unescape(text) for text in shown] == list(ANSWERS.values())


def test_only_the_id_of_a_resource_that_is_long_is_cut(tmp_path: Path) -> None:
    long_id = "1f3a4b5c-0000-4000-8000-000000000000"
    cited = {"Observation": ["o3", long_id]}
    item = RecordQuestion(id="q1", question="What?", patient_fhir_id="p")
    result = {"agent_answer": "3", "cited_fhir_resources": cited}
    page = report_html([create_fhir_run(tmp_path, "fhir-agentbench", [item], [result])])
    assert "Observation · <span>o3</span>" in page
    assert f'Observation · <span class="chip-id">{long_id}</span>' in page


def test_the_style_has_one_type_scale_and_one_face() -> None:
    style = (ROOT / "archqa" / "report" / "templates" / "style.css").read_text(
        encoding="utf-8"
    )
    sizes = set(re.findall(r"font-size: ([^;]+?)[;\s]*(?:;|})", style))
    sizes = {
        size for size in sizes if not size.endswith("pt")
    }  # Points are of the printed page.
    assert sizes == {f"var(--text-{step})" for step in (1, 2, 3, 4, 5)}
    assert not re.search(r"(?<!sans-)serif\b", style)


def test_no_page_needs_an_emoji_font() -> None:
    emoji = re.compile("[\U0001f000-\U0001faff\ufe0f]")
    files = [
        *Path(ROOT / "archqa").rglob("*.jinja"),
        *Path(ROOT / "archqa").rglob("*.js"),
    ]
    assert [
        path.name for path in files if emoji.search(path.read_text(encoding="utf-8"))
    ] == []
