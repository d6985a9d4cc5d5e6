# ctest: name=plan_compare timeout=300 labels=cli processors=2
"""zpp_plan compare has the numbers that zpp_plan, time and breakeven have alone, with a cluster file, with a GPU as it
is sold and without either, of hybrid sharding too; it takes a DeepSpeed configuration whatever that says of ZeRO++, and
a model by flags, name or config.json of Hugging Face."""

import json
import re

import planned
import zpp

CLUSTERS = zpp.SOURCE / "inputs" / "clusters"
CLUSTER = ["--cluster", CLUSTERS / "h200-dgx.json"]
SOLD = ["--gpu", "h100", "--node-gbit", "400"]
MODEL = ["--num-layers", "6", "--hidden-size", "2048", "--num-attention-heads", "16", "--seq-length", "512",
         "--vocab-size", "50257"]
JOB = [*MODEL, "--bf16", "--nodes", "4", "--gradient-accumulation-steps", "4"]
QWZ, HPZ, QGZ = ["--zero-quantized-weights"], ["--zero-hpz-partition-size", "8"], ["--zero-quantized-gradients"]
FLAGS = {"none": [], "qwZ": QWZ, "hpZ": HPZ, "qgZ": QGZ, "qwZ+qgZ": [*QWZ, *QGZ], "hpZ+qgZ": [*HPZ, *QGZ],
         "all": [*QWZ, *HPZ, *QGZ]}
HYBRID = ["--shard-group-size", "8"]
HYBRIDS = {"hybrid": HYBRID, "hybrid+qgZ": [*HYBRID, *QGZ]}
DIFFERENCES = {"all+differences": [*FLAGS["all"], "--weight-differences"]}
EXACT = {"hpZ+exact": [*HPZ, "--weight-differences", "--exact-differences"]}
EXACT["hpZ+qgZ+exact"] = [*EXACT["hpZ+exact"], *QGZ]
INT8 = ["--gradient-codec-intra", "int8:256", "--gradient-codec-inter", "int8:256"]
EXACT["hpZ+qgZ+exact+int8"] = [*EXACT["hpZ+qgZ+exact"], *INT8]
STAGES = {"stage 2": ["--zero-stage", "2"], "stage 1": ["--zero-stage", "1"]}
OTHERS = {**DIFFERENCES, **EXACT, **HYBRIDS, **STAGES}
SHOWN = {"none": "ZeRO-3/FSDP2", "all": "ZeRO++ (all)", "all+differences": "+differences", "hybrid": "hybrid",
         "hpZ+exact": "+exact", "hpZ+qgZ+exact": "+exact +qgZ",
         "hpZ+qgZ+exact+int8": "+exact +int8", "hybrid+qgZ": "hybrid +qgZ",
         "stage 2": "stage 2", "stage 1": "stage 1"}
UNCOMPRESSED = ["none", "hpZ", "hybrid", "stage 2", "stage 1"]
LOSSLESS = [*UNCOMPRESSED, "hpZ+exact"]
FASTEST = re.compile(r"\nThe fastest row that fits( and a release of DeepSpeed runs)? is (.*): "
                     r"(\d+\.\d\d) times as fast as ZeRO-3\.\n")
WITHOUT = re.compile(r"\nWithout lossy codecs it is (.*): (\d+\.\d\d) times\.\n")
VENDORS = ["--all-gather-algorithm", "native", "--reduce-scatter-algorithm", "native"]
# The files of inputs/clusters that are of sold machines: how each is made.
SOLD_FILES = {
    "hgx-a100": ["--gpu", "a100", "--node-gbit", "1600", "--node-links", "8"],
    "hgx-b200": ["--gpu", "b200", "--node-gbit", "3200", "--node-links", "8"],
    "hgx-h100": ["--gpu", "h100", "--node-gbit", "3200", "--node-links", "8"],
    "l40s-ethernet": ["--gpu", "l40s", "--node-gbit", "100"],
    "aws-p4d": ["--gpu", "a100-40gb", "--node-gbit", "400", "--node-links", "4"],
    "aws-p5": ["--gpu", "h100", "--node-gbit", "3200", "--node-links", "32"],
}


class Case(planned.Program):
    def told(self, *words):
        """(result, JSON)"""
        path = self.folder / "told.json"
        result = self.plan(*words, "--output", self.out, "--json", path)
        self.assertEqual(result.code, zpp.OK, result)
        return result, json.loads(path.read_text())

    def compared(self, *words):
        """(result, {feature: row})"""
        result, told = self.told("compare", *words)
        _, lines, text = result.stdout.split("\n\n")
        for line in lines.splitlines():
            self.assertLessEqual(len(line), 120, line)
        table = told["comparison"]
        return result, {feature: {name: values[index] for name, values in table.items()}
                        for index, feature in enumerate(table["feature"])}

    def table(self, result):
        """{row as shown: {column: cell}}"""
        header, _, *lines = result.stdout.split("\n\n")[1].splitlines()
        names = re.split(r" {2,}", header)
        return {cells[0]: dict(zip(names, cells)) for cells in (re.split(r" {2,}", line) for line in lines)}

    def refused(self, *words, parts, code=zpp.USAGE):
        return super().refused("compare", *words, parts=parts, code=code)


