"""A parsed search: filters, order, included resources, the form of the result, and what is ignored.

What is not supported is refused, reported or warned of; never passed over in silence. Of resources
that are returned in part (`_elements`, `_summary`) the remaining members keep their exact text.
Sources: hl7.org/fhir/R4/search.html; #errors on `Prefer: handling`, #summary, #elements.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from archqa.fhir.index.blobs import StoredResource
from archqa.fhir.profile import Profile, UnknownParameterPolicy
from archqa.fhir.record import Entry
from archqa.fhir.request_budget import check_budget
from archqa.fhir.values.json_text import members
from archqa.fhir.values.resource_types import ALWAYS, resource_elements
from archqa.fhir.values.search_parameters import Kind, Parameter
from archqa.fhir.values.text import quotable

Pair = tuple[str, str]

_SUBSETTED = '{"system":"http://terminology.hl7.org/CodeSystem/v3-ObservationValue","code":"SUBSETTED"}'
_REFERENCE_TO_CONTAINED = re.compile(r'"reference"\s*:\s*"#')

MAX_VALUES = 2000
"""Comma-separated values of one parameter."""

MAX_COMPARISONS = 1000
"""Values of all parameters together, apart from ids and codes, which are looked up at once.

Each becomes a condition in SQL; SQLite takes a second to compile a thousand of them, a minute for
ten thousand, and cannot be interrupted meanwhile.
"""

COMPOSITE_COMPARISONS = 10
"""A value of a composite counts as so many comparisons: each is a search of its own in SQL."""

MAX_SORT_KEYS = 20

MAX_CHAIN_STEPS = 3
"""References that a chain follows, in either direction."""

MAX_STEP_RESOURCES = 200_000
"""Resources that a step of a chain may find, apart from its first and last: they are in memory."""


class Handling(StrEnum):
    """What happens to a parameter that is not supported.

    `REPORT` ignores it with an entry of the outcome; `WARN`, which is gcp's, with a header alone.
    """

    REFUSE = "refuse"
    REPORT = "report"
    WARN = "warn"


def handling_of(profile: Profile, lenient: bool | None) -> Handling:
    """Return how a profile handles a request that asks for leniency, for strictness or neither."""
    if lenient is not None:
        return Handling.REPORT if lenient else Handling.REFUSE
    is_ignored = profile.unknown_parameters is UnknownParameterPolicy.IGNORE
    return Handling.WARN if is_ignored else Handling.REFUSE


class UnsupportedParameter(Exception):
    """A parameter that the type does not have: gcp ignores it even if no leniency is asked for."""


class UnsupportedFeature(UnsupportedParameter):
    """A modifier or value that is not supported: only asked-for leniency ignores it."""


@dataclass
class Ignored:
    """What a request names without effect. `remarks` say so in the outcome, `warned` in a header.

    `pairs` are left out of the links.
    """

    handling: Handling
    remarks: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of what was ignored, fit for a header."""
        return [quotable(name) for name, _ in self.pairs]

    def add(self, error: UnsupportedParameter, pair: Pair) -> bool:
        """Ignore a parameter; whether the handling allows that."""
        is_feature = isinstance(error, UnsupportedFeature)
        if self.handling is Handling.REFUSE or (
            is_feature and self.handling is Handling.WARN
        ):
            return False
        self.add_harmless(f"{error} It was ignored.", pair)
        return True

    def add_harmless(self, remark: str, pair: Pair) -> None:
        """Ignore a parameter that is ignored whatever the handling, such as one without a value."""
        self.pairs.append(pair)
        if self.handling is Handling.REPORT:
            self.remarks.append(remark)
        else:
            self.warned.append(quotable(pair[0]))

    def tolerate(self, name: str, message: str) -> None:
        """Let gcp read a value that it only understands in part, with a warning.

        Raises `UnsupportedParameter` in any other handling.
        """
        if self.handling is not Handling.WARN:
            raise UnsupportedParameter(message)
        self.warned.append(name)


def without_ignored(params: Iterable[Pair], ignored: Iterable[Pair]) -> list[Pair]:
    """Return the parameters for a link: what had no effect is left out, one pair for each ignored."""
    left = list(ignored)
    linked = []
    for pair in params:
        if pair in left:
            left.remove(pair)
        else:
            linked.append(pair)
    return linked


@dataclass(frozen=True)
class Subset:
    """The part of each resource that is asked for: by default all of it."""

    elements: tuple[str, ...] = ()
    summary: str = "false"

    @property
    def is_whole(self) -> bool:
        """Whether resources stay as they are; a count has none."""
        return not self.elements and self.summary in {"false", "count"}


