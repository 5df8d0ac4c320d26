"""The street side: one command a file; arguments in, one library call, words out."""
