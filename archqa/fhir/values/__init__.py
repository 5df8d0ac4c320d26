"""FHIR values: dates, references, texts, URLs, search parameters.

Knows nothing of files or servers.
"""