WHOLE = Subset()


@dataclass(frozen=True)
class Filter:
    """One parameter of a search. `values` are alternatives, still with escapes.

    With `chain`, the referenced resource (of type `chain_type`) must pass that filter. With
    `is_reverse_chain`, a resource of `chain_type` that refers here by `parameter` must pass it.
    """

    parameter: Parameter
    values: tuple[str, ...] = ()
    modifier: str = ""
    chain_type: str = ""
    chain: "Filter | None" = None
    is_reverse_chain: bool = False

    @property
    def comparisons(self) -> int:
        """The number of values that become conditions of their own."""
        if self.chain is not None:
            return self.chain.comparisons
        if self.parameter.kind is Kind.COMPOSITE:
            return COMPOSITE_COMPARISONS * len(self.values)
        if self.parameter.kind is not Kind.TOKEN or self.modifier == "text":
            return len(self.values)
        return sum(value.endswith("|") for value in self.values)


@dataclass(frozen=True)
class SortKey:
    """One key of `_sort`."""

    parameter: Parameter
    descending: bool


@dataclass(frozen=True)
class Include:
    """One `_include` or `_revinclude`: `source:parameter:target`. An empty part means any."""

    source: str
    parameter: str
    target: str
    iterate: bool


@dataclass(frozen=True)
class Query:
    """A search of one type.

    `count` None means the profile's default. `referenced_by_patients` limits the search to what
    the records of these patients refer to.
    """

    type: str
    filters: tuple[Filter, ...] = ()
    referenced_by_patients: tuple[tuple[str, ...], ...] = ()
    sort: tuple[SortKey, ...] = ()
    includes: tuple[Include, ...] = ()
    revincludes: tuple[Include, ...] = ()
    count: int | None = None
    offset: int = 0
    subset: Subset = WHOLE
    total: str = ""
    notices: tuple[str, ...] = ()
    ignored: Ignored = field(default_factory=lambda: Ignored(Handling.REFUSE))
    params: tuple[tuple[str, str], ...] = ()
    """The parameters of the request without `_offset`: the link to the next page repeats them."""

    @property
    def counts_only(self) -> bool:
        """Whether the total is all that is asked for: `_summary=count` or `_count=0`."""
        return self.subset.summary == "count" or self.count == 0


def entry_of(resource: StoredResource, subset: Subset, mode: str = "match") -> Entry:
    """Return the entry for a resource, or for the part of it that is asked for."""
    check_budget()
    return Entry(
        resource.type,
        resource.id,
        part_of_resource(resource.text, resource.type, subset),
        mode,
    )


def part_of_resource(text: str, resource_type: str, subset: Subset) -> str:
    """Return the resource's JSON with the requested members only, tagged SUBSETTED.

    Mandatory elements are always among them. A resource that is asked for as a whole stays as it
    is.
    """
    if subset.is_whole:
        return text
    spans = _spans(text)
    # The members that the search names, and those that R4 wants returned with them.
    table = resource_elements(resource_type)
    if subset.summary == "data":
        names = set(spans) - {"text"}
    else:
        names = set(ALWAYS | table.mandatory)
        for element in subset.elements:
            names |= table.members.get(element, frozenset())
        if subset.summary == "text":
            names.add("text")
        elif subset.summary == "true":
            names |= table.summary
    # Also the extensions of primitive members, and the contained resources if one is referred to.
    selected = {}
    for name, span in spans.items():
        if name.removeprefix("_") in names:
            selected[name] = span
    refers_to_contained = any(map(_REFERENCE_TO_CONTAINED.search, selected.values()))
    if refers_to_contained and "contained" in spans:
        selected["contained"] = spans["contained"]
    meta_spans = _spans(selected.get("meta", "{}"))
    tags = meta_spans.get("tag", "[]").strip()[1:-1].strip()
    meta_spans["tag"] = f"[{tags}, {_SUBSETTED}]" if tags else f"[{_SUBSETTED}]"
    selected["meta"] = _join(meta_spans)
    return _join(selected)


def _spans(text: str) -> dict[str, str]:
    """Return the text of each member of a JSON object."""
    return {name: text[start:end] for name, start, end, _ in members(text)}


def _join(spans: Mapping[str, str]) -> str:
    text = ", ".join(f"{json.dumps(name)}: {span}" for name, span in spans.items())
    return f"{{{text}}}"
