"""The error of a case whose voters all failed."""

from collections.abc import Sequence

from archqa.errors import ArchqaError, Refused, ServerUnavailable, Unusable

_ALL_DECLINED = "Every model of the panel declined; see the trace. --resume asks again."


def error_without_votes(failures: Sequence[ArchqaError]) -> ArchqaError:
    """The error to raise when the last vote is lost too; `failures` holds at least one.

    An unreachable server comes before all else, since it stops a run. A panel whose models all
    declined has failed and may be asked again: only a refusal of a single agent is final.
    """
    outages = [failure for failure in failures if isinstance(failure, ServerUnavailable)]
    if outages:
        return outages[-1]
    if all_declined(failures):
        return Unusable(_ALL_DECLINED)
    return [failure for failure in failures if not isinstance(failure, Refused)][-1]


def all_declined(failures: Sequence[ArchqaError]) -> bool:
    """Whether every failure is a refusal."""
    return all(isinstance(failure, Refused) for failure in failures)
