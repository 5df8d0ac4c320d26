"""Modifiers: `code:not`, `patient:identifier`, `identifier:of-type`, `url:below`.

Source: hl7.org/fhir/R4/search.html#modifiers.
"""

from dataclasses import replace

from archqa.fhir.index.row_extractor import OF_TYPE, REFERENCE_IDENTIFIER
from archqa.fhir.outcome import FhirError
from archqa.fhir.search.unsupported import UnsupportedFeature
from archqa.fhir.search.value_clauses import uris_above
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.search_parameters import Kind, Parameter, has_texts
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import split_unescaped

MODIFIERS = {
    Kind.TOKEN: {"not", "text", "missing"},
    Kind.STRING: {"exact", "contains", "missing"},
    Kind.REFERENCE: {"identifier", "missing"},
    Kind.DATE: {"missing"},
    Kind.QUANTITY: {"missing"},
    Kind.NUMBER: {"missing"},
    Kind.URI: {"above", "below", "missing"},
    Kind.COMPOSITE: set[str](),
}

_TERMINOLOGY_MODIFIERS = {"in", "not-in", "above", "below"}
"""Modifiers of tokens that need value sets and hierarchies of codes, which a record has not."""


def allowed_modifiers(resource_type: str, parameter: Parameter) -> set[str]:
    """Return the modifiers of a parameter, apart from the types of a reference."""
    allowed = set(MODIFIERS[parameter.kind])
    if parameter.is_identifier:
        allowed.add("of-type")
    if not any(has_texts(resource_type, path) for path in parameter.elements):
        allowed.discard("text")
    return allowed


def check_modifier(resource_type: str, parameter: Parameter, modifier: str) -> None:
    """Raise `UnsupportedFeature` for a modifier that the parameter does not take."""
    allowed = allowed_modifiers(resource_type, parameter)
    names_type = parameter.kind is Kind.REFERENCE and modifier in R4_RESOURCE_TYPES
    if modifier in allowed or names_type:
        return
    problem = f"{parameter.name} takes no modifier :{quotable(modifier)}"
    reason = ""
    if modifier in _TERMINOLOGY_MODIFIERS and parameter.kind in {Kind.TOKEN, Kind.REFERENCE}:
        reason = " (there is no terminology server here: write the codes, parted by commas)"
    alternatives = ", ".join(f":{name}" for name in sorted(allowed)) or "none"
    hint = did_you_mean(modifier, frozenset(allowed))
    raise UnsupportedFeature(f"{problem}{reason}; it takes {alternatives}.{hint}")


def apply_modifier(
    parameter: Parameter, modifier: str, values: list[str]
) -> tuple[Parameter, str, list[str]]:
    """Return a search with `:identifier` or `:of-type` as one of other elements, without it.

    Other searches are returned as they are. Raises `FhirError` for a value that does not fit.
    """
    if modifier == "identifier":
        elements = tuple(f"{path}{REFERENCE_IDENTIFIER}" for path in parameter.elements)
        name = f"{parameter.name}:identifier"
        return Parameter(name, Kind.TOKEN, elements), "", values
    if modifier == "of-type":
        elements = tuple(f"{path}{OF_TYPE}" for path in parameter.elements)
        name = f"{parameter.name}:of-type"
        return replace(parameter, name=name, elements=elements), "", list(map(_typed, values))
    if modifier in {"above", "below"}:
        for value in values:
            uris_above(value)
    return parameter, modifier, values


def _typed(value: str) -> str:
    """Return `system|code|value` as the code `code|value` of the system."""
    parts = split_unescaped(value, "|")
    if len(parts) != 3 or not all(part.strip() for part in parts):
        raise FhirError("identifier:of-type is written system|code|value, of the type and its id.")
    system, code, number = parts
    return f"{system}|{code}\\|{number}"
