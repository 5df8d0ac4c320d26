"""The vocabulary of the domain as frozen values; no input or output."""
