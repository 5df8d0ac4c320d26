"""Numbers and drug names of a line are looked for in what the line cites."""

import pytest

from archqa.agents.grounding import (
    dates_in_figures,
    ungrounded_drugs,
    ungrounded_numbers,
)


@pytest.mark.parametrize(
    ("text", "sources", "missing"),
    [
        ("Platelets were 38,000.", "plt 38000", ()),
        ("Platelets were 38.", "plt 38,000", ("38",)),
        ("On 12/07 she left.", "seen 12/07", ()),
        ("On 12/08 she left.", "seen 12/07", ("08",)),
        ("0.5 mg twice, so 2 a day", ".5 mg b.i.d., twice", ()),
        ("3 sessions", "Three sessions", ()),
        ("Fever of 101 or 102, then 101", "febrile", ("101", "102")),
    ],
)
def test_a_number_must_stand_in_the_sources_in_figures_or_in_words(
    text: str, sources: str, missing: tuple[str, ...]
) -> None:
    assert ungrounded_numbers(text, sources) == missing


@pytest.mark.parametrize(
    ("text", "sources", "missing"),
    [
        ("Metoprolol was stopped.", "metoprolol stopped", ()),
        ("Metoprolol was stopped.", "atenolol stopped", ("Metoprolol",)),
        ("She takes furosemide.", "Lasix 40", ()),
        ("Cefepime, then ciprofloxacin.", "cefepime", ("ciprofloxacin",)),
        ("In April a statin for cholesterol, and heart medicine.", "in spring", ()),
    ],
)
def test_a_drug_must_stand_in_the_sources_under_one_of_its_names(
    text: str, sources: str, missing: tuple[str, ...]
) -> None:
    assert ungrounded_drugs(text, sources) == missing


@pytest.mark.parametrize(
    ("text", "sources", "missing"),
    [
        ("On 2022-03-18.", "on 03/18/22", ()),
        ("On 2022-03-18.", "March 18, 2022", ()),
        ("On 2022-03-18.", "18 Mar. 2022", ()),
        ("In 2024-02.", "in Feb '24", ()),
        ("On 2022-04-18.", "March 18, 2022", ("04",)),
        ("In 2024.", "a score of 24", ("2024",)),
        ("At 05 o'clock.", "it may help", ("05",)),
    ],
)
def test_a_date_may_be_written_in_figures_or_with_the_name_of_its_month(
    text: str, sources: str, missing: tuple[str, ...]
) -> None:
    known = f"{sources}\n{dates_in_figures(sources)}"
    assert ungrounded_numbers(text, known) == missing
