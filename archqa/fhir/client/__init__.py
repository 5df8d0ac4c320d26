"""A FHIR server as a record: requests, paging, SMART backend authorisation."""
