"""Everyday names of measurements, drugs, conditions, vaccines and procedures, and their codes.

The tables in `data/` are independent of any record: `find_concepts` reads a question,
`matches_code` a code of a record, `ingredients_of` the display of a medicine.
"""

from archqa.query.concepts.concept import Concept, ConceptMatch, DisplayRule
from archqa.query.concepts.ingredients import ingredients_of
from archqa.query.concepts.matching import matches_code
from archqa.query.concepts.phrases import find_concepts
from archqa.query.concepts.tables import concept_named, load_concepts
from archqa.query.concepts.units import convert, ucum_unit

__all__ = [
    "Concept",
    "ConceptMatch",
    "DisplayRule",
    "concept_named",
    "convert",
    "find_concepts",
    "ingredients_of",
    "load_concepts",
    "matches_code",
    "ucum_unit",
]
