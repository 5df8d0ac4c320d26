"""Scoring of runs: references, baselines, comparison, judges and ablation."""
