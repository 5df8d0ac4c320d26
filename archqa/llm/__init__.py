"""One question to one model: what is asked, what comes back, what it costs, and never paying twice."""
