"""Text of resources: normalised for comparison, and on one line for NDJSON.

For comparison, case, accents and runs of white space do not matter. Also: which names of a request a
message may repeat. Sources: hl7.org/fhir/R4/search.html#string, hl7.org/fhir/R4/nd-json.html.
"""

import re
import unicodedata

_QUOTABLE = re.compile(r"[\w:.-]{1,60}", re.ASCII)


def quotable(name: str) -> str:
    """Return a name of the request if it is short and plain: a message must not carry a payload."""
    return name if _QUOTABLE.fullmatch(name) else "of that name"


def normalise_text(text: str) -> str:
    """Return the text in the form in which it is compared."""
    if text.isascii():
        return " ".join(text.lower().split())
    decomposed = unicodedata.normalize("NFKD", text)
    without_accents = "".join(
        sign for sign in decomposed if not unicodedata.combining(sign)
    )
    folded = unicodedata.normalize("NFKD", without_accents.casefold())
    return " ".join(folded.split())


def on_one_line(text: str) -> str:
    """Return a JSON text with blanks for its line ends, which can only stand between values."""
    return text.replace("\r", " ").replace("\n", " ")
