"""ArchEHR-QA 2025: cited answers to patients' questions about a clinical note."""

NAME = "archehr-2025"
