import hashlib

from archqa.evidence.concepts import concepts, names
from archqa.evidence.glossary import explained
from archqa.evidence.model import load
from archqa.evidence.reader import SHIPPED
from archqa.evidence.tables import rows


def test_every_row_of_every_list_has_its_columns() -> None:
    widths = {"sections.tsv": 2, "terms.tsv": 5, "shorter.tsv": 2, "reasons.tsv": 3}
    for name, width in widths.items():
        assert {len(row) for row in rows(name)} == {width}, name


def test_patients_words_and_clinicians_words_meet() -> None:
    assert names("they gave me a water pill") & names("Furosemide 40 mg IV was given.")
    assert names("my heart attack") & names("NSTEMI with troponin 2.1")


def test_capitals_keep_abbreviations_apart_from_english() -> None:
    assert "pulmonary embolism" in names("CTA was negative for PE.")
    assert "surgery" not in names("Was it this or that?")
    assert "computed tomography" in names("CT head")
    assert concepts()["surgery"].kind == "procedure"


def test_a_term_is_explained_once_in_the_order_of_the_text() -> None:
    assert explained("CHF, HTN and again CHF") == (
        "CHF: congestive heart failure (a heart that pumps too weakly)",
        "HTN: hypertension (high blood pressure)",
    )


def test_what_is_shipped_is_small_and_says_what_it_was_made_of() -> None:
    shipped = load()
    graph, weights = SHIPPED, SHIPPED.with_suffix(".npz")
    assert graph.stat().st_size + weights.stat().st_size <= 30_000_000
    assert shipped.model.reader_sha256 == hashlib.sha256(graph.read_bytes() + weights.read_bytes()).hexdigest()
