"""python3 -m zpp_validate: the same as zpp-validate."""

import sys

from zpp_validate import cli

sys.exit(cli.main(["zpp-validate", *sys.argv[1:]]))
