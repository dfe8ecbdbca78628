"""``make house``: print the counts and renew the picture. Ends with 1 if something counts too much."""

import sys
from pathlib import Path

from tools.house.counts import counts
from tools.house.drawing import drawing

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURE = ROOT / "docs" / "images" / "house.svg"


def main() -> int:
    """Print every count beside its bound, and where there is too much of it."""
    found = counts(ROOT)
    for count in found:
        print(f"{'  ' if count.fits else '! '}{count.found:>6g}  of at most {count.most:<4g}  {count.what}")
        if not count.fits:
            print(*(f"            {place}" for place in count.where), sep="\n")
    PICTURE.write_text(drawing(ROOT), encoding="utf-8")
    print(f"drawn: {PICTURE.relative_to(ROOT)}")
    return not all(count.fits for count in found)


if __name__ == "__main__":
    sys.exit(main())
