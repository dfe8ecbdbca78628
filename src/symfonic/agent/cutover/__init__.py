"""The composition root: the only place that knows both the runtime and delegation, and plugs one into the other."""
