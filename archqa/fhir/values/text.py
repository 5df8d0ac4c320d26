"""Normalise text for comparison: case, accents and runs of white space do not matter.

Source: hl7.org/fhir/R4/search.html#string.
"""

import unicodedata


def normalise_text(text: str) -> str:
    """Return the text in the form in which it is compared."""
    if text.isascii():
        return " ".join(text.lower().split())
    decomposed = unicodedata.normalize("NFKD", text)
    without_accents = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    folded = unicodedata.normalize("NFKD", without_accents.casefold())
    return " ".join(folded.split())
