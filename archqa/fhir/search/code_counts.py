"""Counts the codes of resources, one by one: for records that cannot be asked for them."""

from collections import Counter
from collections.abc import Iterable

from archqa.fhir.record import CodeCount, Resource
from archqa.fhir.values import index_values
from archqa.fhir.values.paths import compile_path
from archqa.fhir.values.search_parameters import Kind, elements


def count_codes(resource_type: str, resources: Iterable[Resource]) -> list[CodeCount]:
    """The codes of resources of one type, most frequent first. A Medication's identifiers count: they name it."""
    paths = [
        path
        for kind, path in elements(resource_type)
        if kind is Kind.TOKEN and is_concept_element(resource_type, path)
    ]
    found: Counter[tuple[str, index_values.CodedTerm]] = Counter()
    for resource in resources:
        for path in paths:
            found.update(
                {
                    (path, term)
                    for value in compile_path(path)(resource)
                    for term in index_values.extract_terms(value)
                }
            )
    codes = [
        CodeCount(
            type=resource_type,
            element=path,
            system=term.system or "",
            code=term.code or "",
            display=term.words or "",
            count=number,
        )
        for (path, term), number in found.items()
    ]
    return sorted(
        codes, key=lambda each: (-each.count, each.display, each.code, each.system, each.element)
    )


def is_concept_element(resource_type: str, path: str) -> bool:
    """Whether values of a token element are worth looking up."""
    if path.endswith(("identifier", "Identifier")):
        return resource_type == "Medication"
    return "telecom" not in path
