"""A task: statements that are true or false."""
