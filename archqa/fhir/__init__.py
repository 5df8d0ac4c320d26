"""A FHIR record in a file or on a server, searched as FHIR defines (hl7.org/fhir/R4/search.html).

    from archqa.fhir import Store
    store = Store.open("record.db", create=True)
    store.load(["mimic-fhir/"])
    store.search("Observation?patient=…&code=50912&_sort=-date").resources

`connect(path_or_url)` opens a file or a server; both are a `Record`.
"""

import typing as _typing

if _typing.TYPE_CHECKING:
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
    from archqa.fhir.index.load_report import LoadProgress, LoadReport
    from archqa.fhir.outcome import FhirError
    from archqa.fhir.profile import ARCHQA, GCP, HAPI, PROFILES, Profile
    from archqa.fhir.record import CodeCount, Entry, Page, Record, Resource, WritableRecord
    from archqa.fhir.server.context import FhirResponse
    from archqa.fhir.server.service import FhirService
    from archqa.fhir.sharded_store import ShardedStore, is_sharded
    from archqa.fhir.splitting import Shard, split_by_patient
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

_MODULES = {
    "ARCHQA": "archqa.fhir.profile",
    "GCP": "archqa.fhir.profile",
    "HAPI": "archqa.fhir.profile",
    "PROFILES": "archqa.fhir.profile",
    "AuditEntry": "archqa.fhir.write.audit",
    "AuditLog": "archqa.fhir.write.audit",
    "CodeCount": "archqa.fhir.record",
    "CodeMatch": "archqa.fhir.views.lookup",
    "DumpProgress": "archqa.fhir.dumping",
    "DumpReport": "archqa.fhir.dumping",
    "EncounterKind": "archqa.fhir.views.encounters",
    "Encounters": "archqa.fhir.views.encounters",
    "Entry": "archqa.fhir.record",
    "ExportOrder": "archqa.fhir.bulk_import",
    "ExportServer": "archqa.fhir.client.export_server",
    "FhirClient": "archqa.fhir.client.http_client",
    "FhirError": "archqa.fhir.outcome",
    "FhirResponse": "archqa.fhir.server.context",
    "FhirService": "archqa.fhir.server.service",
    "Finding": "archqa.fhir.write.validation",
    "ImportProgress": "archqa.fhir.bulk_import",
    "ImportReport": "archqa.fhir.bulk_import",
    "LoadProgress": "archqa.fhir.index.loading",
    "LoadReport": "archqa.fhir.index.loading",
    "Overlay": "archqa.fhir.write.overlay",
    "Page": "archqa.fhir.record",
    "Profile": "archqa.fhir.profile",
    "Projection": "archqa.fhir.views.projection",
    "Record": "archqa.fhir.record",
    "Resolver": "archqa.fhir.views.resolver",
    "Resource": "archqa.fhir.record",
    "SchemaCard": "archqa.fhir.views.card",
    "Shard": "archqa.fhir.splitting",
    "ShardedStore": "archqa.fhir.sharded_store",
    "Store": "archqa.fhir.store",
    "WritableRecord": "archqa.fhir.record",
    "WriteMode": "archqa.fhir.write.writer",
    "WriteResult": "archqa.fhir.write.writer",
    "Writer": "archqa.fhir.write.writer",
    "build_schema_card": "archqa.fhir.views.card",
    "connect": "archqa.fhir.connection",
    "display_name": "archqa.fhir.views.resolver",
    "dump": "archqa.fhir.dumping",
    "import_export": "archqa.fhir.bulk_import",
    "is_sharded": "archqa.fhir.sharded_store",
    "lookup": "archqa.fhir.views.lookup",
    "project": "archqa.fhir.views.projection",
    "project_all": "archqa.fhir.views.projection",
    "split_by_patient": "archqa.fhir.splitting",
    "state_folder": "archqa.fhir.bulk_import",
}
"""Public name to its module."""


def __getattr__(name: str) -> object:
    """Import a public name when it is used first: the engine and the settings need few of them."""
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'archqa.fhir' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
