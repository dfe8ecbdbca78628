"""Beyond one process: what crosses to another one, and what it may do there."""
