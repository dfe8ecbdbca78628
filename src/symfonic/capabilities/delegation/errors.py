"""A door to the part of the error tree that delegation raises."""

from symfonic.errors import ChildDeclarationError, ConfigurationError, DelegationError, SymfonicError, UnknownChildError

__all__ = ["ChildDeclarationError", "ConfigurationError", "DelegationError", "SymfonicError", "UnknownChildError"]
