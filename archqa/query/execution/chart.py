"""The resources of one patient, fetched on demand and cached for the next question."""

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from archqa.core.id_lists import list_ids
from archqa.fhir import CodeCount, Encounters, FhirError, Record, Resolver, Resource
from archqa.fhir.record import NOT_CONVERTED, PartialRecord
from archqa.fhir.store import LocalRecord
from archqa.fhir.values.element_types import is_well_formed
from archqa.fhir.values.references import parse_reference_element
from archqa.fhir.values.search_parameters import parameters
from archqa.fhir.views.encounters import EncounterKind, encounter_kind
from archqa.query.execution.findings import Gap
from archqa.query.kinds import LISTS

_CODES_PER_SEARCH = 60
"""With their systems, this many codes make a URL of some 6,000 characters, which servers accept."""

_MAX_CACHED_SEARCHES = 64

_MAX_CACHED_RESOURCES = 500
"""Resources of a cached search. Larger searches are rarely repeated."""

SearchLimits = Mapping[str, str | list[str]]
Computed = TypeVar("Computed")


class Stay(NamedTuple):
    """The ids of the hospital visit and the ICU stay of an encounter; empty if there is none."""

    hospital_visit_id: str = ""
    icu_stay_id: str = ""


_NO_STAY = Stay()


