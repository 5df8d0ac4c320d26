"""Runs of a pipeline on a case file, and their folders."""
