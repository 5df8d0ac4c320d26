"""The report's pages, live over a folder of runs, and a form to ask a question (extra `web`)."""
