"""``python -m symfonic``."""

from symfonic.cli import main

if __name__ == "__main__":
    main()
