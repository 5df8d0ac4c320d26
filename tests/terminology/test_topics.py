from archqa.terminology.glossary import explain_terms
from archqa.terminology.topics import load_topics, topics_of


def test_lay_and_clinical_terms_name_the_same_concept() -> None:
    lay_diuretic = topics_of("they gave me a water pill")
    assert lay_diuretic & topics_of("Furosemide 40 mg IV was given.")
    lay_infarction = topics_of("my heart attack")
    assert lay_infarction & topics_of("NSTEMI with troponin 2.1")


def test_an_abbreviation_in_capitals_is_not_an_english_word() -> None:
    assert "pulmonary embolism" in topics_of("CTA was negative for PE.")
    assert "surgery" not in topics_of("Was it this or that?")
    assert "ct scan" in topics_of("CT head")
    assert load_topics()["surgery"].kind == "procedure"


def test_a_term_is_explained_once_in_the_order_of_the_text() -> None:
    assert explain_terms("CHF, HTN and again CHF") == (
        "CHF: congestive heart failure (a heart that pumps too weakly)",
        "HTN: hypertension (high blood pressure)",
    )
