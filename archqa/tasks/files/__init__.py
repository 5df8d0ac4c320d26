"""Reading case files: XML, JSON, CSV, JSON Lines and Parquet, with all mistakes of a file at once."""
