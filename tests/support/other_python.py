"""For tests that need modules that the Python of the other tests may lack."""

import importlib.util
import os
import sys

SKIPPED = 77


def with_modules(*names):
    """Continues in the Python that ZEROPP_TORCH_PYTHON names if this one lacks one of these modules. Skips the test if
    that one lacks it too."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        other = os.environ.pop("ZEROPP_TORCH_PYTHON", None)
        if other:
            os.execv(other, [other, *sys.argv])
        print(f"skipped: {sys.executable} has no module {', '.join(missing)}: run ./check --torch, or set "
              "ZEROPP_TORCH_PYTHON to a Python that has it")
        sys.exit(SKIPPED)
