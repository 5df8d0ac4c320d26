"""Extract the index rows of resources, with numbers that are valid within one batch.

Most of the loading time is spent here. It needs no database, so processes can work in parallel.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from archqa.fhir.index import schema
from archqa.fhir.index.conditional_references import conditional_target
from archqa.fhir.index.item_numbers import MAX_ITEMS, item_number, resource_of_item
from archqa.fhir.index.numbering import Numbers
from archqa.fhir.values import element_values
from archqa.fhir.values.element_values import CodedTerm
from archqa.fhir.values.paths import PathGetter, compile_path, root_element
from archqa.fhir.values.references import ReferenceTarget
from archqa.fhir.values.search_parameters import (
    Kind,
    elements,
    group_elements,
    grouped_path,
    has_texts,
    is_identifier_element,
    parameters,
)

_Patients = tuple[int, ...]
_Emit = Callable[[int, int, Any, _Patients], None]
_UrnTargets = Mapping[str, ReferenceTarget]
_CodingKey = tuple[str | None, str | None, str | None]
_Step = tuple[_Emit, int, PathGetter]
_Plan = dict[str | None, list[_Step]]
"""The indexed elements by the member they start at: most resources have few of the members."""

_NO_PATIENT = (0,)

MAX_PATIENTS = 4
"""Patients of a resource for each of whom its index rows are repeated.

