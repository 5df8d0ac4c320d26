"""Values of resources as search sees them: dates, tokens, references, paths."""
