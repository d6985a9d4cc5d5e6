"""ReFrame's command line; SIGTERM ends it as Ctrl-C does, so that it cancels its jobs.

usage: python interruptible_reframe.py REFRAME_ARGUMENT...
Exit codes are those of ReFrame: 0 every check passed, 1 one failed or it was interrupted.
"""

import signal
import sys

import reframe.frontend.cli

signal.signal(signal.SIGTERM, signal.default_int_handler)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started this with SIGINT ignored
sys.exit(reframe.frontend.cli.main())
