"""The index file: reading resources, extracting index rows, loading them in batches."""
