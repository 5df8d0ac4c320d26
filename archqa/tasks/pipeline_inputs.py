"""What a pipeline reads besides the cases, and what a reader of its run must know."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class PipelineInputs(NamedTuple):
    """Fingerprints of the files that a pipeline reads, by setting, and remarks on the whole run."""

    sha256: Mapping[str, str] = MappingProxyType({})
    remarks: tuple[str, ...] = ()
