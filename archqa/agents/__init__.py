"""One agent a file: a prompt, what it takes, what it returns, and what it checks."""
