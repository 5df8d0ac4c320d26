"""Parse the parameters of a search into a `Query`, or report every mistake in them.

Source: hl7.org/fhir/R4/search.html; #modifiers on `code:not`, `patient:identifier`, `url:below`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from archqa.fhir.index.schema import OF_TYPE, REFERENCE_IDENTIFIER
from archqa.fhir.profile import Profile
from archqa.fhir.record import FhirError
from archqa.fhir.search.query import (
    MAX_CHAIN_STEPS,
    MAX_COMPARISONS,
    MAX_SORT_KEYS,
    MAX_VALUES,
    Filter,
    Ignored,
    Pair,
    Query,
    UnsupportedFeature,
    UnsupportedParameter,
    handling_of,
    without_ignored,
)
from archqa.fhir.search.result_parameters import (
    NAME_LISTS,
    RESULT_PARAMETERS,
    SINGLE,
    ResultParameterParser,
    check_control_modifier,
    check_subset,
)
from archqa.fhir.search.value_clauses import check_value, uris_above
from archqa.fhir.values.names import names_in
from archqa.fhir.values.references import parse_reference
from archqa.fhir.values.resource_types import R4_RESOURCE_TYPES, did_you_mean
from archqa.fhir.values.search_parameters import Kind, Parameter, has_texts, parameters
from archqa.fhir.values.text import quotable
from archqa.fhir.values.urls import split_unescaped

ID = Parameter("_id", Kind.TOKEN, ("_id",))
LAST_UPDATED = Parameter("_lastUpdated", Kind.DATE, ("_lastUpdated",))
_COMMON_PARAMETERS = {"_id": ID, "_lastUpdated": LAST_UPDATED}

_NOT_REPEATED = {"_offset", "_format", "_pretty"}
"""Parameters that the link to the next page does not repeat."""

_MAX_LISTED_LENGTH = 400
"""Characters of the names that a message lists."""

_MAX_MISTAKES = 5
"""Mistakes of a search that are reported."""

_UNSUPPORTED_IN_R4 = names_in("unsupported parameters")
"""Parameters that R4 has for every type, some of which this server does not have."""

_MODIFIERS = {
    Kind.TOKEN: {"not", "text"},
    Kind.STRING: {"exact", "contains"},
    Kind.REFERENCE: {"identifier"},
    Kind.URI: {"above", "below"},
}
"""Modifiers besides `missing`, which all parameters but composites take."""

_TERMINOLOGY_MODIFIERS = {"in", "not-in", "above", "below"}
"""Modifiers of tokens that need value sets and hierarchies of codes, which a record has not."""


@dataclass
class QueryParser:
    """Parse searches of one type.

    `lenient` ignores what is not supported with a remark; None follows the profile.
    """

    resource_type: str
    profile: Profile
    lenient: bool | None = None
    mistakes: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ignored = Ignored(handling_of(self.profile, self.lenient))
        self._result_parser = ResultParameterParser(
            self.profile.max_count,
            self.parameter,
            self.notices,
            self.ignored,
        )
        is_standard = "patient" in parameters(self.resource_type)
        self._extends_patient = self.profile.extensions_enabled and not is_standard
        """Whether `patient` is an extension of the profile for this type."""

    def parse(self, params: Iterable[Pair]) -> Query:
        """Return the search of these parameters. Raises `FhirError` with every mistake."""
        if self.resource_type not in R4_RESOURCE_TYPES:
            hint = did_you_mean(self.resource_type, R4_RESOURCE_TYPES)
            message = f"There is no resource type {quotable(self.resource_type)}.{hint}"
            raise FhirError(message, 404, "not-supported")
        query = Query(self.resource_type)
        all_pairs = list(params)
        last = dict(all_pairs)
        pairs = []
        for name, value in all_pairs:
            if name in SINGLE and value != last[name]:  # A later one contradicts it.
                message = f"{name} is given several times, with different values."
                self._report_unsupported(UnsupportedParameter(message), (name, value))
            else:
                pairs.append((name, value))
        for name, value in pairs:
            query = self._add_parameter(query, name, value)
        try:
            check_subset(query.subset)
        except FhirError as error:
            self.mistakes.extend(error.diagnostics)
        if query.subset.summary == "text" and (query.includes or query.revincludes):
            self.mistakes.append(
                "_include and _revinclude cannot be combined with _summary=text."
            )
        if self.mistakes:
            raise FhirError(self.mistakes[:_MAX_MISTAKES])
        if sum(part.comparisons for part in query.filters) > MAX_COMPARISONS:
            limit = f"A search compares with at most {MAX_COMPARISONS} values."
            raise FhirError(f"{limit} Ask several times.", 400, "too-costly")
        if len(query.sort) > MAX_SORT_KEYS:
            raise FhirError(
                f"_sort takes at most {MAX_SORT_KEYS} keys.", 400, "too-costly"
            )
        linked = without_ignored(pairs, self.ignored.pairs)
        return replace(
            query,
            notices=tuple(self.notices),
            ignored=self.ignored,
            params=tuple(pair for pair in linked if pair[0] not in _NOT_REPEATED),
        )

    def _add_parameter(
        self,
        query: Query,
        name: str,
        value: str,
    ) -> Query:
        try:
            if name in NAME_LISTS and not re.sub(r"[\s,-]", "", value):
                self._ignore_empty(name, value)
                return query
            if name in RESULT_PARAMETERS:
                return self._result_parser.apply(query, name, value)
            check_control_modifier(name)
            if not value.strip():
                # Without a value it has no effect (search.html#combining), if the type has it.
                base = re.split("[:.]", name, maxsplit=1)[0]
                if base != "_has" and not (base == "patient" and self._extends_patient):
                    self.parameter(self.resource_type, base)
                self._ignore_empty(name, value)
                return query
            if name == "patient" and self._extends_patient:
                return self._limit_to_patient(query, value)
            new_filter = self.filter(self.resource_type, name, value)
            return replace(query, filters=(*query.filters, new_filter))
        except UnsupportedParameter as error:
            self._report_unsupported(error, (name, value))
        except FhirError as error:
            self.mistakes.extend(error.diagnostics)
        return query

    def _report_unsupported(self, error: UnsupportedParameter, pair: Pair) -> None:
        if not self.ignored.add(error, pair):
            self.mistakes.append(str(error))

    def _ignore_empty(self, name: str, value: str) -> None:
        remark = f"{quotable(name)} has no value: it was ignored."
        if self.profile.extensions_enabled:
            self.notices.append(remark)
            self.ignored.pairs.append((name, value))
        else:
            self.ignored.add_harmless(remark, (name, value))

    def _limit_to_patient(self, query: Query, value: str) -> Query:
        """Read `Patient?patient=X` as the patient, `Location?patient=X` as their Locations."""
        values = tuple(_split_values("patient", value))
        if self.resource_type != "Patient":
            return replace(
                query, referenced_by_patients=(*query.referenced_by_patients, values)
            )
        self.notices.append("Patient has no parameter patient: read as _id.")
        targets = map(parse_reference, values)
        ids = [
            target.id if target else value
            for target, value in zip(targets, values, strict=True)
        ]
        return replace(query, filters=(*query.filters, Filter(ID, tuple(ids))))

    def filter(
        self,
        resource_type: str,
        name: str,
        value: str,
        steps: int = 0,
    ) -> Filter:
        """Parse one filter, at the end of a chain of so many steps.

        Raises `UnsupportedParameter` if the type does not have it, `FhirError` for a mistake in it.
        """
        if steps > MAX_CHAIN_STEPS:
            raise FhirError(
                f"A chain may follow {MAX_CHAIN_STEPS} references, not more."
            )
        if name.startswith("_has:"):
            return self._reverse_chain(name, value, steps + 1)
        head, dot, rest = name.partition(".")
        base, colon, modifier = head.partition(":")
        parameter = self.parameter(resource_type, base)
        if not dot:
            if colon:
                check_modifier(resource_type, parameter, modifier)
            return _value_filter(
                name,
                parameter,
                modifier,
                value,
            )
        if parameter.kind is not Kind.REFERENCE:
            problem = f"it cannot be followed to .{quotable(rest)}."
            raise FhirError(f"{parameter.name} is no reference: {problem}")
        target_type = modifier
        if not target_type and len(parameter.targets) == 1:
            (target_type,) = parameter.targets
        elif not target_type and base == "subject":
            target_type = "Patient"
        elif not target_type:
            problem = f"Say what {parameter.name} refers to"
            raise FhirError(f"{problem}: {parameter.name}:Type.name=…")
        if target_type not in R4_RESOURCE_TYPES:
            hint = did_you_mean(target_type, R4_RESOURCE_TYPES)
            name = f"{parameter.name}:{quotable(target_type)}"
            raise UnsupportedFeature(f"{name}: no such resource type.{hint}")
        inner = self.filter(
            target_type,
            rest,
            value,
            steps + 1,
        )
        return Filter(parameter, chain_type=target_type, chain=inner)

    def _reverse_chain(self, name: str, value: str, steps: int) -> Filter:
        parts = name.split(":", 3)
        if len(parts) < 4:
            raise FhirError("_has is written _has:Observation:patient:code=…")
        _, source_type, reference_name, inner_name = parts
        if source_type not in R4_RESOURCE_TYPES:
            hint = did_you_mean(source_type, R4_RESOURCE_TYPES)
            raise FhirError(
                f"_has: there is no resource type {quotable(source_type)}.{hint}"
            )
        parameter = self.parameter(source_type, reference_name)
        if parameter.kind is not Kind.REFERENCE:
            raise FhirError(f"_has: {source_type}.{reference_name} is no reference.")
        inner = self.filter(
            source_type,
            inner_name,
            value,
            steps,
        )
        return Filter(
            parameter,
            chain_type=source_type,
            chain=inner,
            is_reverse_chain=True,
        )

    def parameter(self, resource_type: str, name: str) -> Parameter:
        """Return the parameter of that name.

        Raises `UnsupportedParameter`, with a hint, if the type does not have it.
        """
        parameter = _COMMON_PARAMETERS.get(name) or parameters(resource_type).get(name)
        if parameter is None and name == "id" and self.profile.extensions_enabled:
            self.notices.append("There is no parameter id: read as _id.")
            return ID
        if parameter is None and name in _UNSUPPORTED_IN_R4:
            problem = f"The search parameter {name} of R4 is not supported here."
            raise UnsupportedParameter(problem)
        if parameter is None:
            names = sorted({*parameters(resource_type), *_COMMON_PARAMETERS})
            problem = f"{resource_type} has no search parameter {quotable(name)}."
            hint = did_you_mean(name, frozenset((*names, *RESULT_PARAMETERS)))
            raise UnsupportedParameter(f"{problem}{hint} It has: {_listed(names)}.")
        if not self.profile.extensions_enabled:
            return replace(parameter, extra=())
        return replace(
            parameter, elements=(*parameter.elements, *parameter.extra), extra=()
        )


def _value_filter(
    name: str,
    parameter: Parameter,
    modifier: str,
    value: str,
) -> Filter:
    """Parse a filter without a chain. Raises `FhirError`.

    A search with `:identifier` or `:of-type` becomes one of other elements, without the modifier.
    """
    values = _split_values(name, value)
    if modifier == "missing":
        if values not in (["true"], ["false"]):
            raise FhirError(f"{quotable(name)} must be true or false.")
        return Filter(parameter, tuple(values), modifier)
    if modifier == "text":
        return Filter(parameter, tuple(values), modifier)
    if modifier == "identifier":
        elements = tuple(f"{path}{REFERENCE_IDENTIFIER}" for path in parameter.elements)
        parameter = Parameter(f"{parameter.name}:identifier", Kind.TOKEN, elements)
        modifier = ""
    elif modifier == "of-type":
        elements = tuple(f"{path}{OF_TYPE}" for path in parameter.elements)
        parameter = replace(
            parameter, name=f"{parameter.name}:of-type", elements=elements
        )
        values = list(map(_typed_identifier, values))
        modifier = ""
    for alternative in values:
        if modifier in {"above", "below"}:
            uris_above(alternative)
        check_value(parameter, alternative)
    return Filter(parameter, tuple(values), modifier)


def _typed_identifier(value: str) -> str:
    """Return `system|code|value` as the code `code|value` of the system."""
    parts = split_unescaped(value, "|")
    if len(parts) != 3 or not all(part.strip() for part in parts):
        raise FhirError(
            "identifier:of-type is written system|code|value, of the type and its id."
        )
    system, code, number = parts
    return f"{system}|{code}\\|{number}"


def check_modifier(resource_type: str, parameter: Parameter, modifier: str) -> None:
    """Raise `UnsupportedFeature` for a modifier that the parameter does not take."""
    allowed = set(_MODIFIERS.get(parameter.kind, ()))
    if parameter.kind is not Kind.COMPOSITE:
        allowed.add("missing")
    if parameter.is_identifier:
        allowed.add("of-type")
    if not any(has_texts(resource_type, path) for path in parameter.elements):
        allowed.discard("text")
    names_type = parameter.kind is Kind.REFERENCE and modifier in R4_RESOURCE_TYPES
    if modifier in allowed or names_type:
        return
    problem = f"{parameter.name} takes no modifier :{quotable(modifier)}"
    reason = ""
    if modifier in _TERMINOLOGY_MODIFIERS and parameter.kind in {
        Kind.TOKEN,
        Kind.REFERENCE,
    }:
        reason = (
            " (there is no terminology server here: write the codes, parted by commas)"
        )
    alternatives = ", ".join(f":{name}" for name in sorted(allowed)) or "none"
    hint = did_you_mean(modifier, frozenset(allowed))
    raise UnsupportedFeature(f"{problem}{reason}; it takes {alternatives}.{hint}")


def _split_values(name: str, value: str) -> list[str]:
    values = [part for part in split_unescaped(value, ",") if part.strip()]
    if not values:
        raise FhirError(f"{quotable(name)} has no value between its commas.")
    if len(values) > MAX_VALUES:
        raise FhirError(
            f"{quotable(name)} has more than {MAX_VALUES} values.", 414, "too-long"
        )
    return values


def _listed(names: list[str]) -> str:
    """Return as many names as a short message has room for."""
    listed = names[:1]
    for name in names[1:]:
        if len(", ".join([*listed, name])) > _MAX_LISTED_LENGTH:
            return f"{', '.join(listed)} and {len(names) - len(listed)} more (see metadata)"
        listed.append(name)
    return ", ".join(listed)
