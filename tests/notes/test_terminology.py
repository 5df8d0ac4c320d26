from archqa.notes.concepts import concept_names, load_terminology
from archqa.notes.glossary import explain_terms


def test_lay_and_clinical_terms_name_the_same_concept() -> None:
    lay_diuretic = concept_names("they gave me a water pill")
    assert lay_diuretic & concept_names("Furosemide 40 mg IV was given.")
    lay_infarction = concept_names("my heart attack")
    assert lay_infarction & concept_names("NSTEMI with troponin 2.1")


def test_an_abbreviation_in_capitals_is_not_an_english_word() -> None:
    assert "pulmonary embolism" in concept_names("CTA was negative for PE.")
    assert "surgery" not in concept_names("Was it this or that?")
    assert "computed tomography" in concept_names("CT head")
    assert load_terminology()["surgery"].kind == "procedure"


def test_a_term_is_explained_once_in_the_order_of_the_text() -> None:
    assert explain_terms("CHF, HTN and again CHF") == (
        "CHF: congestive heart failure (a heart that pumps too weakly)",
        "HTN: hypertension (high blood pressure)",
    )
