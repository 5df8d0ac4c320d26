"""Compact views of a record: schema card, lookup by name, projections, encounters."""