class Numbers(Case):
    def check_bytes(self, rows, *words):
        self.assertEqual(list(rows), [*FLAGS, *OTHERS])
        for feature, flags in {**FLAGS, **OTHERS}.items():
            with self.subTest(feature):
                _, alone = self.told(*words, *flags)
                self.assertEqual(rows[feature]["bytes_out_of_node"], planned.traffic(alone)["step"][1] // 4)
                self.assertEqual(rows[feature]["memory"], alone["job"]["memory_bytes"])
                self.assertAlmostEqual(rows[feature]["reduction"],
                                       rows["none"]["bytes_out_of_node"] / rows[feature]["bytes_out_of_node"])

    def check_times(self, rows, *words):
        times = {feature: self.told("time", *words, *flags)[1]["time"]
                 for feature, flags in {**FLAGS, **OTHERS}.items()}
        # NCCL's sums are not the same in every run.
        vendors = self.told("time", *words, *VENDORS[:2 if "--deterministic" in words else None])[1]["time"]
        times["none"] = min(times["none"], vendors, key=lambda time: time["step_seconds"])
        even = self.told("breakeven", *words)[1]["break_even"]
        self.assertEqual(even["feature"], list(FLAGS))
        for feature, row in rows.items():
            with self.subTest(feature):
                self.assertEqual((row["step_seconds"], row["bound"]),
                                 (times[feature]["step_seconds"], times[feature]["bound"]))
                self.assertAlmostEqual(row["speedup"] * row["step_seconds"], rows["none"]["step_seconds"])
        for index, feature in enumerate(FLAGS):
            with self.subTest(feature):
                row = rows[feature]
                self.assertEqual([row[name] for name in ("step_seconds", "speedup", "link_rate")],
                                 [even[name][index] for name in ("step_seconds", "speedup", "link_rate")])

    def test_are_those_of_the_other_commands(self):
        for cluster in (CLUSTER, SOLD):
            with self.subTest(cluster):
                result, rows = self.compared(*JOB, *cluster)
                self.check_bytes(rows, *JOB, "--ranks-per-node", "8")
                self.check_times(rows, *JOB, *cluster)
                self.assertIn("\nrates: ", result.stdout)

    def test_a_deterministic_job_is_compared_with_what_can_be_trained(self):
        """zpp_train refuses NCCL's reduce-scatter then, and the ordered one sends more."""
        _, rows = self.compared(*JOB, "--deterministic", *CLUSTER)
        self.check_times(rows, *JOB, "--deterministic", *CLUSTER)
        _, others = self.compared(*JOB, *CLUSTER)
        self.assertGreater(rows["none"]["bytes_out_of_node"], others["none"]["bytes_out_of_node"])
        alone = [*JOB, "--ranks-per-node", "1", "--gpu", "h200", "--node-gbit", "400"]
        (_, rows), (_, others) = self.compared(*alone, "--deterministic"), self.compared(*alone)
        self.assertEqual(rows["none"]["bytes_out_of_node"], others["none"]["bytes_out_of_node"])

    def test_below_the_rate_that_is_said_hybrid_sharding_pays(self):
        job = [*MODEL, "--bf16", "--nodes", "4", "--micro-batch-size", "8", *CLUSTER]
        for feature in HYBRIDS:
            rate = self.compared(*job, "--gain", "0.2")[1][feature]["link_rate"]
            with self.subTest(feature):
                self.assertTrue(1e8 < rate < 1e12, rate)
                slower, faster = (self.compared(*job, "--rail-gb-per-s", str(times * rate / 1e9))[1][feature]["speedup"]
                                  for times in (0.9, 1.1))
                self.assertGreater(slower, 1 / 0.8)
                self.assertLess(faster, 1 / 0.8)

    def test_the_fastest_row_that_fits_is_named(self):
        """Whatever it is of; none where the gain that is asked for is larger."""
        job = [*MODEL, "--bf16", "--nodes", "8", "--gpu", "h200", "--gpus-per-node", "8", "--micro-batch-size", "8"]
        seen = set()
        for more in (["--node-gbit", "50"], ["--node-gbit", "1600"],
                     ["--node-gbit", "50", "--gradient-accumulation-steps", "8"]):
            limit = []
            for _ in range(3):
                result, rows = self.compared(*job, *more, *limit)
                held = float(limit[1]) * 2**30 if limit else float("inf")
                fastest = max((row for row in rows.values() if row["memory"] <= held), key=lambda row: row["speedup"])
                name, speedup = fastest["feature"], fastest["speedup"]
                with self.subTest(more=more, limit=limit):
                    self.assertGreater(speedup, 1.06)
                    self.assertEqual(FASTEST.search(result.stdout).groups(),
                                     (None, SHOWN.get(name, f"+{name}"), f"{speedup:.2f}"))
                    safe = max((row for name, row in rows.items() if name in LOSSLESS and row["memory"] <= held),
                               key=lambda row: row["speedup"], default=None)
                    said = WITHOUT.search(result.stdout)
                    self.assertEqual(said and said.groups(), None if safe is None or safe["feature"] == name else (
                        SHOWN.get(safe["feature"], f"+{safe['feature']}"), f"{safe['speedup']:.2f}"))
                    seen.add(name)
                limit = ["--memory-limit", str(fastest["memory"] / 2**30 - 1e-6)]
                if not any(row["memory"] / 2**30 < float(limit[1]) and row["speedup"] > 1.06 for row in rows.values()):
                    break
        self.assertGreater(len(seen), 2)
        for words, said in ((["--gain", "0.99"], "No row that fits makes a step 99 % shorter (--gain)."),
                            (["--memory-limit", "0.001"],
                             "No row fits: --recompute-activations takes less memory, and zpp_plan search finds what "
                             "does."),
                            (["--memory-limit", "0.001", "--recompute-activations"],
                             "No row fits: zpp_plan search finds what does.")):
            self.assertIn(f"\n{said}\n", self.compared(*job, "--node-gbit", "50", *words)[0].stdout)

    def test_only_gradients_of_hybrid_sharding_cross_nodes_once_a_step(self):
        once, more = (self.compared(*JOB[:-1], steps)[1] for steps in ("1", "4"))
        for feature in HYBRIDS:
            self.assertEqual(more[feature]["bytes_out_of_node"], once[feature]["bytes_out_of_node"])
        self.assertLess(once["hybrid+qgZ"]["bytes_out_of_node"], 0.5 * once["hybrid"]["bytes_out_of_node"])
        self.assertGreater(once["hybrid"]["memory"], once["none"]["memory"])

    def test_hybrid_sharding_has_no_rows_where_there_is_none(self):
        """Hybrid sharding has no rows over nodes of one rank, without a message. It has none with options with which
        the trainer refuses it, with a message."""
        result, rows = self.compared(*MODEL, "--bf16", "--nodes", "4", "--ranks-per-node", "1")
        self.assertEqual(list(rows), [*FLAGS, *DIFFERENCES, *EXACT, *STAGES])
        self.assertNotIn("hybrid", result.stdout)
        refused = ["--measure-quantization-error", "1"]
        result, rows = self.compared(*JOB, *refused)
        self.assertEqual(list(rows), [*FLAGS, *DIFFERENCES, *EXACT, *STAGES])
        alone = self.plan(*JOB, *HYBRID, *QGZ, *refused)
        self.assertEqual(alone.code, zpp.USAGE)
        self.assertRegex(result.stdout, r"\nThere is no row hybrid, for zpp_train refuses it: zeropp\.shard_group_size "
                         r"8 and zeropp\.measure_quantization_error: [^.]*\.\n")
        _, rows = self.compared(*JOB, "--weight-differences")
        self.assertEqual(list(rows), [*FLAGS, *HYBRIDS, *STAGES])
        self.assertEqual([rows[feature] for feature in HYBRIDS],
                         [self.compared(*JOB)[1][feature] for feature in HYBRIDS])

    def test_what_the_trainer_refuses_is_told(self):
        on_files = ["--offload-optimizer", "cpu", "--offload-param", "nvme", "--offload-param-nvme-path", "/tmp"]
        result, rows = self.compared(*JOB, *on_files)
        self.assertEqual(list(rows), [*FLAGS, *DIFFERENCES, *HYBRIDS])
        alone = self.plan(*JOB, *EXACT["hpZ+exact"], *on_files)
        self.assertEqual(alone.code, zpp.USAGE)
        why = re.sub(r" \(flags: .*", "", alone.errors("zpp_plan")[0])
        self.assertIn(f"\nThere is no row +exact, for zpp_train refuses it: {why}.\n", result.stdout)

    def test_the_rate_below_which_it_pays_is_the_same_at_every_rate(self):
        """And is told as --node-gbit takes it."""
        # A large gain is asked for, so that nothing pays over fast links.
        job = [*MODEL, "--bf16", "--nodes", "4", "--micro-batch-size", "8", "--gpu", "h100", "--gpus-per-node", "8",
               "--gain", "0.2", "--node-gbit"]
        thresholds = set()
        for rate in (50, 200, 400, 800, 1600, 2345, 2350, 3200, 6400):
            with self.subTest(rate):
                result, rows = self.compared(*job, rate)
                below = float(self.table(result)["ZeRO++ (all)"]["pays below"])
                self.assertEqual(rows["all"]["speedup"] > 1 / 0.8, rate < below)
                thresholds.add(round(below, -1))
        self.assertLessEqual(max(thresholds) - min(thresholds), 0.01 * max(thresholds))

    def test_always_holds_at_every_rate(self):
        job = ["--model-preset", "gpt-7b", "--bf16", "--nodes", "16", "--gpu", "h100", "--gpus-per-node", "8",
               "--node-gbit"]
        for rate in (400, 1600, 2345, 2350, 3200):
            result, rows = self.compared(*job, rate)
            self.assertEqual(self.table(result)["ZeRO++ (all)"]["pays below"], "always")
            self.assertGreater(rows["all"]["speedup"], 1 / 0.95)

    def test_without_a_cluster(self):
        result, rows = self.compared(*JOB)
        self.check_bytes(rows, *JOB)
        self.assertTrue(all(row["step_seconds"] is None for row in rows.values()), rows)
        self.assertNotIn("step ms", result.stdout)
        self.assertIn("--gpu h100 --node-gbit 400", result.stdout)

    def test_sentences_and_what_to_paste_follow_the_table(self):
        """Then five lines that name pages, and what is assumed, where something is."""
        lines = self.compared(*JOB, *SOLD, "--micro-batch-size", "1")[0].stdout.split("\n\n")[2].splitlines()
        sentences = [line for line in lines[:-5] if not line.startswith("  ")]
        self.assertRegex("\n".join(sentences), r"^The fastest row .*\.\nWithout lossy codecs .*\.$")
        self.assertLess(len(sentences), len(lines) - 5)
        for line in lines[-5:]:
            page, _, place = re.search(r"(docs/[\w/-]+\.md)(#([\w-]+))?", line).groups()
            heading = re.compile(f"(?m)^#+ {(place or '').replace('-', ' ')}", re.IGNORECASE)
            self.assertRegex((zpp.SOURCE / page).read_text(), heading)
        named = ["--model-preset", "gpt-7b", "--bf16", "--nodes", "2"]
        self.assertIn("\nNo batch is given, so a GPU trains 1 sequence of 2048 tokens a micro-step",
                      self.compared(*named)[0].stdout)
        self.assertNotIn("No batch is given", self.compared(*named, "--micro-batch-size", "1")[0].stdout)

    def test_copies_save_more_with_more_micro_steps(self):
        (_, more), (_, once) = self.compared(*JOB), self.compared(*JOB[:-1], "1")
        self.assertGreater(more["all"]["reduction"], 1.5 * once["all"]["reduction"])
        # Weights that stay gathered are not gathered again, and copies serve nothing.
        kept = self.compared(*JOB, "--max-reuse-distance", "1000")[1]
        self.assertLess(kept["none"]["bytes_out_of_node"], more["none"]["bytes_out_of_node"])

    def test_exact_differences_take_the_bits_that_are_assumed(self):
        """Their row is there of 16-bit weights; whoever asks for exact differences has it too, and one line says so.
        Where no bits are given they follow the learning rate."""
        shares = {}
        for rate, bits in (("3e-5", "3.2"), ("2e-4", "5.3"), ("6e-4", "6.1"), ("1", "8"), ("0", "1")):
            self.assertIn(f" assume {bits} bits per weight ", self.compared(*JOB, "--lr", rate)[0].stdout)
        for bits in ("3", "5.5", "16"):
            result, rows = self.compared(*JOB[:-1], "1", "--exact-planned-bits", bits)
            shares[bits] = rows["hpZ+qgZ+exact"]["bytes_out_of_node"] - rows["hybrid+qgZ"]["bytes_out_of_node"]
            self.assertIn(f" assume {bits} bits per weight ", result.stdout)
            exact = self.told(*JOB[:-1], "1", *EXACT["hpZ+qgZ+exact"], "--exact-planned-bits", bits)[1]
            self.assertEqual(rows["hpZ+qgZ+exact"]["bytes_out_of_node"] * 4,
                             sum(planned.traffic(exact)["step"][1:]))
        self.assertLess(shares["3"], shares["5.5"])
        self.assertLess(shares["5.5"], shares["16"])
        in_fp32 = [word for word in JOB if word != "--bf16"]
        told, rows = self.compared(*in_fp32)
        self.assertNotIn("hpZ+qgZ+exact", rows)
        self.assertNotIn("bits per weight", told.stdout)
        asked = self.compared(*JOB, "--weight-differences", "--exact-differences")
        self.assertEqual(list(asked[1]), [*FLAGS, *EXACT, *HYBRIDS, *STAGES])
        self.assertIn("zeropp.exact_differences left out of account", asked[0].stderr)

    def test_weight_differences_may_be_part_of_all(self):
        """All features may include weight differences, also on nodes of one rank, which have copies for differences and
        no hpZ."""
        words = [*MODEL, "--bf16", "--nodes", "4", "--ranks-per-node"]
        for ranks in (1, 2):
            with self.subTest(ranks):
                result, rows = self.compared(*words, ranks, "--weight-differences")
                self.assertGreater(rows["all"]["reduction"], 2 * rows["qwZ+qgZ"]["reduction"])
                plain = self.compared(*words, ranks)[1]["all+differences"]
                self.assertEqual(plain, {**rows["all"], "feature": "all+differences"})
                self.assertIn("+differences", self.table(result))
                self.assertNotIn("ZeRO++ (all)", result.stdout)
        persist = ["--param-persistence-threshold", "1000000000", "--model-persistence-threshold", "1000000000"]
        for ranks, more in ((1, []), (2, persist), (1, ["--weight-differences", *persist])):
            rows = self.compared(*words, ranks, *more)[1]
            self.assertEqual(rows["all"]["reduction"], rows["qwZ+qgZ"]["reduction"])

    def test_deepspeeds_micro_steps_share_the_secondary_copy(self):
        """Since its pull request 4906: it sends the bytes of the rows, and its micro-steps run one after the other."""
        _, alone = self.told("compare", *JOB[:-1], "1", *SOLD)
        result, told = self.told("compare", *JOB, *SOLD)
        one, rows, four = alone["comparison"], told["comparison"], told["in_turn"]
        names = [*FLAGS, "hybrid", *STAGES]
        self.assertEqual(four["feature"], names)
        for index, name in enumerate(names):
            row = rows["feature"].index(name)
            with self.subTest(name):
                self.assertEqual(four["bytes_out_of_node"][index], rows["bytes_out_of_node"][row])
                seconds, of_one = four["step_seconds"][index], one["step_seconds"][row]
                self.assertGreaterEqual(seconds, 0.99 * rows["step_seconds"][row])
                self.assertLessEqual(seconds, 4 * of_one)
                if "hpZ" not in name and name not in ("all", "hybrid", *STAGES):
                    self.assertGreater(seconds, 3.5 * of_one)  # each is like the first, but for the update
        shown = self.table(result)
        for index, name in enumerate(names):
            self.assertEqual(shown[SHOWN.get(name, f"+{name}")]["speed-up there"], f"{four['speedup'][index]:.2f}")
        self.assertEqual(shown["+differences"]["speed-up there"], "-")
        for others in ([*JOB[:-1], "1", *SOLD], JOB):
            self.assertNotIn("speed-up there", self.compared(*others)[0].stdout)

    def test_one_number_says_below_which_rate_a_part_pays(self):
        """Where a speed-up is about the one asked for over many rates, ranges alternate: the first is told, breakeven
        names all."""
        words = ["--bf16", "--num-layers", "48", "--hidden-size", "5632", "--num-attention-heads", "44",
                 "--seq-length", "2048", "--vocab-size",
                 "50257", "--gradient-accumulation-steps", "4", "--nodes", "16", "--gpu", "a100", "--node-gbit", "200",
                 "--node-links", "2"]
        ranges = re.search(r"\nhpZ +([\d.]+), [\d.]+ to [\d.]+ ",
                           self.check_ok(self.plan("breakeven", *words, "--output", self.out)).stdout)
        self.assertTrue(ranges)
        text = self.check_ok(self.plan("compare", *words, "--output", self.out)).stdout
        for row in re.findall(r"(?m)^(?:\+|hybrid ).*$", text):
            self.assertRegex(row, r" \d\.\d\d +(?:\d+|always|never)  ")
        self.assertRegex(text, fr"\n\+hpZ .* {ranges[1]}  ")

    def test_bytes_of_a_toy_are_no_zeros(self):
        toy = ["--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "2", "--seq-length", "16",
               "--vocab-size", "64", "--nodes", "2"]
        text = self.compared(*toy)[0].stdout
        self.assertRegex(text, "[KM]B out of a node")
        self.assertIn("MiB per GPU", text)
        for told in (text, self.told(*toy)[0].stdout, self.told("search", *toy)[0].stdout):
            self.assertNotIn(" GB", told)
            self.assertNotIn(" GiB", told)

    def test_a_gpu_is_a_cluster_file(self):
        """The cluster of --gpu can be written to a file, and the file gives the same answer."""
        made = self.folder / "made.json"
        self.check_ok(self.plan("calibrate", *SOLD, "--calibrated", made))
        self.assertEqual(self.compared(*JOB, *SOLD)[0].stdout, self.compared(*JOB, "--cluster", made)[0].stdout)

    def test_the_committed_files_are_of_the_table(self):
        made = self.folder / "made.json"
        for name, flags in SOLD_FILES.items():
            with self.subTest(name):
                committed = json.loads((CLUSTERS / f"{name}.json").read_text())
                self.check_ok(self.plan("calibrate", *flags, "--cluster-name", committed["name"], "--calibrated", made))
                self.assertEqual(json.loads(made.read_text()), committed)

    def test_what_is_left_of_the_memory_is_said(self):
        result, rows = self.compared(*JOB, *SOLD)
        for row, cells in zip(rows.values(), self.table(result).values(), strict=True):
            held, left = float(cells["GiB per GPU"]), float(cells["GiB left"])
            self.assertAlmostEqual(held, row["memory"] / 2**30, delta=0.001)
            self.assertAlmostEqual(held + left, 79.2, delta=0.1)
        # The limit that search takes, also without a cluster.
        limited = self.compared(*JOB, "--memory-limit", str(rows["qwZ+qgZ"]["memory"] / 2**30))[0]
        self.assertEqual(float(self.table(limited)["+qwZ+qgZ"]["GiB left"]), 0)
        self.assertTrue(self.table(limited)["+differences"]["GiB left"].startswith("-"))

    def test_hpz_on_the_host_takes_no_memory_for_its_copy(self):
        job = [*MODEL, "--bf16", "--nodes", "4", "--ranks-per-node", "2"]
        rows = self.compared(*job, "--hpz-device", "cpu")[1]
        there = self.compared(*job)[1]
        self.assertEqual(rows["none"]["memory"], there["none"]["memory"])
        self.assertLessEqual(rows["hpZ"]["memory"], rows["none"]["memory"])
        memory = self.told(*job, "--zero-hpz-partition-size", "2")[1]["memory"]
        copy = dict(zip(memory["name"], memory["bytes"]))["secondary"]
        self.assertEqual(there["hpZ"]["memory"] - rows["hpZ"]["memory"], copy)
        self.assertEqual(there["all"]["memory"] - rows["all"]["memory"], copy)
        self.assertEqual(rows["hpZ"]["bytes_out_of_node"], there["hpZ"]["bytes_out_of_node"])
        self.assertGreater(there["hpZ"]["memory"], there["none"]["memory"])

    def test_what_is_assumed_is_said(self):
        head = " ".join(self.compared(*JOB)[0].stdout.split("\n\n")[0].split())
        self.assertIn("activations: all kept (--recompute-activations takes less memory)", head)
        again = self.compared(*JOB, "--recompute-activations")[0].stdout
        self.assertIn("activations: computed again\n", again)

    def test_several_nodes_of_a_cluster_of_one(self):
        one = [*MODEL, "--bf16", "--cluster", zpp.SOURCE / "inputs" / "clusters" / "h200-4x-node.json", "--nodes"]
        self.assertIn("2 nodes are planned, and the cluster '4 H200 of one node' is of one: ",
                      self.compared(*one, "2")[0].stderr)
        self.assertEqual(self.compared(*one, "2", "--rail-gb-per-s", "12.5")[0].stderr, "")

    def test_nodes_that_are_not_given(self):
        result, _ = self.compared(*MODEL, "--bf16", *SOLD)
        self.assertIn("no --nodes: 2 nodes are planned, as the cluster has", result.stderr)
        self.assertTrue(result.stdout.startswith("2 nodes x "))
        self.assertEqual(self.compared(*MODEL, "--bf16", *SOLD, "--nodes", "2")[0].stderr, "")
        self.assertRegex(self.plan("compare", "--help").stdout,
                         r"--nodes N +Nodes that are planned where no cluster says how many\s+\[1\]")
        self.assertIn("unless given, those of plan.cluster, and 2 with plan.gpu",
                      " ".join(self.plan("compare", "--help-all").stdout.split()))

class Inputs(Case):
    def configuration(self, **zero):
        return self.write_json("ds_config.json", {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True},
                                                  "zero_optimization": {"stage": 3, **zero}})

    def test_a_configuration_says_what_it_will_of_zeropp(self):
        words = [*MODEL, "--nodes", "4", "--config"]
        without, _ = self.compared(*words, self.configuration())
        self.assertEqual(without.stderr, "")
        for zero in ({"zero_quantized_weights": True, "zero_hpz_partition_size": 8, "zero_quantized_gradients": True},
                     {"zero_quantized_weights": False, "zero_hpz_partition_size": 1}):
            result, _ = self.compared(*words, self.configuration(**zero))
            self.assertEqual(result.stdout, without.stdout)
            self.assertEqual(len(result.stderr.splitlines()), 1, result)
            self.assertIn("compare turns qwZ, hpZ", result.stderr)

    def test_models_by_name_and_from_hugging_face(self):
        shape = ["--num-layers", "12", "--hidden-size", "768", "--num-attention-heads", "12", "--seq-length", "1024",
                 "--vocab-size", "50257"]
        words = ["--bf16", "--nodes", "2"]
        by_flags, _ = self.compared(*words, *shape)
        self.assertEqual(self.compared(*words, "--model-preset", "gpt2-124m")[0].stdout, by_flags.stdout)
        gpt2 = {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257}
        result, _ = self.compared(*words, "--hf-config", self.write_json("config.json", gpt2))
        self.assertEqual(result.stdout, by_flags.stdout)
        self.assertEqual(len(result.stderr.splitlines()), 1, result)
        llama = {"model_type": "llama", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12,
                 "max_position_embeddings": 1024, "vocab_size": 50257, "num_key_value_heads": 4,
                 "intermediate_size": 2048, "hidden_act": "silu"}
        _, rows = self.compared(*words, "--hf-config", self.write_json("config.json", llama))
        parameters = 2 * 50257 * 768 + 12 * (2 * 768**2 + 2 * 768 * 256 + 3 * 768 * 2048 + 2 * 768) + 768
        self.assertAlmostEqual(rows["none"]["bytes_out_of_node"] / (3 * parameters), 1, delta=0.01)  # 6 of 2 nodes, / 2
        # A flag overrides what the name says, and the other commands take the name too.
        longer, _ = self.compared(*words, *shape[:-4], "--seq-length", "2048", *shape[-2:])
        self.assertEqual(self.compared(*words, "--model-preset", "gpt2-124m", "--seq-length", "2048")[0].stdout,
                         longer.stdout)
        self.assertEqual(self.told(*words, "--model-preset", "gpt2-124m")[0].stdout,
                         self.told(*words, *shape)[0].stdout)

    def test_what_of_deepspeed_runs_a_row_is_marked(self):
        """And the fastest row of a DeepSpeed file is one that a release runs; of another job it may be any."""
        words = [*MODEL, "--ranks-per-node", "8", *SOLD]
        offload = {"offload_optimizer": {"device": "cpu"}}
        hpz = "0.18.3"
        for nodes, zero, precision, marks in (
                (4, {}, "bf16", ("any", "main", hpz, "any", "main", hpz, "main")),
                (4, {}, "fp16", ("any", "any", hpz, "any", "any", hpz, hpz)),
                (3, {}, "fp16", ("any", "none", hpz, "any", "none", hpz, "none")),
                (4, offload, "fp16", ("any", "any", "none", "any", "any", "none", "none"))):
            file = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 4,
                    precision: {"enabled": True}, "zero_optimization": {"stage": 3, **zero}}
            for section in ({}, {"zeropp": {"seed": 1}}):
                with self.subTest(nodes=nodes, zero=zero, precision=precision, section=section):
                    path = self.write_json("ds.json", {**file, **section})
                    result, told = self.told("compare", *words, "--nodes", nodes, "--deepspeed_config", path)
                    shown = self.table(result)
                    self.assertEqual([shown[SHOWN.get(name, f"+{name}")]["DeepSpeed"] for name in [*FLAGS, *OTHERS]],
                                     [*marks, "none", "none", "none", "none", "MiCS_Init", "none", "any", "any"])
                    rows = told["comparison"]
                    speedups = dict(zip(rows["feature"], rows["speedup"]))
                    released = None
                    if not section:
                        released = " and a release of DeepSpeed runs"
                        in_turn = dict(zip(told["in_turn"]["feature"], told["in_turn"]["speedup"]))
                        speedups = {name: in_turn[name] for name, mark in [*zip(FLAGS, marks),
                                                                           *((name, "any") for name in STAGES)]
                                    if mark == "any" or mark[0].isdigit()}
                    fastest = max(speedups, key=speedups.get)
                    self.assertEqual(FASTEST.search(result.stdout).groups(),
                                     (released, SHOWN.get(fastest, f"+{fastest}"), f"{speedups[fastest]:.2f}"))

    def test_what_is_pasted_is_the_row(self):
        """The flags plan the row of the sentence above, the keys of a DeepSpeed file too, and lines of FSDP2 name the
        same codecs."""
        words = [*MODEL, "--nodes", "4", "--ranks-per-node", "8", *SOLD]
        zero = {"train_micro_batch_size_per_gpu": 8, "bf16": {"enabled": True}, "zero_optimization": {"stage": 3}}
        seen = set()
        for limit in ([], ["--memory-limit", "5.8"]):
            for job in (["--bf16", "--micro-batch-size", "8"],
                        ["--deepspeed_config", self.write_json("ds.json", zero)]):
                result, rows = self.compared(*words, *job, *limit)
                without = WITHOUT.search(result.stdout)
                pasted = {FASTEST.search(result.stdout)[2]: result.stdout[:without and without.start()]}
                if without:
                    pasted[without[1]] = result.stdout[without.end():]
                for shown, text in pasted.items():
                    row = next(row for name, row in rows.items() if SHOWN.get(name, f"+{name}") == shown)
                    paste = dict(re.findall(
                        r"(?m)^  (DeepSpeed|FSDP2|accelerate|torchtitan|zpp_train)(?: main)? +(.*)$", text))
                    _, alone = self.told(*words[:-4], "--bf16", "--micro-batch-size", "8", *paste["zpp_train"].split())
                    self.assertEqual(planned.traffic(alone)["step"][1] // 4, row["bytes_out_of_node"])
                    if "DeepSpeed" in paste:
                        file = self.write_json("made.json", {**zero, **json.loads("{" + paste["DeepSpeed"] + "}")})
                        _, alone = self.told(*words[:-4], "--deepspeed_config", file)
                        self.assertEqual(planned.traffic(alone)["step"][1] // 4, row["bytes_out_of_node"])
                    self.assertEqual("zeropp.torch.compress" in text, row["feature"] not in UNCOMPRESSED)
                    seen.add(shown)
        self.assertGreater(len(seen), 2)

    def test_limits_that_a_file_leaves_out_are_told(self):
        """Where DeepSpeed's defaults would send something else; with the numbers that these have as flags."""
        zero = {"stage": 3, "zero_hpz_partition_size": 1}
        words = [*MODEL, "--nodes", "4", "--ranks-per-node", "8"]
        flags = {"stage3_max_live_parameters": ["--max-live-parameters", "1000000000"],
                 "stage3_max_reuse_distance": ["--max-reuse-distance", "1000000000"],
                 "stage3_param_persistence_threshold": ["--param-persistence-threshold", "100000"]}
        file = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}
        path = self.write_json("ds.json", {**file, "zero_optimization": zero})
        _, alone = self.told(*words, "--config", path, *(word for flag in flags.values() for word in flag))
        for command in ([], ["compare"], ["time", *SOLD]):
            found = re.search(r"\nThe file leaves out (.*): with DeepSpeed's, (?:ZeRO-3|a step) sends ([\d.]+) GB out "
                              r"of a node and needs ([\d.]+) GiB per GPU\.\n",
                              self.told(*command, *words, "--config", path)[0].stdout)
            self.assertEqual(found[1], "stage3_max_live_parameters (1000000000000 here, 1000000000 in DeepSpeed), "
                             "stage3_max_reuse_distance (0 here, 1000000000 in DeepSpeed), "
                             "stage3_param_persistence_threshold (0 here, 100000 in DeepSpeed)")
            self.assertAlmostEqual(float(found[2]), planned.traffic(alone)["step"][1] / 4e9, delta=1e-3)
            self.assertAlmostEqual(float(found[3]), alone["job"]["memory_bytes"] / 2**30, delta=1e-3)
        said = {"stage3_max_reuse_distance": 0, "stage3_max_live_parameters": 10**12,
                "stage3_param_persistence_threshold": 0}
        ours = {**file, "zero_optimization": zero, "zeropp": {"seed": 1}}
        for job in (["--config", self.write_json("said.json", {**file, "zero_optimization": {**zero, **said}})],
                    ["--config", self.write_json("own.json", ours)], ["--bf16"]):
            self.assertNotIn("The file leaves out", self.told("compare", *words, *job)[0].stdout)

    def test_fp32_that_a_model_file_leads_to_is_told(self):
        file = self.write_json("ds.json", {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": "auto"},
                                           "zero_optimization": {"stage": 3}})
        gpt2 = {"n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
                "torch_dtype": "float32"}
        words = ["--config", file, "--hf-config", self.write_json("config.json", gpt2), "--nodes", "2"]
        result, _ = self.compared(*words)
        self.assertIn("parameters in fp32,", result.stdout)
        self.assertRegex(result.stderr, r'warning: bf16\.enabled is "auto": fp32 is planned, as .*config\.json has its '
                         r"weights; give --bf16 where ")
        self.assertNotIn("fp32", self.compared(*words, "--bf16")[0].stderr)
        # Nothing says a precision, and the weights have 16 bits.
        halves = self.write_json("config.json", gpt2 | {"torch_dtype": "bfloat16"})
        words = ["--hf-config", halves, "--nodes", "2"]
        self.assertRegex(self.compared(*words)[0].stderr,
                         r"warning: fp32 is planned, since .* in bfloat16: give --bf16 ")
        for flag in ("--bf16", "--no-bf16", "--fp16"):
            self.assertNotIn("fp32 is planned", self.compared(*words, flag)[0].stderr)

    def test_only_gpus_that_were_compared_have_an_error(self):
        for gpu, compared in (("h200", True), ("v100", True), ("a100", False), ("l40s", False)):
            precision = "--fp16" if gpu == "v100" else "--bf16"
            text = self.compared(*MODEL, precision, "--nodes", "2", "--gpu", gpu, "--node-gbit", "100")[0].stdout
            self.assertEqual("off by up to 30 %" in text, compared, gpu)
            self.assertEqual("step times of this GPU were not compared" in text, not compared, gpu)

    def test_help_has_the_flags_of_the_tutorial(self):
        text = self.plan("compare", "--help").stdout
        for flag in ("--deepspeed_config", "--gpus-per-node", "--recompute-activations", "--micro-batch-size",
                     "--gradient-accumulation-steps", "--model-preset", "--hf-config", "--gpu ", "--node-gbit"):
            self.assertIn(flag, text)

    def test_refusals(self):
        self.refused("--config", self.configuration(), "--nodes", "2",
                     parts=("no size of a model is given", "gpt-7b", "--hf-config"))
        self.refused(*JOB, *SOLD, *CLUSTER, parts=("--cluster", "--gpu h100", "leave one out"))
        self.refused(*JOB, "--gpu", "h100", parts=("--node-gbit is missing", "--node-gbit 400"))
        self.refused(*JOB, "--gpu", "h101", *SOLD[2:], parts=("--gpu", "nearest: h100"))
        self.refused(*JOB, "--node-gbit", "400", parts=("plan.node_gbit", "--gpu"))
        self.refused(*JOB, "--rail-gb-per-s", "4", parts=("--rail-gb-per-s", "--cluster or --gpu"))
        self.refused(*MODEL, "--bf16", parts=("plan.nodes 1", "--nodes with 2"))
        self.refused(*JOB, *HYBRID, parts=("--shard-group-size", "leave it out", "zpp_plan time"))
        self.refused(*JOB, "--zero-stage", "2", parts=("zero_optimization.stage 2", "--zero-stage 3"))
        self.refused(*JOB, "--model-preset", "gpt-8b", parts=("--model-preset", "gpt-7b"))
        self.refused("--nodes", "2", "--model-preset", "gpt-7b", "--hf-config", "config.json", parts=("leave one out",))
        self.refused("--nodes", "2", "--model", "quadratic", "--model-preset", "gpt-7b",
                     parts=("quadratic", "leave --model-preset"))
        self.refused("--nodes", "2", "--hf-config", "none.json", parts=("none.json", "--hf-config"), code=zpp.IO)
        self.refused("--nodes", "2", "--hf-config", self.write_json("config.json", {"hidden_size": 8}),
                     parts=("num_hidden_layers or n_layer or n_layers or num_layers is missing",))


if __name__ == "__main__":
    zpp.main()
