"""The record: FHIR resources in a file beside us or on a server, searched as FHIR says (hl7.org/fhir/R4/search.html).

    from archqa.fhir import Store
    store = Store.open("record.db", create=True)
    store.load(["mimic-fhir/"])
    store.search("Observation?patient=…&code=50912&_sort=-date").resources

`connect(place)` opens a file or a server; both are a `Record`.
"""

from archqa.fhir.audit import AuditEntry, AuditLog
from archqa.fhir.base import CodeCount, Creator, Entry, Page, Record, Resource
from archqa.fhir.card import SchemaCard, card
from archqa.fhir.client import Client
from archqa.fhir.connecting import connect
from archqa.fhir.encounters import EncounterKind, Encounters
from archqa.fhir.loading import LoadProgress, LoadReport
from archqa.fhir.lookup import Hit, lookup
from archqa.fhir.outcome import FhirError
from archqa.fhir.overlay import Overlay
from archqa.fhir.profile import ARCHQA, GCP, HAPI, PROFILES, Profile
from archqa.fhir.projection import Projection, project, project_all
from archqa.fhir.resolver import Resolver, name_of
from archqa.fhir.service import Reply, Service
from archqa.fhir.sharded import Shards, is_sharded
from archqa.fhir.splitting import Shard, split
from archqa.fhir.store import Store
from archqa.fhir.validation import Finding
from archqa.fhir.writing import Mode, Writer, Written

__all__ = [
    "ARCHQA",
    "GCP",
    "HAPI",
    "PROFILES",
    "AuditEntry",
    "AuditLog",
    "Client",
    "CodeCount",
    "Creator",
    "EncounterKind",
    "Encounters",
    "Entry",
    "FhirError",
    "Finding",
    "Hit",
    "LoadProgress",
    "LoadReport",
    "Mode",
    "Overlay",
    "Page",
    "Profile",
    "Projection",
    "Record",
    "Reply",
    "Resolver",
    "Resource",
    "SchemaCard",
    "Service",
    "Shard",
    "Shards",
    "Store",
    "Writer",
    "Written",
    "card",
    "connect",
    "is_sharded",
    "lookup",
    "name_of",
    "project",
    "project_all",
    "split",
]
