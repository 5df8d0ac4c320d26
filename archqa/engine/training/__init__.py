"""Fitting the engine and exporting its weights. In the repository, not in the wheel."""
