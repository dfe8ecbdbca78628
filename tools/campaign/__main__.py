"""`python -m tools.campaign`."""

import sys

from tools.campaign.run import main

sys.exit(main())
