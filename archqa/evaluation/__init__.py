"""Scoring of runs: references, baselines, comparison, judges, ablation and tuning."""
