# ctest: name=scripts_help timeout=60 labels=cli
"""--help of every shell script of jobscripts/ prints the whole comment at its head, to the last line, which ends a
sentence."""

import os
import subprocess

import local_script
import zpp


def head_of(path):
    """The lines of the comment after the first line, without the lines for other programs."""
    lines = []
    for line in path.read_text().splitlines()[1:]:
        if line != "#" and not line.startswith("# "):
            break
        lines.append(line[2:])
    return [line for line in lines if not line.startswith("shellcheck ")]


def scripts():
    """The scripts that are started, without scripts that others source."""
    listed = subprocess.run(["git", "-c", f"safe.directory={zpp.SOURCE}", "ls-files", "jobscripts"],
                            cwd=zpp.SOURCE, check=True,
                            capture_output=True, text=True).stdout.split()
    shell = [zpp.SOURCE / name for name in listed
             if (zpp.SOURCE / name).read_text().startswith(("#!/usr/bin/env bash", "#!/bin/sh"))]
    return [path for path in shell if "o be sourced" not in " ".join(head_of(path)) and path.name != "job.sh"]


class ScriptsHelp(zpp.TestCase):
    def test_the_head_is_printed_to_its_end(self):
        found = scripts()
        self.assertGreaterEqual({path.name for path in found},
                                {"submit", "regression.sh", "run.sh", "two_node_slurm.sh", "fabric.sbatch"})
        self.assertGreater(len(found), 14)
        for path in found:
            with self.subTest(path.name):
                done = local_script.run("bash", path, "--help", cwd=zpp.SOURCE,
                                        env={**os.environ, "SLURM_SUBMIT_DIR": str(zpp.SOURCE)})
                self.assertEqual((done.returncode, done.stderr), (zpp.OK, ""), done)
                printed = done.stdout.splitlines()
                self.assertEqual([line for line in head_of(path) if line not in printed], [])
                self.assertTrue(done.stdout.endswith(".\n"), done.stdout[-200:])


if __name__ == "__main__":
    zpp.main()
