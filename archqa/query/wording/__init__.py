"""Queries and answers in English."""
