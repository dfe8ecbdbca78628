"""Bridges to other packages. Each module names the package that it needs."""
