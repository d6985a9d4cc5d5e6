# ctest: name=slurm_start timeout=120 labels=slurm,nightly
"""The start of the local Slurm (jobscripts/local/two_node_slurm.sh): it needs no cgroup file system, and the error of a
daemon that does not start ends with the reason from the daemon's log."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import slurm_cluster

FAILING_SLURMD = """#!/bin/sh
if [ "$1" = -V ]; then echo slurm-wlm 22.05.8; exit 0; fi
echo "fatal: planted reason" >>"$(dirname "$2")/$4/slurmd.log"
exit 1
"""

def setUpModule():
    slurm_cluster.need_programs()


class Start(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zpp-slurm-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.folder.chmod(0o755)  # munged wants a socket that all may reach
        self.words = [str(slurm_cluster.CLUSTER), "--state", str(self.folder / "state")]

    def run_words(self, *words, **settings):
        return subprocess.run(words, capture_output=True, text=True, timeout=slurm_cluster.PATIENCE,
                              check=False, **settings)

    def test_without_a_cgroup_file_system(self):
        hidden = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"]
        if self.run_words(*hidden, "true").returncode != 0:
            self.skipTest("hiding /sys/fs/cgroup needs a mount namespace")
        done = self.run_words(*hidden, *self.words, "run", "sinfo", "--noheader", "--format=%D %t")
        self.assertEqual((done.returncode, done.stdout.strip()), (0, "2 idle"), done)

    def test_the_reason_is_the_last_line_of_the_log(self):
        programs = self.folder / "bin"
        programs.mkdir()
        slurmd = programs / "slurmd"
        slurmd.write_text(FAILING_SLURMD)
        slurmd.chmod(0o755)
        self.addCleanup(self.run_words, *self.words, "stop")
        done = self.run_words(*self.words, "start", env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        self.assertEqual((done.returncode, done.stderr),
                         (3, "two_node_slurm: error: slurmd of zpp1 does not start: fatal: planted reason\n"), done)
        self.assertFalse((self.folder / "state").exists())


if __name__ == "__main__":
    unittest.main()
