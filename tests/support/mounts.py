"""Runs with their output on a tmpfs of their own, in a mount namespace; needs root. What may not mount is skipped, and says so."""

import os
import shlex
import shutil
import unittest

import zpp


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("unshare"), "mounts need root and unshare")
class MountCase(zpp.TestCase):
    def inside(self, options, script, *words, ranks=2, at_line=None, after=":"):
        """zpp_train with self.out on a tmpfs with `options`, beside the shell's `script`; prints what is left there, and what `after` says.
        With `at_line`, what once_running() made starts when the program prints it."""
        self.out.mkdir()
        command = zpp.MPIRUN + ["-n", str(ranks), *zpp.train_command(*words, out=self.out)]
        text = (f'out={shlex.quote(str(self.out))}; mount -t tmpfs -o {options} tmpfs "$out" || exit 77; {script}\n'
                f'"$@"; code=$?; ls -A "$out"; {after}; exit $code')
        process = zpp.Process(["unshare", "--mount", "/bin/sh", "-c", text, "sh", *command])
        self.addCleanup(process.stop)
        before = self.wait_for(process, at_line) if at_line is not None else ""
        result = process.end()
        if not self.mounted(result.code, result.stderr):
            self.skipTest("mounting is not allowed here")
        result.stdout = before + result.stdout
        return result

    def mounted(self, code, stderr):
        return code != zpp.SKIPPED and "unshare:" not in stderr

    def wait_for(self, process, line):
        try:
            found = process.wait_for_line(line)
        except AssertionError as ended:
            if not self.mounted(process.process.wait(), str(ended)):
                self.skipTest("mounting is not allowed here")
            raise
        self.go().touch()
        return found

    def go(self):
        return self.folder / "go"

    def once_running(self, script):
        """For inside(): `script` beside the program, from the line on."""
        return f'(until [ -e {shlex.quote(str(self.go()))} ]; do sleep 0.02; done; {script}) 2>/dev/null &'
