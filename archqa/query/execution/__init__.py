"""From a typed query to its rows, values and supporting resources."""
