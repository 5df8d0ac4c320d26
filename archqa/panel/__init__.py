"""Votes on sentences, the combiner that weighs them, and its calibration."""
