"""Runs through the Batch API, one stage at a time."""
