"""A web server for the report's pages, reviews, and questions (extra `web`)."""
