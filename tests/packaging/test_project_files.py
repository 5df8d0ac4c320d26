"""Files that readers and forges look for: changelog, citation, issue forms."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import archqa

ROOT = Path(__file__).resolve().parents[2]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
HEADING = re.compile(
    r"## (?P<version>\d+\.\d+\.\d+) \((?P<when>unreleased|\d{4}-\d\d-\d\d)\)"
)


def test_the_top_section_of_the_changelog_is_of_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    tops = [HEADING.fullmatch(line) for line in headings]
    assert all(tops), "a heading is `## 1.2.3 (unreleased)` or `## 1.2.3 (2026-12-31)`"
    versions = [top["version"] for top in tops if top]
    assert versions[0] == archqa.__version__
    assert len(set(versions)) == len(versions)


def test_the_version_stands_in_one_place() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert 'dynamic = ["version"]' in project
    assert "version" not in _yaml(ROOT / "CITATION.cff")


def test_the_citation_has_what_its_schema_requires() -> None:
    citation = _yaml(ROOT / "CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert {"message", "title", "authors"} <= citation.keys()
    assert citation["type"] == "software"
    assert citation["license"] == "MIT"
    assert all(author["name"] for author in citation["authors"])


@pytest.mark.parametrize("name", ["bug", "wrong-answer", "feature"])
def test_an_issue_form_has_fields_with_names_of_their_own(name: str) -> None:
    form = _yaml(ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    fields = [part for part in form["body"] if part["type"] != "markdown"]
    kinds = {"textarea", "input", "dropdown", "checkboxes"}
    assert {field["type"] for field in fields} <= kinds
    ids = [field["id"] for field in fields]
    assert len(set(ids)) == len(ids)
    assert all(field["attributes"]["label"] for field in fields)


@pytest.mark.parametrize("name", ["bug", "wrong-answer"])
def test_a_form_that_may_tempt_to_paste_a_record_warns_first_and_asks_at_the_end(
    name: str,
) -> None:
    body = _yaml(ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.yml")["body"]
    assert body[0]["type"] == "markdown"
    assert re.search(r"patient", body[0]["attributes"]["value"])
    [promise] = body[-1]["attributes"]["options"]
    assert promise["required"] is True


def test_there_is_no_way_around_the_forms() -> None:
    config = _yaml(ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml")
    assert config["blank_issues_enabled"] is False
    assert len(FORMS) == 4


def _yaml(path: Path) -> dict[str, Any]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(content, dict)
    return content
