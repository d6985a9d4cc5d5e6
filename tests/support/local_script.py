"""Cases for the tests of the studies in jobscripts/local/: calls of the script, and of it with --dry-run."""

import pathlib
import shlex
import subprocess
import sys

import zpp


def run(*words, **options):
    return subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=240, **options)


def whole_help(*program):
    """Help with all flags: --help-all of our programs; tools in Python have --help alone."""
    word = "--help-all" if pathlib.Path(program[0]).parent == zpp.BIN else "--help"
    done = run(*program, word)
    assert done.returncode == 0, done
    return done.stdout


def option(command, flag):
    return command[command.index(flag) + 1] if flag in command else None


class TestCase(zpp.TestCase):
    """A subclass names its `script_path`; results go to self.folder / "results" / "here"."""

    script_path = None

    def script(self, *words):
        return run(self.script_path, "--build", zpp.BIN.parent, "--results", self.folder / "results",
                   "--machine", "here",
                   "--table-python", sys.executable, *words)

    def dry_run(self, *words):
        """The commands that it would run, as words; it leaves nothing."""
        done = self.script("--dry-run", *words)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)
        self.assertFalse((self.folder / "results").exists())
        return [shlex.split(line) for line in done.stdout.splitlines()]
