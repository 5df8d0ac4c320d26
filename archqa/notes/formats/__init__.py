"""From the bytes of a file to the text of a note, one format a module."""
