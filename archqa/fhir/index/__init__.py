"""How resources become a searchable file: reading, extraction, index batches and shards."""