class Chart:
    """One patient of a record. Reuse a chart for several questions to reuse what it fetched.

    Later changes of the record are not seen; take a new chart then. Threads must hold `lock`.
    """

    def __init__(self, record: Record, patient: str) -> None:
        self.record = record
        self.patient = patient.removeprefix("Patient/")
        self.resolver = Resolver(record)
        self.lock = threading.RLock()
        self._searches: dict[tuple[str, str], list[Resource]] = {}
        self._codes: dict[str, list[CodeCount]] = {}
        self._computed: dict[str, Any] = {}
        self._malformed: dict[str, set[str]] = {}

    @cached_property
    def patient_resource(self) -> Resource | None:
        """The Patient, if there is one."""
        patient = self.record.get("Patient", self.patient)
        return next(
            iter(self._well_formed("Patient", [patient] if patient else [])), None
        )

    @cached_property
    def encounters(self) -> Encounters:
        """All encounters, oldest first."""
        return Encounters.of(self.record, self.patient)

    @cached_property
    def stays(self) -> Mapping[str, Stay]:
        """The stay of each encounter, by the encounter's id."""
        stays = {}
        for encounter in self.encounters.all:
            kind = encounter_kind(encounter)
            encounter_id = str(encounter.get("id"))
            hospital_visit_id = reference_id(encounter.get("partOf"))
            if kind is EncounterKind.HOSPITAL:
                hospital_visit_id = encounter_id
            icu_stay_id = encounter_id if kind is EncounterKind.ICU else ""
            stays[encounter_id] = Stay(hospital_visit_id, icu_stay_id)
        return stays

    def find_stay(self, reference: object) -> Stay:
        """The stay of the encounter that a Reference points to; an empty one if there is none."""
        return self.stays.get(reference_id(reference), _NO_STAY)

    def targets(self, reference: Any) -> list[Resource]:
        """The resource that a Reference or `Type/id` points to; none if the record lacks it."""
        target = self.resolver.resolve(reference)
        if target is not None:
            return [target]
        resource_id = reference_id(reference)
        text = reference.get("reference") if isinstance(reference, dict) else None
        if not resource_id or not str(text).startswith("urn:"):
            return []
        for resource_type in LISTS["types_of_urns"]:
            target = self.resolver.resolve(f"{resource_type}/{resource_id}")
            if target is not None:
                return [target]
        return []

    def codes(self, resource_type: str) -> list[CodeCount]:
        """The codes of the patient's resources of a type, most frequent first."""
        if resource_type not in self._codes:
            self._codes[resource_type] = self.record.codes(resource_type, self.patient)
        return self._codes[resource_type]

    @cached_property
    def observation_count(self) -> int:
        """The number of the patient's results; 0 if it is not known without reading them."""
        if not isinstance(self.record, LocalRecord):
            return 0
        return self.record.counts(self.patient).get("Observation", 0)

    def search(
        self, resource_type: str, params: SearchLimits | None = None
    ) -> list[Resource]:
        """The patient's resources of a type that match a search."""
        key = (resource_type, repr(params))
        if key in self._searches:
            return self._searches[key]
        parameters: dict[str, str | list[str]] = {
            "patient": self.patient,
            **(params or {}),
        }
        if "subject" in parameters:
            del parameters["patient"]
        found = self.record.search_all(resource_type, parameters)
        resources = self._well_formed(resource_type, found)
        if len(resources) <= _MAX_CACHED_RESOURCES:
            self._searches[key] = resources
        if len(self._searches) > _MAX_CACHED_SEARCHES:
            oldest_key = next(iter(self._searches))
            del self._searches[oldest_key]
        return resources

    def search_if_known(
        self, resource_type: str, params: SearchLimits
    ) -> list[Resource]:
        """As `search`; nothing of a type or a parameter that a server does not have."""
        try:
            return self.search(resource_type, params)
        except FhirError:
            return []

    def gaps(self, resource_types: Iterable[str] | None = None) -> list[Gap]:
        """What could not be read of these types; by default, of all that were refused so far."""
        refused = self.record.refused if isinstance(self.record, PartialRecord) else {}
        gaps: list[Gap] = []
        for resource_type in refused if resource_types is None else resource_types:
            if resource_type in refused:
                reason = (
                    f"the server refused {resource_type} ({refused[resource_type]})"
                )
                gaps.append(Gap(resource_type, reason))
            elif isinstance(self.record, LocalRecord):
                gaps += self._not_converted(resource_type)
            if names := sorted(self._malformed_names(resource_type)):
                counted = f"{len(names)} malformed {resource_type}"
                reason = f"{counted} left out ({list_ids(names)})"
                gaps.append(Gap(resource_type, reason))
        return gaps

    def _malformed_names(self, resource_type: str) -> set[str]:
        """The malformed resources of a type; of a server, those that it sent so far."""
        if resource_type not in self._malformed:
            names: list[str] = []
            if isinstance(self.record, LocalRecord):
                names = self.record.malformed(resource_type, self.patient)
            self._malformed[resource_type] = set(names)
        return self._malformed[resource_type]

    def _well_formed(
        self, resource_type: str, resources: Iterable[Resource]
    ) -> list[Resource]:
        """The resources whose elements have their types: what reads rows relies on it."""
        names = self._malformed_names(resource_type)
        is_checked = isinstance(self.record, LocalRecord)
        well_formed = []
        for resource in resources:
            name = f"{resource_type}/{resource.get('id')}"
            if not is_checked and not is_well_formed(resource):
                names.add(name)
            if name not in names:
                well_formed.append(resource)
        return well_formed

    def _not_converted(self, resource_type: str) -> list[Gap]:
        """The resources of other FHIR versions that R4 has no place for as a whole."""
        limits = {"_tag": f"{NOT_CONVERTED}|", "_summary": "count"}
        for parameter in ("patient", "subject"):
            if parameter in parameters(resource_type):
                limits[parameter] = f"Patient/{self.patient}"
                break
        else:
            return []

        def count() -> int:
            return self.record.search(resource_type, limits).total or 0

        number = self.get_or_compute(f"not converted {resource_type}", count)
        if not number:
            return []
        text = f"{number} {resource_type} of another FHIR version could not be read as a whole"
        return [Gap(resource_type, text)]

    def get_or_compute(self, name: str, compute: Callable[[], Computed]) -> Computed:
        """Something derived from the patient's resources, computed once. It must not be changed."""
        if name not in self._computed:
            self._computed[name] = compute()
        result: Computed = self._computed[name]
        return result

    def observations(
        self,
        code_matches: Callable[[CodeCount], bool],
        names: Iterable[str],
        limits: SearchLimits,
        parameter: str = "code",
    ) -> list[Resource]:
        """Observations with a matching code that pass the limits of a search.

        A server cannot list its codes without being read as a whole: there, exact `names` are
        searched as text (search.html#token, `:text`), which matches no fewer observations.
        """
        names = list(names)
        resources: list[Resource] = []
        if names and not isinstance(self.record, LocalRecord):
            try:
                for name in names:
                    text_limits = {**limits, "code:text": _escaped(name)}
                    resources += self.search("Observation", text_limits)
                return _unique(resources)
            except (
                FhirError
            ):  # A server without `:text` is asked for every code instead.
                resources = []
        tokens: dict[str, None] = {}
        for code in self.codes("Observation"):
            if code_matches(code):
                tokens[f"{_escaped(code.system)}|{_escaped(code.code)}"] = None
        distinct_tokens = list(tokens)
        for start in range(0, len(distinct_tokens), _CODES_PER_SEARCH):
            batch = distinct_tokens[start : start + _CODES_PER_SEARCH]
            code_limits = {**limits, parameter: ",".join(batch)}
            resources += self.search("Observation", code_limits)
        return _unique(resources)

    def results_about(self, word: str) -> list[Resource]:
        """Observations whose code is called by a word, such as `allerg`."""
        codes = []
        for code in self.codes("Observation"):
            if word in f"{code.display} {code.code}".lower():
                codes.append(code)
        if all(code.code for code in codes):
            return self.observations(lambda code: code in codes, (), {})
        # No search finds a text without code.
        results = self.search("Observation")
        return [result for result in results if word in str(result.get("code")).lower()]


class ChartCache:
    """The charts of the most recent patients, at most `max_charts`, of an unchanging record."""

    def __init__(self, record: Record, max_charts: int = 128) -> None:
        self.record = record
        self._max_charts = max_charts
        self._charts: dict[str, Chart] = {}
        self._lock = threading.Lock()

    def of(self, patient: str) -> Chart:
        """The chart of a patient: the cached one if there is one."""
        with self._lock:
            chart = self._charts.pop(patient, None)
            if chart is None:
                chart = Chart(self.record, patient)
            self._charts[patient] = chart
            while len(self._charts) > self._max_charts:
                least_recent = next(iter(self._charts))
                del self._charts[least_recent]
            return chart


def reference_id(reference: object) -> str:
    """The id that a Reference points to; empty if it points nowhere."""
    parsed = parse_reference_element(reference)
    return parsed.id if parsed is not None else ""


def _escaped(value: str) -> str:
    """A value without separators: search.html#escaping."""
    for character in ("\\", "|", ",", "$"):
        value = value.replace(character, f"\\{character}")
    return value


def _unique(resources: Iterable[Resource]) -> list[Resource]:
    by_id = {str(resource.get("id")): resource for resource in resources}
    return list(by_id.values())
