# ctest: name=algorithm_table labels=cli timeout=180 processors=2
"""`auto` takes the algorithms that a sweep found to be the fastest: the choice is worked out again from the sweep's
JSON, the trace names it, and the run is that of the same names without a table; a table of other ranks is refused."""

import json

import zpp

FEATURES = ["--zero-quantized-weights", "--zero-hpz-partition-size", 2, "--zero-quantized-gradients"]
# The option, and what is asked of the sweep for it.
CHOICES = {"all_gather_algorithm": ("all_gather", "int8:256", "world"),
           "secondary_gather_algorithm": ("all_gather", "none", "node"),
           "reduce_scatter_algorithm": ("reduce_scatter", "int4:128", "world")}


def at(times, size):
    """Of {size: time}: in proportion between neighbours, and beyond the largest."""
    if size in times:
        return times[size]
    below, above = [s for s in times if s < size], [s for s in times if s > size]
    if not below:
        return times[min(above)]
    low = max(below)
    if not above:
        return times[low] * size / low
    high = min(above)
    return times[low] + (times[high] - times[low]) * (size - low) / (high - low)


class AlgorithmTable(zpp.TestCase):
    def sweep(self, node_size):
        path = self.folder / f"sweep{node_size}.json"
        words = [zpp.BIN / "zpp_sweep", "-b", "4K", "-e", "64K", "-f", 4, "-n", 20, "-N", 5, "--collective",
                 "all_gather,reduce_scatter", "--codec", "none,int8:256,int4:128", "--algorithm", "all",
                 "--group", "world,node",
                 "--node-size", node_size, "--backend", "host", "--json", path]
        self.check_ok(zpp.launch([(4, [str(word) for word in words])], cwd=self.folder, patient=True).end())
        (self.folder / "sweep.h5").unlink()  # a refused run leaves no trace
        return path

    def run_with(self, *words):
        self.check_ok(self.train(4, "--node-size", 2, *FEATURES, *words))
        root, _ = self.trace()
        own = json.loads(root["config_json"])["zeropp"]
        return root, {option: own[option] for option in CHOICES}, own

    def test_the_fastest_of_the_sweep_run(self):
        path = self.sweep(2)
        rows = json.loads(path.read_text())["results"]
        root, chosen, own = self.run_with("--algorithm-table", path)
        self.assertNotIn("algorithm_table", own)  # the names are what is in effect
        hidden = own["model"]["hidden_size"]
        size = 4 * (12 * hidden * hidden + 13 * hidden)  # a block's weights and biases, in fp32
        for option, (collective, codec, group) in CHOICES.items():
            times = {}
            for row in rows:
                if (row["collective"], row["codec"], row["group"]) == (collective, codec, group):
                    times.setdefault(row["algorithm"], {})[row["size"]] = row["out_of_place"]["p50"]
            self.assertGreater(len(times), 1, option)
            self.assertEqual(chosen[option], min(times, key=lambda name: at(times[name], size)), (option, times))
        words = [word for option, name in chosen.items() for word in ("--" + option.replace("_", "-"), name)]
        again, named, _ = self.run_with(*words)
        self.assertEqual((named, again["config_hash"]), (chosen, root["config_hash"]))

    def test_a_table_of_other_ranks_is_refused(self):
        done = self.train(4, "--node-size", 4, "--algorithm-table", self.sweep(2))
        self.check_fails(done, 2, "2 x 2 ranks on host over mpi, pipeline depth 1, this run has 1 x 4")


if __name__ == "__main__":
    zpp.main()
