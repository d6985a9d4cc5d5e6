# ctest: name=netns_fabric_hosts timeout=120 labels=netns,nightly processors=2
"""zpp_fabric on four emulated hosts, of which one sends slowly: --good-hosts has the other three, and the output the
command that drains the slow one. Skipped where namespaces cannot be made."""

import json
import subprocess
import sys

import zpp

NETNS = [sys.executable, zpp.SOURCE / "jobscripts" / "local" / "netns.py"]
SLOW = 2
# The rank of the slow host shapes what its host sends before it becomes zpp_fabric.
START = """
if [ "$OMPI_COMM_WORLD_RANK" = "$0" ]; then
  tc qdisc replace dev eth0 root tbf rate 100mbit burst 128kb latency 1s || exit 99
fi
exec "$@"
"""


class FabricHosts(zpp.TestCase):
    def test_the_slow_host_is_left_out(self):
        good, found = self.folder / "good", self.folder / "fabric.json"
        words = ["--backend", "host", "--fabric-bytes", "256K", "--fabric-threshold", "2", "--good-hosts", good,
                 "--json", found]
        done = zpp.Process([*NETNS, "--hosts", "4", "--ranks-per-host", "1", "--rate", "1gbit", "--", "bash", "-c",
                            START, str(SLOW), zpp.BIN / "zpp_fabric", *words], cwd=self.folder).end(timeout=100)
        self.assertEqual(done.code, zpp.INVALID, done)
        report = json.loads(found.read_text())
        hosts = report["provenance"]["ranks"]["host"]
        self.assertEqual(len(set(hosts)), 4)
        self.assertEqual(good.read_text().split(), [host for host in hosts if host != hosts[SLOW]], done)
        self.assertTrue(report["hosts"]["exact"])
        [bad] = report["hosts"]["bad"]
        self.assertEqual(bad["host"], hosts[SLOW])
        self.assertIn(f"rank {SLOW} ({hosts[SLOW]}) is slow on 3 of its 3 inter-node links: bandwidth", bad["reason"])
        self.assertIn(f"# --exclude={hosts[SLOW]}\n# scontrol update nodename={hosts[SLOW]} state=drain reason=",
                      done.stdout)


if __name__ == "__main__":
    zpp.skip_without_open_mpi("jobscripts/local/netns.py")
    probe = subprocess.run([*NETNS, "--ranks-per-host", "1", "true"], capture_output=True, text=True, timeout=60,
                           check=False)
    if probe.returncode == zpp.SKIPPED:
        print(probe.stderr.strip())
        sys.exit(zpp.SKIPPED)
    zpp.main()
