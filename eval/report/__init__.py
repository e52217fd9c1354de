"""One page on one or more runs: read their folders, draw, fill a template. Nothing here writes into a run's folder."""
