"""A fault campaign: random trees of failing children, checked against what a tree of runs promises."""
