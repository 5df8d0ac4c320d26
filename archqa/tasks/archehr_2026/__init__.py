"""ArchEHR-QA 2026: four subtasks over the same cases."""
