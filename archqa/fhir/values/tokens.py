"""When two pieces of text count as the same: case, accents and runs of white space do not matter.

Source: hl7.org/fhir/R4/search.html#string.
"""

import unicodedata


def normalise_text(text: str) -> str:
    """The text in the form in which it is compared."""
    if text.isascii():
        return " ".join(text.lower().split())
    decomposed = unicodedata.normalize("NFKD", text)
    bare = "".join(sign for sign in decomposed if not unicodedata.combining(sign))
    return " ".join(unicodedata.normalize("NFKD", bare.casefold()).split())
