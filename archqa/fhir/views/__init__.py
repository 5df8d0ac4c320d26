"""Compact views of a record: schema card, code lookup, projections, encounters, references."""
