"""Execution of a typed query: its rows, its answer and the resources that support the answer."""
