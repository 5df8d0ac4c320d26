"""A FHIR record in a file or on a server, searched as FHIR defines (hl7.org/fhir/R4/search.html).

    from archqa.fhir import Store
    store = Store.open("record.db", create=True)
    store.load(["mimic-fhir/"])
    store.search("Observation?patient=…&code=50912&_sort=-date").resources

`connect(path_or_url)` opens a file or a server; both are a `Record`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from archqa.core.public_names import imported_on_use as _imported_on_use

if _TYPE_CHECKING:
    from archqa.fhir.bulk_import import (
        ExportOrder,
        ImportProgress,
        ImportReport,
        import_export,
        state_folder,
    )
    from archqa.fhir.client.export_server import ExportServer
    from archqa.fhir.client.http_client import FhirClient
    from archqa.fhir.connection import connect
    from archqa.fhir.dumping import DumpProgress, DumpReport, dump
    from archqa.fhir.index.loading import LoadProgress, LoadReport
    from archqa.fhir.profile import ARCHQA, GCP, HAPI, PROFILES, Profile
    from archqa.fhir.record import (
        CodeCount,
        Entry,
        FhirError,
        Page,
        Record,
        Resource,
        WritableRecord,
    )
    from archqa.fhir.server.context import FhirResponse
    from archqa.fhir.server.service import FhirService
    from archqa.fhir.sharded_store import (
        Shard,
        ShardedStore,
        is_sharded,
        split_by_patient,
    )
    from archqa.fhir.store import Store
    from archqa.fhir.views.card import SchemaCard, build_schema_card
    from archqa.fhir.views.encounters import EncounterKind, Encounters
    from archqa.fhir.views.lookup import CodeMatch, lookup
    from archqa.fhir.views.projection import Projection, project, project_all
    from archqa.fhir.views.resolver import Resolver, display_name
    from archqa.fhir.write.audit import AuditEntry, AuditLog
    from archqa.fhir.write.overlay import Overlay
    from archqa.fhir.write.validation import Finding
    from archqa.fhir.write.writer import WriteMode, Writer, WriteResult

__all__ = [
    "ARCHQA",
    "GCP",
    "HAPI",
    "PROFILES",
    "AuditEntry",
    "AuditLog",
    "CodeCount",
    "CodeMatch",
    "DumpProgress",
    "DumpReport",
    "EncounterKind",
    "Encounters",
    "Entry",
    "ExportOrder",
    "ExportServer",
    "FhirClient",
    "FhirError",
    "FhirResponse",
    "FhirService",
    "Finding",
    "ImportProgress",
    "ImportReport",
    "LoadProgress",
    "LoadReport",
    "Overlay",
    "Page",
    "Profile",
    "Projection",
    "Record",
    "Resolver",
    "Resource",
    "SchemaCard",
    "Shard",
    "ShardedStore",
    "Store",
    "WritableRecord",
    "WriteMode",
    "WriteResult",
    "Writer",
    "build_schema_card",
    "connect",
    "display_name",
    "dump",
    "import_export",
    "is_sharded",
    "lookup",
    "project",
    "project_all",
    "split_by_patient",
    "state_folder",
]

_NAMES = {
    "bulk_import": [
        "ExportOrder",
        "ImportProgress",
        "ImportReport",
        "import_export",
        "state_folder",
    ],
    "client.export_server": ["ExportServer"],
    "client.http_client": ["FhirClient"],
    "connection": ["connect"],
    "dumping": ["DumpProgress", "DumpReport", "dump"],
    "index.loading": ["LoadProgress", "LoadReport"],
    "profile": ["ARCHQA", "GCP", "HAPI", "PROFILES", "Profile"],
    "record": [
        "CodeCount",
        "Entry",
        "FhirError",
        "Page",
        "Record",
        "Resource",
        "WritableRecord",
    ],
    "server.context": ["FhirResponse"],
    "server.service": ["FhirService"],
    "sharded_store": [
        "Shard",
        "ShardedStore",
        "is_sharded",
        "split_by_patient",
    ],
    "store": ["Store"],
    "views.card": ["SchemaCard", "build_schema_card"],
    "views.encounters": ["EncounterKind", "Encounters"],
    "views.lookup": ["CodeMatch", "lookup"],
    "views.projection": ["Projection", "project", "project_all"],
    "views.resolver": ["Resolver", "display_name"],
    "write.audit": ["AuditEntry", "AuditLog"],
    "write.overlay": ["Overlay"],
    "write.validation": ["Finding"],
    "write.writer": ["WriteMode", "WriteResult", "Writer"],
}
"""Module to its public names, which are imported when they are used first."""

__getattr__ = _imported_on_use(__name__, _NAMES)


def __dir__() -> list[str]:
    return list(__all__)
