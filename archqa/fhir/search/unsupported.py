"""What to do with parts of a request that are not supported: refuse, report or warn; never silence.

Source: hl7.org/fhir/R4/search.html#errors, on `Prefer: handling`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import Profile, UnknownParameterPolicy
from archqa.fhir.values.resource_types import did_you_mean
from archqa.fhir.values.text import quotable

Pair = tuple[str, str]

_MAX_MISTAKES = 5
"""Mistakes of a request that are reported."""


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
        if self.handling is Handling.REFUSE or (is_feature and self.handling is Handling.WARN):
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


def without_unknown(
    params: Iterable[Pair], known: Iterable[str], subject: str, ignored: Ignored
) -> list[Pair]:
    """Return the parameters of a request other than a search that it has; others are ignored.

    Raises `FhirError` for those that the handling does not ignore, each with near misses.
    """
    names = sorted(known)
    supported, mistakes = [], []
    for name, value in params:
        if name in names:
            supported.append((name, value))
            continue
        hint = did_you_mean(name, frozenset(names))
        problem = f"{subject} has no parameter {quotable(name)}.{hint}"
        error = UnsupportedParameter(f"{problem} It has: {', '.join(names)}.")
        if not ignored.add(error, (name, value)):
            mistakes.append(str(error))
    if mistakes:
        raise FhirError(mistakes[:_MAX_MISTAKES])
    return supported


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
