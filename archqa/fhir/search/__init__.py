"""FHIR search (hl7.org/fhir/R4/search.html): parse a query, compile it to SQL, run it."""
