"""ReFrame's command line with three differences: SIGTERM ends it as Ctrl-C does, so that it cancels its jobs; a session in
which no check ran does not pass; and the log that it begins before it has read its settings is removed.

usage: python session.py REPORT REFRAME_ARGUMENT...
REPORT is the file of --report-file. Exit codes: 0 every check passed, 1 one failed or ReFrame was interrupted, 2 none ran.
"""

import json
import pathlib
import signal
import sys
import tempfile

import reframe.frontend.cli


def main():
    report = pathlib.Path(sys.argv.pop(1))
    report.unlink(missing_ok=True)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started this with SIGINT ignored
    with tempfile.TemporaryDirectory(dir=report.parent, prefix=".begin-") as folder:
        tempfile.tempdir = folder
        try:
            code = reframe.frontend.cli.main()
        except SystemExit as end:
            code = end.code
    if code or "--run" not in sys.argv:
        return code
    if report.exists() and json.loads(report.read_text(encoding="utf-8"))["session_info"]["num_cases"] > 0:
        return 0
    print("reframe: error: no check ran: none fits the system and the names that were given (try --list)", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
