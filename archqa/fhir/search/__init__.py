"""FHIR search (hl7.org/fhir/R4/search.html): parse a query, evaluate it, shape its result."""
