"""Fitting of the embedded engine. Run from the repository, never installed: see README.md."""
