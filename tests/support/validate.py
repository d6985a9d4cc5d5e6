"""zpp-validate in this process: starting Python and importing NumPy take longer than most of its commands."""

import contextlib
import io
import subprocess

import zpp_validate.cli


def run(*words, cwd="."):
    """The command with these words as subprocess.run() would give it: exit code and what it wrote. `cwd`: the folder it
    runs in. No other thread may write, or depend on the folder, meanwhile."""
    words = [zpp_validate.cli.PROGRAM, *map(str, words)]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(cwd):
        try:
            code = zpp_validate.cli.main(words)
        except SystemExit as ended:  # of the parser
            code = ended.code
    return subprocess.CompletedProcess(words, code or 0, out.getvalue(), err.getvalue())
