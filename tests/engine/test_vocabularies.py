import hashlib

from archqa.engine import tables as engine_tables
from archqa.engine.cross_encoder import CROSS_ENCODER_FILE
from archqa.engine.model import load
from archqa.notes import tables as note_tables
from archqa.notes.concepts import concept_names, load_terminology
from archqa.notes.glossary import explain_terms


def test_every_row_of_every_list_has_its_columns() -> None:
    note_lists = {"sections.tsv": 2, "terms.tsv": 5}
    for name, columns in note_lists.items():
        assert {len(row) for row in note_tables.read_rows(name)} == {columns}, name
    engine_lists = {"shorter.tsv": 2, "reasons.tsv": 3}
    for name, columns in engine_lists.items():
        assert {len(row) for row in engine_tables.read_rows(name)} == {columns}, name


def test_patients_words_and_clinicians_words_meet() -> None:
    assert concept_names("they gave me a water pill") & concept_names(
        "Furosemide 40 mg IV was given."
    )
    assert concept_names("my heart attack") & concept_names("NSTEMI with troponin 2.1")


def test_capitals_keep_abbreviations_apart_from_english() -> None:
    assert "pulmonary embolism" in concept_names("CTA was negative for PE.")
    assert "surgery" not in concept_names("Was it this or that?")
    assert "computed tomography" in concept_names("CT head")
    assert load_terminology()["surgery"].kind == "procedure"


def test_a_term_is_explained_once_in_the_order_of_the_text() -> None:
    assert explain_terms("CHF, HTN and again CHF") == (
        "CHF: congestive heart failure (a heart that pumps too weakly)",
        "HTN: hypertension (high blood pressure)",
    )


def test_what_is_shipped_is_small_and_says_what_it_was_made_of() -> None:
    shipped = load()
    graph, weights = CROSS_ENCODER_FILE, CROSS_ENCODER_FILE.with_suffix(".npz")
    assert graph.stat().st_size + weights.stat().st_size <= 30_000_000
    assert (
        shipped.model.reader_sha256
        == hashlib.sha256(graph.read_bytes() + weights.read_bytes()).hexdigest()
    )
