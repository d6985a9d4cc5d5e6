"""The tree that the scripts of this folder read: the one that CTest names, or by hand the one that they lie in."""

import os
import sys
from pathlib import Path

SOURCE = Path(os.environ.get("ZEROPP_SOURCE") or Path(__file__).resolve().parents[3])


def programs():
    """The folder of the programs, which nobody but its user knows where it is not named: ends with one line then."""
    named = os.environ.get("ZEROPP_BIN")
    if not named:
        sys.exit(f"{Path(sys.argv[0]).name} reads a build folder: set ZEROPP_BIN to its bin, as in "
                 f"ZEROPP_BIN={SOURCE / 'build' / 'bin'}")
    return Path(named)
