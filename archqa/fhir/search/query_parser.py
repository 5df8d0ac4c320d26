"""Reads a search: parameters as they are typed become a `Query`, or a list of everything that is wrong with them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile, UnknownParameterPolicy
from archqa.fhir.search import comparisons
from archqa.fhir.search.query import MOST_VALUES, Filter, Query
from archqa.fhir.search.result_parameters import RESULT_PARAMETERS, ResultParameterParser, quotable
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.search_parameters import Kind, Parameter, parameters
from archqa.fhir.values.urls import split_unescaped

ID = Parameter("_id", Kind.TOKEN, ("_id",))
LAST_UPDATED = Parameter("_lastUpdated", Kind.DATE, ("_lastUpdated",))
_COMMON = {"_id": ID, "_lastUpdated": LAST_UPDATED}

MODIFIERS = {
    Kind.TOKEN: {"not", "text", "missing"},
    Kind.STRING: {"exact", "contains", "missing"},
    Kind.REFERENCE: {"missing"},
    Kind.DATE: {"missing"},
    Kind.QUANTITY: {"missing"},
    Kind.NUMBER: {"missing"},
    Kind.URI: {"missing"},
}


class Unsupported(Exception):
    """A parameter that the type does not have."""


@dataclass
class QueryParser:
    """Reads searches of one type. `lenient` ignores unknown parameters and says so; None: as the profile has it."""

    resource_type: str
    profile: Profile
    lenient: bool | None = None
    mistakes: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._results = ResultParameterParser(self.profile.max_count, self.parameter, self.notices)

    def read(self, pairs: Iterable[tuple[str, str]]) -> Query:
        """The search these parameters stand for. Raises `FhirError` with every mistake."""
        if self.resource_type not in R4_RESOURCE_TYPES:
            hint = did_you_mean(self.resource_type, R4_RESOURCE_TYPES)
            raise FhirError(
                f"There is no resource type {quotable(self.resource_type)}.{hint}",
                404,
                "not-supported",
            )
        query = Query(self.resource_type)
        kept = []
        for name, value in pairs:
            if name not in {"_offset", "_format", "_pretty"}:
                kept.append((name, value))
            query = self._take(query, name, value)
        if self.mistakes:
            raise FhirError(self.mistakes[:5])
        return replace(query, notices=tuple(self.notices), params=tuple(kept))

    def _take(self, query: Query, name: str, value: str) -> Query:
        try:
            if name in RESULT_PARAMETERS:
                return self._results.take(query, name, value)
            if not value.strip():
                return query  # An empty parameter asks for nothing (search.html#combining).
            if (
                name == "patient"
                and self.profile.helpful
                and "patient" not in parameters(self.resource_type)
            ):
                return self._of_patient(query, value)
            return replace(
                query, filters=(*query.filters, self.filter(self.resource_type, name, value))
            )
        except Unsupported as error:
            ignore = (
                self.profile.unknown_parameters is UnknownParameterPolicy.IGNORE
                if self.lenient is None
                else self.lenient
            )
            (self.notices if ignore else self.mistakes).append(
                str(error) + (" It was ignored." if ignore else "")
            )
        except FhirError as error:
            self.mistakes.extend(error.diagnostics)
        return query

    def _of_patient(self, query: Query, value: str) -> Query:
        """`Patient?patient=X` is the patient; a Location of the patient is one that their record names."""
        values = tuple(_values("patient", value))
        if self.resource_type != "Patient":
            return replace(query, reach=(*query.reach, values))
        self.notices.append("Patient has no parameter patient: read as _id.")
        ids = tuple(each.rpartition("/")[2] for each in values)
        return replace(query, filters=(*query.filters, Filter(ID, ids)))

    def filter(self, resource_type: str, name: str, value: str) -> Filter:
        """One filter. Raises `Unsupported` for a parameter the type does not have, `FhirError` for a bad use of it."""
        if name.startswith("_has:"):
            return self._has(resource_type, name, value)
        head, dot, rest = name.partition(".")
        base, colon, modifier = head.partition(":")
        parameter = self.parameter(resource_type, base)
        if dot:
            return self._chained(parameter, modifier, rest, value)
        if colon:
            _check_modifier(parameter, modifier)
        values = _values(name, value)
        if modifier == "missing" and values not in (["true"], ["false"]):
            raise FhirError(f"{quotable(name)} must be true or false.")
        for each in values if modifier not in {"missing", "text"} else ():
            comparisons.check_value(parameter, each)
        return Filter(parameter, tuple(values), modifier)

    def parameter(self, resource_type: str, name: str) -> Parameter:
        """The parameter of that name. Raises `Unsupported`, with what may have been meant."""
        found = _COMMON.get(name) or parameters(resource_type).get(name)
        if found is None and name == "id" and self.profile.helpful:
            self.notices.append("There is no parameter id: read as _id.")
            return ID
        if found is None:
            raise Unsupported(_no_such(resource_type, name))
        extra = found.extra if self.profile.helpful else ()
        return replace(found, elements=(*found.elements, *extra), extra=())

    def _chained(self, parameter: Parameter, modifier: str, rest: str, value: str) -> Filter:
        if parameter.kind is not Kind.REFERENCE:
            raise FhirError(
                f"{parameter.name} is no reference: it cannot be followed to .{quotable(rest)}."
            )
        if "." in rest:
            raise FhirError("A chain may follow one reference, not two.")
        target = modifier or _only_target(parameter)
        if target not in R4_RESOURCE_TYPES:
            raise FhirError(
                f"{parameter.name}:{quotable(target)}: no such resource type.{did_you_mean(target, R4_RESOURCE_TYPES)}"
            )
        return Filter(parameter, chain_type=target, chain=self.filter(target, rest, value))

    def _has(self, resource_type: str, name: str, value: str) -> Filter:
        parts = name.split(":", 3)
        if len(parts) < 4 or "_has:" in parts[3] or "." in parts[3]:
            raise FhirError(
                "_has is written _has:Observation:patient:code=… and goes one step back."
            )
        _, source, by, rest = parts
        if source not in R4_RESOURCE_TYPES:
            raise FhirError(
                f"_has: there is no resource type {quotable(source)}.{did_you_mean(source, R4_RESOURCE_TYPES)}"
            )
        parameter = self.parameter(source, by)
        if parameter.kind is not Kind.REFERENCE:
            raise FhirError(f"_has: {source}.{by} is no reference.")
        return Filter(
            parameter, chain_type=source, chain=self.filter(source, rest, value), has=True
        )


def _values(name: str, value: str) -> list[str]:
    values = [each for each in split_unescaped(value, ",") if each.strip()]
    if len(values) > MOST_VALUES:
        raise FhirError(f"{quotable(name)} has more than {MOST_VALUES} values.", 414, "too-long")
    return values


def _check_modifier(parameter: Parameter, modifier: str) -> None:
    known = MODIFIERS[parameter.kind]
    if modifier in known or (parameter.kind is Kind.REFERENCE and modifier in R4_RESOURCE_TYPES):
        return
    can = ", ".join(f":{each}" for each in sorted(known))
    raise FhirError(
        f"{parameter.name} takes no modifier :{quotable(modifier)}; it takes {can}.",
        code="not-supported",
    )


def _only_target(parameter: Parameter) -> str:
    if len(parameter.targets) == 1:
        return parameter.targets[0]
    if parameter.name == "subject":
        return "Patient"
    raise FhirError(f"Say what {parameter.name} refers to: {parameter.name}:Type.name=…")


def _no_such(resource_type: str, name: str) -> str:
    known = sorted({*parameters(resource_type), *_COMMON})
    hint = did_you_mean(name, frozenset(known))
    return f"{resource_type} has no search parameter {quotable(name)}.{hint} It has: {', '.join(known)}."
