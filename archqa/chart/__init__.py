"""The notes of a patient's chart: indexed once, searched by words and by meaning."""