The rows of a resource about more patients would be as many as the square of its references.
"""

MAX_UNRESOLVED = 100
"""References by `urn:` outside of their bundle that are indexed of one element of a resource."""

OF_TYPE = ":of-type"
"""Follows the path of Identifiers in the name of the element that has their types too."""

REFERENCE_IDENTIFIER = ".identifier"
"""Follows the path of references in the name of the element that has their identifiers."""

SHARED = "shared:"
"""`setting` has this and a type if any resource of the type is about more patients."""

UNINDEXED = "unindexed:"
"""`setting` has this and a type if any resource of the type has more such references."""


class IndexRowExtractor:
    """Gather the index rows of resources.

    A row starts with the resource's position in the batch.
    """

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        for table in schema.INDEX_COLUMN_COUNTS:
            self.rows[table] = []
        self.elements: Numbers[tuple[str, str, str]] = Numbers(("", "", ""))
        self.terms: Numbers[CodedTerm] = Numbers(CodedTerm(None, None, None))
        self.targets: Numbers[ReferenceTarget] = Numbers(ReferenceTarget("", ""))
        self.max_durations: dict[int, int] = {}
        self.used_terms: set[tuple[int, int]] = set()
        self.flags: set[str] = set()
        """Names of settings that the record needs because of these resources."""
        self.has_items = False
        """Whether there are rows of single items of a group."""
        self.unindexed: Counter[int] = Counter()
        """The number of references that are not indexed, by the resource's position."""
        self.unresolved_targets: set[int] = set()
        """The targets of references by `urn:` that no bundle resolves."""
        self._unresolved_urns: dict[int, set[str]] = {}
        self._plans: dict[str, _Plan] = {}
        self._group_plans: dict[str, list[tuple[str, list[_Step]]]] = {}
        self._urn_targets: _UrnTargets = {}
        self._patient_getters: dict[str, list[PathGetter]] = {}
        self._coding_cache: dict[_CodingKey, int] = {}
        self._reference_cache: dict[str, list[int]] = {}
        self._uri_cache: dict[str, list[int]] = {}

    def add(
        self,
        n: int,
        resource: dict[str, Any],
        urn_targets: _UrnTargets,
    ) -> None:
        """Gather the rows of one resource.

        `urn_targets` are the resources that the `urn:uuid:…` of its bundle stand for.
        """
        self._urn_targets = urn_targets
        self._unresolved_urns.clear()
        resource_type = resource["resourceType"]
        plan = self._plans.get(resource_type) or self._make_plan(resource_type)
        patients = self._patients(resource_type, resource)
        for member in (None, *resource):
            for emit, p, values_of in plan.get(member, ()):
                for value in values_of(resource):
                    emit(n, p, value, patients)
        for group, steps in self._group_plans[resource_type]:
            if group in resource:
                self._add_items(n, compile_path(group)(resource), steps, patients)
        if n in self.unindexed:
            self.flags.add(f"{UNINDEXED}{resource_type}")

    def _add_items(
        self,
        n: int,
        items: Sequence[Any],
        steps: list[_Step],
        patients: _Patients,
    ) -> None:
        """Gather the rows of the items of a group, such as the components of an Observation."""
        for index, item in enumerate(items[:MAX_ITEMS]):
            if not isinstance(item, dict):
                continue
            self.has_items = True
            number = item_number(n, index)
            for emit, p, values_of in steps:
                for value in values_of(item):
                    emit(number, p, value, patients)

    def _make_plan(self, resource_type: str) -> _Plan:
        plan: _Plan = {}
        for kind, path in elements(resource_type):
            emit = self._emitter(kind)
            if kind is Kind.TOKEN and has_texts(resource_type, path):
                emit = self._emit_concept
            if kind is Kind.TOKEN and is_identifier_element(path):
                emit = self._identifier_emitter(emit)
            p = self.elements.of((resource_type, kind.value, path))
            steps = plan.setdefault(root_element(path), [])
            steps.append((emit, p, compile_path(path)))
        self._plans[resource_type] = plan
        self._group_plans[resource_type] = self._make_group_plan(resource_type)
        return plan

    def _make_group_plan(self, resource_type: str) -> list[tuple[str, list[_Step]]]:
        plan: list[tuple[str, list[_Step]]] = []
        for group, members in group_elements(resource_type).items():
            steps: list[_Step] = []
            plan.append((group, steps))
            for kind, path in members:
                key = (resource_type, kind.value, grouped_path(group, path))
                steps.append((self._emitter(kind), self.elements.of(key), compile_path(path)))
        return plan

    def _emitter(self, kind: Kind) -> _Emit:
        emitters: dict[Kind, _Emit] = {
            Kind.TOKEN: self._emit_token,
            Kind.DATE: self._emit_date,
            Kind.REFERENCE: self._emit_reference,
            Kind.QUANTITY: self._emit_quantity,
            Kind.NUMBER: self._emit_quantity,
            Kind.STRING: self._emit_string,
            Kind.URI: self._emit_uri,
        }
        return emitters[kind]

    def _patients(self, resource_type: str, resource: dict[str, Any]) -> _Patients:
        """Return the targets of the patients that a resource is about."""
        patients: dict[int, None] = {}
        for values_of in self._patient_getters_of(resource_type):
            for value in values_of(resource):
                for t in self._target_numbers(value):
                    target = self.targets.values[t]
                    if target.type in {"Patient", ""}:
                        patients[t] = None
                        if len(patients) > MAX_PATIENTS:
                            self.flags.add(f"{SHARED}{resource_type}")
                            return _NO_PATIENT
        return tuple(patients) or _NO_PATIENT

    def _patient_getters_of(self, resource_type: str) -> list[PathGetter]:
        getters = self._patient_getters.get(resource_type)
        if getters is not None:
            return getters
        getters = []
        parameter = parameters(resource_type).get("patient")
        if parameter is not None:
            getters = [compile_path(path) for path in parameter.elements]
        self._patient_getters[resource_type] = getters
        return getters

    def _emit_token(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        rows = self.rows["token"]
        for t in self._term_numbers(value):
            for patient in patients:
                rows.append((n, p, t, patient))

    def _identifier_emitter(self, emit_token: _Emit) -> _Emit:
        """Return what gathers an Identifier's rows: those of its value, and of its types with it."""

        def emit(n: int, p: int, value: Any, patients: _Patients) -> None:
            emit_token(n, p, value, patients)
            if type(value) is dict and "type" in value:
                rows = self.rows["token"]
                p_of_type = self._related_element(p, OF_TYPE)
                for term in element_values.extract_typed_identifiers(value):
                    t = self.terms.of(term)
                    rows.extend((n, p_of_type, t, patient) for patient in patients)

        return emit

    def _related_element(self, p: int, suffix: str) -> int:
        """Return the number of the token element whose path goes on with a suffix."""
        resource_type, _, path = self.elements.values[p]
        return self.elements.of((resource_type, Kind.TOKEN.value, f"{path}{suffix}"))

    def _emit_uri(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        if type(value) is not str:
            return
        numbers = self._uri_cache.get(value)
        if numbers is None:
            uris = element_values.extract_uris(value)
            numbers = [self.terms.of(CodedTerm(None, uri, None)) for uri in uris]
            self._uri_cache[value] = numbers
        rows = self.rows["token"]
        for t in numbers:
            for patient in patients:
                rows.append((n, p, t, patient))

    def _emit_concept(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        rows = self.rows["token"]
        for t in self._term_numbers(value):
            self.used_terms.add((p, t))
            for patient in patients:
                rows.append((n, p, t, patient))

    def _term_numbers(self, value: Any) -> list[int]:
        """Return the numbers of a value's terms; values with codings alone are cached."""
        if not _has_codings_only(value):
            return self._new_term_numbers(value)
        try:
            return self._cached_coding_numbers(value["coding"])
        except (KeyError, TypeError, AttributeError):
            numbers = self._new_term_numbers(value)
        if len(numbers) == 1:
            self._cache_coding(value["coding"][0], numbers[0])
        return numbers

    def _new_term_numbers(self, value: Any) -> list[int]:
        terms = element_values.extract_terms(value)
        return [self.terms.of(term) for term in terms]

    def _cached_coding_numbers(self, codings: list[dict[str, Any]]) -> list[int]:
        """Raises `KeyError` for a coding that is not cached."""
        numbers = []
        for coding in codings:
            key = _coding_key(coding)
            numbers.append(self._coding_cache[key])
        return numbers

    def _cache_coding(self, coding: dict[str, Any], t: int) -> None:
        key = _coding_key(coding)
        if all(text is None or type(text) is str for text in key):
            self._coding_cache[key] = t

    def _emit_reference(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        if type(value) is dict and "identifier" in value:
            p_of_identifier = self._related_element(p, REFERENCE_IDENTIFIER)
            self._emit_token(n, p_of_identifier, value["identifier"], patients)
        urn = self._unresolved_urn(value)
        if urn and not self._has_room(n, p, urn):
            return
        rows = self.rows["reference"]
        for t in self._target_numbers(value):
            if urn:
                self.unresolved_targets.add(t)
            for patient in patients:
                rows.append((n, p, t, patient))

    def _unresolved_urn(self, value: Any) -> str:
        """Return the id in a reference by `urn:` that names no resource of its bundle, else ""."""
        text = value.get("reference") if type(value) is dict else None
        if type(text) is not str or not text.startswith(("urn:uuid:", "urn:oid:")):
            return ""
        urn = text.split(":", 2)[2]
        return "" if urn in self._urn_targets else urn

    def _has_room(self, n: int, p: int, urn: str) -> bool:
        """Whether an unresolved reference of this element is indexed; count those left out."""
        urns = self._unresolved_urns.setdefault(p, set())
        if urn not in urns and len(urns) >= MAX_UNRESOLVED:
            self.unindexed[n if n >= 0 else resource_of_item(n)] += 1
            return False
        urns.add(urn)
        return True

    def _target_numbers(self, value: Any) -> list[int]:
        """Return the numbers of a Reference's targets; cached outside of bundles."""
        text = value.get("reference") if type(value) is dict else None
        if self._urn_targets or type(text) is not str:
            return [self.targets.of(self._resolve_urn(target)) for target in _targets(value)]
        numbers = self._reference_cache.get(text)
        if numbers is None:
            numbers = [self.targets.of(target) for target in _targets(value)]
            self._reference_cache[text] = numbers
        return numbers

    def _resolve_urn(self, target: ReferenceTarget) -> ReferenceTarget:
        if target.type:
            return target
        return self._urn_targets.get(target.id, target)

    def _emit_date(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        for low, high, low_utc, high_utc, _ in element_values.extract_time_ranges(value):
            if high - low > self.max_durations.get(p, 0):
                self.max_durations[p] = high - low
            for patient in patients:
                self.rows["date"].append((n, p, low, high, low_utc, high_utc, patient))

    def _emit_quantity(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        for amount in element_values.extract_amounts(value):
            t = self.terms.of(amount.unit)
            for patient in patients:
                self.rows["quantity"].append((n, p, amount.low, amount.high, t, patient))

    def _emit_string(
        self,
        n: int,
        p: int,
        value: Any,
        patients: _Patients,
    ) -> None:
        for folded, exact in element_values.extract_strings(value):
            for patient in patients:
                self.rows["string"].append((n, p, folded, exact, patient))


def _targets(value: Any) -> list[ReferenceTarget]:
    """Return what a Reference points to, by an id or by a condition."""
    targets = list(element_values.extract_targets(value))
    text = value.get("reference") if type(value) is dict and not targets else None
    conditional = conditional_target(text) if type(text) is str else None
    return [conditional] if conditional else targets


def _coding_key(coding: dict[str, Any]) -> _CodingKey:
    return coding.get("system"), coding.get("code"), coding.get("display")


def _has_codings_only(value: Any) -> bool:
    return type(value) is dict and len(value) == 1 and "coding" in value
