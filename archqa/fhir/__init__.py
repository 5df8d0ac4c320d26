"""A FHIR record in a file or on a server, searched as FHIR defines (hl7.org/fhir/R4/search.html).

    from archqa.fhir import Store
    store = Store.open("record.db", create=True)
    store.load(["mimic-fhir/"])
    store.search("Observation?patient=…&code=50912&_sort=-date").resources

`connect(path_or_url)` opens a file or a server; both are a `Record`.
"""

from archqa.fhir.client.http_client import FhirClient
from archqa.fhir.connection import connect
from archqa.fhir.index.loading import LoadProgress, LoadReport
from archqa.fhir.outcome import FhirError
from archqa.fhir.profile import ARCHQA, GCP, HAPI, PROFILES, Profile
from archqa.fhir.record import CodeCount, Entry, Page, Record, Resource, WritableRecord
from archqa.fhir.server.service import FhirResponse, FhirService
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
    "EncounterKind",
    "Encounters",
    "Entry",
    "FhirClient",
    "FhirError",
    "FhirResponse",
    "FhirService",
    "Finding",
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
    "is_sharded",
    "lookup",
    "project",
    "project_all",
    "split_by_patient",
]
