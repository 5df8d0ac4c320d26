"""The text of clinical notes: sentences, sections, terminology."""
