# ctest: name=offload_files timeout=120 labels=cli processors=2
"""Offload to files where the kernel forbids io_uring: threads read and write instead, one warning says so, the trace
too, and no bit changes. And what depends on how files are used: pieces ahead, sub-groups, what stays on the host."""

import zpp

RANKS = 2
FORBIDDEN = {"LD_PRELOAD": str(zpp.TEST_BIN / "libno_uring.so")}


class OffloadFiles(zpp.TestCase):
    def run_with(self, *words, env=None):
        """Its output, hash and counters, and the bytes of what is offloaded and in memory."""
        result = self.train(RANKS, "--deterministic", *words, env=env)
        self.assertEqual(result.code, zpp.OK, result)
        checked = zpp.check_trace(self.out / "train.h5")
        self.assertEqual(checked.code, zpp.OK, checked)
        root, groups = self.trace()
        held = {name: size for name, size in zip(groups["memory"]["name"], groups["memory"]["bytes_actual"])
                if name.startswith("offloaded_")}
        return result, root["parameters_hash"], dict(zip(groups["counters"]["name"], groups["counters"]["value"])), held

    def in_files(self, *words, **options):
        return self.run_with("--offload-optimizer", "nvme", "--offload-optimizer-nvme-path", self.folder,
                             *words, **options)

    def test_without_io_uring(self):
        _, expected, counters, held = self.run_with()
        self.assertEqual((counters.get("files", 0), held), (0, {}))
        for env in ({}, FORBIDDEN):
            result, found, counters, _ = self.in_files("--sub-group-size", 500, env=env)
            self.assertEqual(found, expected)
            self.assertEqual(counters["files"], RANKS)
            said = [line for line in result.stderr.splitlines() if zpp.NO_RING in line]
            self.assertEqual(len(said), 0 if counters.get("files_io_uring") else 1, result)
        self.assertNotIn("files_io_uring", counters)
        self.assertRegex(said[0], "io_uring")

    def test_sub_groups(self):
        """Smaller sub-groups: more transfers for the same number of elements, through less memory of the host."""
        _, one, large, much = self.in_files("--sub-group-size", 8192)
        _, other, small, little = self.in_files("--sub-group-size", 1024)
        self.assertEqual(one, other)
        self.assertGreater(small["file_reads"], 2 * large["file_reads"])
        self.assertLess(4 * little["offloaded_staging"], much["offloaded_staging"])

    def test_what_stays_on_the_host(self):
        words = ["--zero-stage", 3, "--offload-param", "nvme", "--offload-param-nvme-path", self.folder,
                 "--offload-param-max-in-cpu"]
        runs = [self.in_files(*words, count) for count in (0, 4000, "1G")]
        self.assertEqual(len({found for _, found, _, _ in runs}), 1)
        none, some, everything = ((counters["file_bytes_read"], held["offloaded_weights"])
                                  for _, _, counters, held in runs)
        self.assertGreater(none[0], some[0])
        self.assertGreater(some[0], everything[0])
        self.assertEqual(none[1], 0)
        self.assertLess(some[1], everything[1])


if __name__ == "__main__":
    zpp.main()
