"""Team files: agents and who delegates to whom, written down in TOML.

A file is parsed, validated and built, in that order and in modules of those names; all its mistakes are found
before anything runs, and each is one line of a `TeamFileError`.
"""

from symfonic.teams.team import Team, load_team

__all__ = ["Team", "load_team"]
