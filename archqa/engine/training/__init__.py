"""Fitting of the engine and export of its weights. In the repository, not in the wheel."""
