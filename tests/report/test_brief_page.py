"""A patient's summary as a page: self-contained, escaped, each line with links to its evidence."""

import re

from archqa.asking.answer import Evidence
from archqa.briefing.brief import Brief, BriefLine, BriefSection
from archqa.briefing.markdown import brief_markdown
from archqa.report import brief_html

BRIEF = Brief(
    patient={"id": "p<1>", "name": "Ann <script>"},
    now="2030-06-01T00:00:00",
    sections=(
        BriefSection(
            name="problems",
            title="Problems",
            lines=(
                BriefLine(
                    text="Asthma <b> *x* [a](http://x)", citations=("A/1", "A/2", "A/3")
                ),
                BriefLine(text="1. Gout", citations=("A/5",)),
            ),
        ),
        BriefSection(name="labs", title="Labs", message="No result is recorded."),
    ),
    evidence=tuple(
        Evidence(id=f"A/{number}", kind="resource", text=f"fact {number} <i>")
        for number in (1, 2, 3, 5)
    ),
)


def test_the_page_needs_nothing_else_and_escapes_all_text() -> None:
    page = brief_html(BRIEF)
    assert not re.search(r"<script|<b>|<i>|src=|@import|url\(|href=\"(?!#|data:)", page)
    assert "Ann &lt;script&gt;" in page
    assert "No result is recorded." in page


def test_each_line_links_to_its_evidence() -> None:
    page = brief_html(BRIEF)
    links = set(re.findall(r'href="#(e\d+)"', page))
    anchors = set(re.findall(r'id="(e\d+)"', page))
    assert links == {"e1", "e3", "e4"}
    assert anchors == {"e1", "e2", "e3", "e4"}


def test_markdown_numbers_the_evidence_and_escapes_the_text() -> None:
    text = brief_markdown(BRIEF, evidence=True)
    assert r"- Asthma \<b\> \*x\* \[a\](http://x) \[1-3\]" in text
    assert r"- 1\. Gout \[4\]" in text
    assert r"4. A/5: fact 5 \<i\>" in text
