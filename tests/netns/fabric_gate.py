# ctest: name=netns_fabric_gate timeout=120 labels=netns,nightly processors=2
"""The example of docs/operators/fabric.md: two surveys over emulated networks of other rates, and the comparison that
names the slower one. Skipped where namespaces cannot be made."""

import subprocess
import sys

import command_blocks
import zpp

PAGE = (zpp.SOURCE / "docs" / "operators" / "fabric.md").read_text()


class FabricGate(zpp.TestCase):
    def test_the_page(self):
        [block] = [block for block in command_blocks.fenced(PAGE, "sh") if "netns.py" in block]
        folder = command_blocks.clone(self.folder)
        (folder / "jobscripts").symlink_to(zpp.SOURCE / "jobscripts")
        done = zpp.Process(["bash", "-c", block.replace("validation/zpp-validate",
                                                        f"{sys.executable} validation/zpp-validate")],
                           cwd=folder).end(timeout=100)
        self.assertEqual(done.code, zpp.INVALID, done)
        for kind in ("inter-node", "rail"):
            self.assertRegex(done.stderr, rf"{kind} transfer: the class is slower, \d+\.\d+ times", done)


if __name__ == "__main__":
    zpp.skip_without_open_mpi("jobscripts/local/netns.py")
    probe = subprocess.run([sys.executable, zpp.SOURCE / "jobscripts" / "local" / "netns.py", "--ranks-per-host", "1",
                            "true"],
                           capture_output=True, text=True, timeout=60, check=False)
    if probe.returncode == zpp.SKIPPED:
        print(probe.stderr.strip())
        sys.exit(zpp.SKIPPED)
    zpp.main()
