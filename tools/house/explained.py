"""What would count against the house, and why it is there."""

ANY: dict[str, str] = {}

DUPLICATES: dict[str, str] = {}
