"""The version of archqa, which packaging, run folders, servers and exports name."""

__version__ = "0.1.0"
