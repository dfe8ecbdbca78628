"""What a runtime may be given. Each capability stands beside the runtime and knows only contracts."""
