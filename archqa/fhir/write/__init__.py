"""Writes to a record: validation, writer, overlay, audit log."""
