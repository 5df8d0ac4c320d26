"""A FHIR server over a record: requests and replies, Bundles, ASGI application."""
