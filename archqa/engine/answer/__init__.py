"""Extractive answers: selected sentences, compressed, with each citation on its line."""
