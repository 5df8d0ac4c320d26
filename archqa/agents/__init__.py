"""Agents, one a file (a prompt, a task type, an output type, a check), and the backends that run
them.
"""
