"""Extractive answers: the selected sentences, compressed, each citation on the line of its content."""
