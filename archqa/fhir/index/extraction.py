"""What resources are found by: the index rows of a batch, in numbers that hold within the batch only.

Reading a record is mostly this, and it needs no database: batches may be worked on in several processes.
"""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from archqa.fhir.index import schema
from archqa.fhir.search.code_counts import is_concept_element
from archqa.fhir.values import index_values
from archqa.fhir.values.index_values import CodedTerm
from archqa.fhir.values.paths import PathGetter, compile_path, root_element
from archqa.fhir.values.references import ReferenceTarget
from archqa.fhir.values.search_parameters import Kind, elements, parameters

_T = TypeVar("_T")
_Emit = Callable[[int, int, Any, tuple[int, ...]], None]
_Plan = dict[str | None, list[tuple[_Emit, int, PathGetter]]]
"""What to do with each member that a resource may have; most have few of those that could be indexed."""

_NOBODY = (0,)


class Numbers(Generic[_T]):
    """Values by number, from 1; 0 is none of them."""

    def __init__(self, none: _T) -> None:
        self.values: list[_T] = [none]
        self._numbers: dict[_T, int] = {}

    def of(self, value: _T) -> int:
        """The number of a value."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number


class IndexRowExtractor:
    """Gathers the index rows of resources; their first column is the place of the resource in the batch."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {
            name: [] for name in schema.INDEX_COLUMN_COUNTS
        }
        self.elements: Numbers[tuple[str, str, str]] = Numbers(("", "", ""))
        self.terms: Numbers[CodedTerm] = Numbers(CodedTerm(None, None, None))
        self.targets: Numbers[ReferenceTarget] = Numbers(ReferenceTarget("", ""))
        self.longest: dict[int, int] = {}
        self.words: set[tuple[int, int]] = set()
        self._plans: dict[str, _Plan] = {}
        self._names: Mapping[str, ReferenceTarget] = {}
        self._owners: dict[str, list[PathGetter]] = {}
        self._codings: dict[tuple[str | None, str | None, str | None], int] = {}
        self._references: dict[str, list[int]] = {}

    def add(self, n: int, resource: dict[str, Any], names: Mapping[str, ReferenceTarget]) -> None:
        """Gather the rows of one resource. `names` says what the `urn:uuid:…` of its bundle stand for."""
        self._names = names
        resource_type = resource["resourceType"]
        plan = self._plans.get(resource_type) or self._plan(resource_type)
        patients = self._patients(resource_type, resource)
        for member in (None, *resource):
            for emit, p, values_of in plan.get(member, ()):
                for value in values_of(resource):
                    emit(n, p, value, patients)

    def _plan(self, resource_type: str) -> _Plan:
        emits: dict[Kind, _Emit] = {
            Kind.DATE: self._date,
            Kind.REFERENCE: self._reference,
            Kind.QUANTITY: self._quantity,
            Kind.NUMBER: self._quantity,
            Kind.STRING: self._string,
            Kind.URI: self._string,
        }
        plan: _Plan = {}
        for kind, path in elements(resource_type):
            emit = self._token if kind is Kind.TOKEN else emits[kind]
            if kind is Kind.TOKEN and is_concept_element(resource_type, path):
                emit = self._concept
            p = self.elements.of((resource_type, kind.value, path))
            plan.setdefault(root_element(path), []).append((emit, p, compile_path(path)))
        self._plans[resource_type] = plan
        return plan

    def _patients(self, resource_type: str, resource: dict[str, Any]) -> tuple[int, ...]:
        walks = self._owners.get(resource_type)
        if walks is None:
            parameter = parameters(resource_type).get("patient")
            walks = self._owners[resource_type] = (
                [compile_path(path) for path in parameter.elements] if parameter else []
            )
        found = [
            t
            for each in walks
            for value in each(resource)
            for t in self._targets(value)
            if self._is_patient(t)
        ]
        return tuple(dict.fromkeys(found)) if found else _NOBODY

    def _is_patient(self, t: int) -> bool:
        return self.targets.values[t].type in {"Patient", ""}

    def _resolved(self, target: ReferenceTarget) -> ReferenceTarget:
        return self._names.get(target.id, target) if self._names and not target.type else target

    def _token(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        rows = self.rows["token"]
        for t in self._terms(value):
            for patient in patients:
                rows.append((n, p, t, patient))

    def _concept(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        rows = self.rows["token"]
        for t in self._terms(value):
            self.words.add((p, t))
            for patient in patients:
                rows.append((n, p, t, patient))

    def _terms(self, value: Any) -> list[int]:
        """The numbers of a value's terms. The commonest shape, codings and nothing else, takes the short way."""
        if type(value) is dict and len(value) == 1 and "coding" in value:
            try:
                return [
                    self._codings[c.get("system"), c.get("code"), c.get("display")]
                    for c in value["coding"]
                ]
            except (KeyError, TypeError, AttributeError):
                pass
        found = [self.terms.of(term) for term in index_values.extract_terms(value)]
        if type(value) is dict and len(value) == 1 and "coding" in value and len(found) == 1:
            coding = value["coding"][0]
            key = (coding.get("system"), coding.get("code"), coding.get("display"))
            if all(each is None or type(each) is str for each in key):
                self._codings[key] = found[0]
        return found

    def _reference(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        rows = self.rows["reference"]
        for t in self._targets(value):
            for patient in patients:
                rows.append((n, p, t, patient))

    def _targets(self, value: Any) -> list[int]:
        """The numbers of what a Reference names; one seen before takes the short way, but not within a bundle."""
        text = value.get("reference") if type(value) is dict else None
        if self._names or type(text) is not str:
            return [
                self.targets.of(self._resolved(target))
                for target in index_values.extract_targets(value)
            ]
        found = self._references.get(text)
        if found is None:
            found = [self.targets.of(target) for target in index_values.extract_targets(value)]
            self._references[text] = found
        return found

    def _date(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for low, high, low_utc, high_utc, _ in index_values.extract_time_ranges(value):
            if high - low > self.longest.get(p, 0):
                self.longest[p] = high - low
            for patient in patients:
                self.rows["date"].append((n, p, low, high, low_utc, high_utc, patient))

    def _quantity(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for amount in index_values.extract_amounts(value):
            t = self.terms.of(amount.unit)
            for patient in patients:
                self.rows["quantity"].append((n, p, amount.low, amount.high, t, patient))

    def _string(self, n: int, p: int, value: Any, patients: tuple[int, ...]) -> None:
        for folded, exact in index_values.extract_strings(value):
            for patient in patients:
                self.rows["string"].append((n, p, folded, exact, patient))
