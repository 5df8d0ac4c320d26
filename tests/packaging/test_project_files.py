"""Files that readers and forges look for: changelog, citation, issue forms."""

import re
import tomllib
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


LOCKS = sorted((ROOT / ".ci" / "requirements").glob("*.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_package_has_an_exact_version_and_hashes(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and line.strip()[0] != "#"]
    assert lines
    for line in lines:
        assert re.match(r"[a-z0-9._-]+(\[[a-z,]+\])?==\S+ ", line), line[:80]
        assert "--hash=sha256:" in line, line[:80]


def test_what_make_run_and_make_test_install_is_locked() -> None:
    names = {}
    for lock in LOCKS:
        text = lock.read_text(encoding="utf-8")
        names[lock.stem] = set(re.findall(r"^([a-z0-9._-]+)", text, re.MULTILINE))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = project["dependency-groups"]
    development = [entry for entry in groups["dev"] if isinstance(entry, str)]
    extras = project["project"]["optional-dependencies"]
    locked = [("run", project["project"]["dependencies"]), ("test", development)]
    for extra in ("bertscore", "alignscore", "server", "web", "mcp", "smart"):
        locked.append(("test", extras[extra]))
    for lock_name, requirements in locked:
        for requirement in requirements:
            name = re.split(r"[^\w.-]", requirement)[0].lower()
            assert re.sub("[._]", "-", name) in names[lock_name], requirement


def test_the_documentation_explains_every_dependency() -> None:
    text = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    groups = [project["project"]["dependencies"]]
    groups += project["project"]["optional-dependencies"].values()
    groups += project["dependency-groups"].values()
    for group in groups:
        for requirement in group:
            if isinstance(requirement, str):
                name = re.split(r"[^\w.-]", requirement)[0]
                assert name in text, name
