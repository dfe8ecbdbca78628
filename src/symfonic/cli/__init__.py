"""The command line: ``symfonic run`` and ``symfonic show``. It uses what users may use, and typer and rich."""

import sys

__all__ = ["main"]


def main() -> None:
    """Run the command line and exit.

    The exit status is 0 when the run delivered an answer, 1 when it failed, 2 for a mistake in the command or
    in the team file, 130 after Ctrl-C.
    """
    try:
        import rich  # noqa: F401  (both are asked for here, so that one line can say what is missing)
        import typer  # noqa: F401
    except ImportError as error:
        extra = 'pip install "symfonic-delegation[cli]"'
        print(f"symfonic: the command line needs typer and rich ({error}): {extra}", file=sys.stderr)
        raise SystemExit(2) from None
    try:
        from symfonic.cli.app import app
        from symfonic.cli.streams import never_fail_to_encode

        never_fail_to_encode()
        app(prog_name="symfonic")
    except KeyboardInterrupt:  # before a command took charge of it
        raise SystemExit(130) from None
