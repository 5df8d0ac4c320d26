"""The words of the field as frozen values: no input, no output."""
