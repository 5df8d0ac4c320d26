"""What people read instead of names, notations and ids: metrics, answers, resources."""

import re
from pathlib import Path

import pytest

from archqa.core.tables import read_mapping
from archqa.report.answer_text import answer_text
from archqa.report.metric_names import metric_label
from archqa.report.resource_names import resource_name
from scoring.tasks import archehr2025, archehr2026, fhir_agentbench, medagentbench
from tests.conftest import ROOT


def _leaderboard_names() -> set[str]:
    names = set(archehr2025.leaderboard_metrics("note", 0, 0, None, None, None))
    names |= set(archehr2025.COMBINED)
    for subtask in (1, 2, 3, 4):
        names |= set(archehr2026._leaderboard(subtask, 0, 0, None, None, None))
    names |= set(fhir_agentbench._leaderboard("none", 0, 0, 0))
    names |= set(medagentbench._leaderboard(0, 0, {"": "official", "clinical_": "clinical"}))
    return names


def test_every_official_score_has_a_name_of_its_own() -> None:
    names = _leaderboard_names()
    assert len(names) > 40
    labels = [metric_label(name) for name in names]
    assert len(set(labels)) == len(labels)
    assert [label for label in labels if "_" in label or not label[0].isupper()] == []
    assert names <= set(read_mapping("report/data/metric_names.tsv"))


def test_an_unknown_score_is_shown_by_its_name_in_words() -> None:
    assert metric_label("my_own_metric") == "my own metric"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ('["Glucagon"]', "Glucagon"),
        ('["a", "b"]', "a, b"),
        ("[['Midazolam']\n ['Fentanyl Citrate']]", "Midazolam, Fentanyl Citrate"),
        ('[["a", 1], ["b", 2.5]]', "a, 1; b, 2.5"),
        ("[[nan]]", "no value"),
        ("[]", "no value"),
        ("[true]", "true"),
        ("83", "83"),
        ("[see note", "[see note"),
        ("The dose was [5] mg.", "The dose was [5] mg."),
    ],
)
def test_an_answer_that_is_a_list_is_shown_as_its_values(answer: str, text: str) -> None:
    assert answer_text(answer) == text


def test_only_the_id_of_a_resource_that_is_long_is_cut() -> None:
    assert resource_name("Observation/o3") == ("Observation", "o3", False)
    long_id = "1f3a4b5c-0000-4000-8000-000000000000"
    assert resource_name(f"Observation/{long_id}") == ("Observation", long_id, True)
    assert resource_name("o3") == ("", "o3", False)


def test_the_style_has_one_type_scale_and_one_face() -> None:
    style = (ROOT / "archqa" / "report" / "templates" / "style.css").read_text(encoding="utf-8")
    sizes = set(re.findall(r"font-size: ([^;]+?)[;\s]*(?:;|})", style))
    sizes = {size for size in sizes if not size.endswith("pt")}  # Points are of the printed page.
    assert sizes == {f"var(--text-{step})" for step in (1, 2, 3, 4, 5)}
    assert not re.search(r"(?<!sans-)serif\b", style)


def test_no_page_needs_an_emoji_font() -> None:
    emoji = re.compile("[\U0001f000-\U0001faff\ufe0f]")
    files = [*Path(ROOT / "archqa").rglob("*.jinja"), *Path(ROOT / "archqa").rglob("*.js")]
    assert [path.name for path in files if emoji.search(path.read_text(encoding="utf-8"))] == []
