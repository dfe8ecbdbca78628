"""The embedded default model: a deterministic router that understands no language."""

from symfonic.models.offline.router import OfflineModel

__all__ = ["OfflineModel"]
