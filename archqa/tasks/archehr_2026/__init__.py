"""ArchEHR-QA 2026: four subtasks over the same cases."""

QUESTION_INTERPRETATION = "archehr-2026-st1"
EVIDENCE_IDENTIFICATION = "archehr-2026-st2"
ANSWER_GENERATION = "archehr-2026-st3"
EVIDENCE_ALIGNMENT = "archehr-2026-st4"
