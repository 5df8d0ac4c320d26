"""A record's tools over the Model Context Protocol: search, read, query, ask, brief."""
