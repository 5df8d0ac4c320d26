"""Count the codes of resources that have been fetched: for servers that cannot list their codes."""

from collections import Counter
from collections.abc import Iterable, Iterator

from archqa.fhir.record import CodeCount, Resource
from archqa.fhir.values.element_values import CodedTerm, extract_terms
from archqa.fhir.values.paths import compile_path
from archqa.fhir.values.search_parameters import Kind, elements, is_concept_element


def count_codes(resource_type: str, resources: Iterable[Resource]) -> list[CodeCount]:
    """Return the codes of resources of one type, most frequent first."""
    paths = _concept_paths(resource_type)
    numbers: Counter[tuple[str, CodedTerm]] = Counter()
    for resource in resources:
        distinct_terms = set(_terms(resource, paths))
        numbers.update(distinct_terms)
    counts = []
    for (path, term), number in numbers.items():
        code_count = _code_count(resource_type, path, term, number)
        counts.append(code_count)
    return sorted(counts, key=_sort_key)


def _concept_paths(resource_type: str) -> list[str]:
    paths = []
    for kind, path in elements(resource_type):
        if kind is Kind.TOKEN and is_concept_element(resource_type, path):
            paths.append(path)
    return paths


def _terms(resource: Resource, paths: Iterable[str]) -> Iterator[tuple[str, CodedTerm]]:
    """Yield the paths and terms of a resource."""
    for path in paths:
        for value in compile_path(path)(resource):
            for term in extract_terms(value):
                yield path, term


def _code_count(
    resource_type: str,
    path: str,
    term: CodedTerm,
    number: int,
) -> CodeCount:
    return CodeCount(
        type=resource_type,
        element=path,
        system=term.system or "",
        code=term.code or "",
        display=term.text or "",
        count=number,
    )


def _sort_key(code: CodeCount) -> tuple[int, str, str, str, str]:
    return -code.count, code.display, code.code, code.system, code.element
