"""The house drawn and counted from its own code: `python -m tools.house`, or ``make house``."""
