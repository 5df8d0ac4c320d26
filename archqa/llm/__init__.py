"""One request to one model: client, cache, limits, budget, prices and structured replies."""
