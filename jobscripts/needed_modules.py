#!/usr/bin/env python3
"""Which Python modules are missing: what a script needs after its runs, it asks for before them.

usage: needed_modules.py MODULE...

Prints those that this Python cannot import, a line each; nothing where it has all.
"""

import importlib
import sys


def missing(names):
    """The modules of `names` that cannot be imported here."""
    found = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            found.append(name)
    return found


if __name__ == "__main__":
    print(*missing(sys.argv[1:]), sep="\n", end="")
