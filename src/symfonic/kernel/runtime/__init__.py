"""Runs an agent: a registry that freezes, a plan that never changes, and the turn loop. Knows contracts only."""
