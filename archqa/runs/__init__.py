"""Doing a benchmark, and the folder it leaves behind."""
