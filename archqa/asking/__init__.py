"""Questions of people about a note, a record or a chart, each answered with its evidence."""
