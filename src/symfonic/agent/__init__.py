"""The doors (facade, engine) and, behind them, the composition root (cutover)."""
