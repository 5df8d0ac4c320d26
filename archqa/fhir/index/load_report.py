"""How far a load is, and what came of it."""

from archqa.core.value import FrozenModel


class LoadProgress(FrozenModel):
    """The progress of a load. Bytes are those of the files on disk."""

    file: str
    resources: int
    bytes_read: int
    bytes_total: int


class LoadReport(FrozenModel):
    """The result of a load.

    `added` resources are new in the record. `replaced` is how often a resource took the place of
    an earlier version, in the record or in the files, `unchanged` how often it was there already.
    `by_type` counts the resources of the files as they are stored, each once, and `stored` those
    of the whole record. `mistakes` are the first 200, as `file:line: what`; `skipped` files are no
    FHIR at all.

    `unresolved` is the number of `urn:uuid:…` that resources refer to and no resource has,
    `unindexed` that of references which the index leaves out: `remarks` name the first 200 of
    their resources, after those on checksum lists.

    `bundles` is how many Bundles were taken apart into their resources, `without_resource` how many
    of their entries hold none (requests to read or delete, mere responses), `conflicting` how many
    resources the files have in several versions, of which the last is stored, and `conditional` the
    number of references such as `Practitioner?identifier=…` that do not fit exactly one resource.
    """

    files: int
    added: int
    replaced: int
    unchanged: int
    by_type: dict[str, int]
    stored: int = 0
    unresolved: int = 0
    unindexed: int = 0
    bundles: int = 0
    without_resource: int = 0
    conflicting: int = 0
    conditional: int = 0
    bad: int
    mistakes: tuple[str, ...]
    skipped: tuple[str, ...]
    checksums: int
    remarks: tuple[str, ...] = ()
