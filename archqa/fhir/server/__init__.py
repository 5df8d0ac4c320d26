"""A FHIR server over a record: HTTP, bundles, capability statement."""
