"""What a client prefers. Source: hl7.org/fhir/R4/search.html#errors."""

from archqa.fhir.server.response import Headers


def preferred_handling(headers: Headers) -> bool | None:
    """Return whether the client asks for lenient handling; None if it does not say."""
    preference = headers.get("prefer", "").replace(" ", "").lower()
    if "handling=strict" in preference:
        return False
    if "handling=lenient" in preference:
        return True
    return None
