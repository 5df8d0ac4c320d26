"""Writes to a record: validation, modes, audit log, and an overlay that can be reset."""
