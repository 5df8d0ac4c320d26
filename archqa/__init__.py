"""Answers a question from the patient's own record and shows, for every claim, the evidence it rests on."""

__version__ = "0.1.0"
