"""The official combinations: one file a shared task, each with a `score` that returns `Scores`."""
