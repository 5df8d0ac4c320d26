"""Extractive answers: selected sentences, compressed, with each citation on the line it supports."""
