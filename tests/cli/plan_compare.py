# ctest: name=plan_compare timeout=120 labels=cli processors=2
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
FLAGS = {"none": [], "qwZ": QWZ, "hpZ": HPZ, "qgZ": QGZ, "qwZ+qgZ": [*QWZ, *QGZ], "all": [*QWZ, *HPZ, *QGZ]}
HYBRID = ["--shard-group-size", "8"]
HYBRIDS = {"hybrid": HYBRID, "hybrid+qgZ": [*HYBRID, *QGZ]}
DIFFERENCES = {"all+differences": [*FLAGS["all"], "--weight-differences"]}
OTHERS = {**DIFFERENCES, **HYBRIDS}
SHOWN = {"all+differences": "+differences", "hybrid": "hybrid", "hybrid+qgZ": "hybrid +qgZ"}
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
        for line in result.stdout.splitlines():
            self.assertLessEqual(len(line), 120, line)
        table = told["comparison"]
        return result, {feature: {name: values[index] for name, values in table.items()}
                        for index, feature in enumerate(table["feature"])}

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
                self.assertRegex(result.stdout, r"ZeRO\+\+ (pays|does not pay) here: it makes a step \d+\.\d\d "
                                 r"times as fast")
                self.assertIn("\nrates: ", result.stdout)

    def test_a_deterministic_job_is_compared_with_what_can_be_trained(self):
        """zpp_train refuses NCCL's reduce-scatter then, and the ordered one sends more."""
        result, rows = self.compared(*JOB, "--deterministic", *CLUSTER)
        self.check_times(rows, *JOB, "--deterministic", *CLUSTER)
        self.assertIn("For --deterministic ZeRO-3 sends the gradients of each rank by themselves",
                      " ".join(result.stdout.split()))
        other, others = self.compared(*JOB, *CLUSTER)
        self.assertNotIn("--deterministic", other.stdout)
        self.assertGreater(rows["none"]["bytes_out_of_node"], others["none"]["bytes_out_of_node"])
        alone = [*JOB, "--ranks-per-node", "1", "--gpu", "h200", "--node-gbit", "400"]
        (result, rows), (_, others) = self.compared(*alone, "--deterministic"), self.compared(*alone)
        self.assertEqual(rows["none"]["bytes_out_of_node"], others["none"]["bytes_out_of_node"])
        self.assertNotIn("For --deterministic", result.stdout)

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

    def test_what_is_no_part_is_named_where_it_is_fastest(self):
        """Of what fits, and not else; what the last lines advise is what was compared."""
        said = re.compile(r"The fastest row here is ([^,]+), (\d+\.\d\d) times as fast as ZeRO-3\.")
        job = ["--model-preset", "gpt-18b", "--recompute-activations", "--bf16", "--nodes", "8", "--gpu", "h200",
               "--gpus-per-node", "8", "--node-gbit"]
        seen = set()
        for more in (["200"], ["1600"], ["200", "--gradient-accumulation-steps", "8"]):
            result, rows = self.compared(*job, *more)
            text = " ".join(result.stdout.split())
            found = said.search(text)
            fastest = min(rows, key=lambda feature: rows[feature]["step_seconds"])
            of_zeropp = min(rows[feature]["step_seconds"] for feature in FLAGS)
            with self.subTest(more):
                self.assertEqual(bool(found), rows[fastest]["step_seconds"] < 0.99 * of_zeropp, text)
                if found:
                    self.assertEqual(found[1], SHOWN[fastest])
                    self.assertEqual(found[2], f"{rows[fastest]['speedup']:.2f}")
                    seen.add(fastest)
                    limit = ["--memory-limit", str(rows[fastest]["memory"] / 2**30 - 1e-6)]
                    limited = " ".join(self.compared(*job, *more, *limit)[0].stdout.split())
                    self.assertNotEqual((said.search(limited) or [None, None])[1], found[1])
                    self.assertRegex(limited, rf"{re.escape(SHOWN[fastest])}[^:]*: this needs more than the ")
                advised = re.search(r"Its flag is (--shard-group-size \d+) without", text)[1].split()
                self.assertEqual(self.told("time", *job, *more, *advised)[1]["time"]["step_seconds"],
                                 rows["hybrid"]["step_seconds"])
        self.assertTrue(seen)

    def test_only_gradients_of_hybrid_sharding_cross_nodes_once_a_step(self):
        once, more = (self.compared(*JOB[:-1], steps)[1] for steps in ("1", "4"))
        for feature in HYBRIDS:
            self.assertEqual(more[feature]["bytes_out_of_node"], once[feature]["bytes_out_of_node"])
        self.assertLess(once["hybrid+qgZ"]["bytes_out_of_node"], 0.5 * once["hybrid"]["bytes_out_of_node"])
        self.assertGreater(once["hybrid"]["memory"], once["none"]["memory"])

    def test_hybrid_sharding_has_no_rows_where_there_is_none(self):
        """Not over nodes of one rank, of which nothing is said, nor with what the trainer refuses it with, which is
        said."""
        result, rows = self.compared(*MODEL, "--bf16", "--nodes", "4", "--ranks-per-node", "1")
        self.assertEqual(list(rows), [*FLAGS, *DIFFERENCES])
        self.assertNotIn("ybrid", result.stdout)
        refused = ["--measure-quantization-error", "1"]
        result, rows = self.compared(*JOB, *refused)
        self.assertEqual(list(rows), list(FLAGS))
        alone = self.plan(*JOB, *HYBRID, *QGZ, *refused)
        self.assertEqual(alone.code, zpp.USAGE)
        text = " ".join(result.stdout.split())
        self.assertRegex(text, r"Hybrid sharding has no rows, for zpp_train refuses it here: zeropp\.shard_group_size "
                         r"8 and zeropp\.measure_quantization_error: [^.]*\.")
        self.assertNotIn("hybrid", text)
        alone = self.plan(*JOB, *DIFFERENCES["all+differences"], *refused)
        self.assertEqual(alone.code, zpp.USAGE)
        why = re.sub(r" \(flags: .*", "", alone.errors("zpp_plan")[0])
        self.assertIn(f"Weight differences have no row, for zpp_train refuses them here: {why}.", text)
        differences, rows = self.compared(*JOB, "--weight-differences")
        self.assertEqual(list(rows), [*FLAGS, *HYBRIDS])
        self.assertEqual([rows[feature] for feature in HYBRIDS],
                         [self.compared(*JOB)[1][feature] for feature in HYBRIDS])

    def test_sentences_agree_at_every_rate(self):
        """Whether it pays here, and where it pays, are one answer; the rates are those of --node-gbit."""
        # A large gain is asked for, so that nothing pays over fast links.
        job = [*MODEL, "--bf16", "--nodes", "4", "--micro-batch-size", "8", "--gpu", "h100", "--gpus-per-node", "8",
               "--gain", "0.2", "--node-gbit"]
        thresholds = set()
        for rate in (50, 200, 400, 800, 1600, 2345, 2350, 3200, 6400):
            with self.subTest(rate):
                result, rows = self.compared(*job, rate)
                text = " ".join(result.stdout.split())
                self.assertNotIn("unclear", text)
                self.assertIn("Rates between nodes are Gbit/s that all links of a node are sold as together, as "
                              "--node-gbit takes them.", text)
                found = re.search(r"It pays where the links of a node carry less than ([\d.]+) Gbit/s as sold "
                                  r"together, and here they carry ([\d.]+) ", text)
                self.assertTrue(found, text)
                self.assertEqual(float(found[2]), rate)
                self.assertEqual("ZeRO++ pays here" in text, rate < float(found[1]), text)
                self.assertEqual(rows["all"]["speedup"] > 1 / 0.8, rate < float(found[1]))
                thresholds.add(round(float(found[1]), -1))
        self.assertLessEqual(max(thresholds) - min(thresholds), 0.01 * max(thresholds))

    def test_always_holds_at_every_rate(self):
        job = ["--model-preset", "gpt-7b", "--bf16", "--nodes", "16", "--gpu", "h100", "--gpus-per-node", "8",
               "--node-gbit"]
        for rate in (400, 1600, 2345, 2350, 3200):
            result, rows = self.compared(*job, rate)
            self.assertIn("It pays at every rate between nodes that was tried", " ".join(result.stdout.split()))
            self.assertGreater(rows["all"]["speedup"], 1 / 0.95)

    def test_without_a_cluster(self):
        result, rows = self.compared(*JOB)
        self.check_bytes(rows, *JOB)
        self.assertTrue(all(row["step_seconds"] is None for row in rows.values()), rows)
        self.assertNotIn("step ms", result.stdout)
        self.assertIn("--gpu h100 --node-gbit 400", result.stdout)

    def test_what_follows_is_of_the_job(self):
        """The batch where none is given, and the model's flags, with which the trainer has the model that was named."""
        named = ["--model-preset", "gpt-7b", "--bf16", "--nodes", "2"]
        result, rows = self.compared(*named)
        text = " ".join(result.stdout.split())
        self.assertIn("No batch is given, so a GPU trains 1 sequence of 2048 tokens a micro-step", text)
        self.assertIn("Stages 1 and 2", text)
        flags = re.search(r"The model in zpp_train's flags: (--[^.]*)\.", text)[1].split()
        again, same = self.compared(*flags, "--bf16", "--nodes", "2", "--micro-batch-size", "1")
        self.assertEqual(same, rows)
        self.assertNotIn("No batch is given", again.stdout)
        self.assertNotIn("in zpp_train's flags", self.compared("--nodes", "2", "--num-layers", "2")[0].stdout)

    def test_the_factor_is_explained(self):
        result, rows = self.compared(*JOB)
        _, once = self.compared(*JOB[:-1], "1")
        text = " ".join(result.stdout.split())
        self.assertIn(f"The factor is {rows['all']['reduction']:.2f} with 4 micro-steps a step: ZeRO-3 sends the "
                      "weights across nodes 8 times and the gradients once a micro-step, in bf16; ZeRO++ sends the "
                      "weights once, in int8:256, and the gradients once a micro-step, in int4:128.", text)
        self.assertGreater(rows["all"]["reduction"], 1.5 * once["all"]["reduction"])

    def test_what_costs_no_loss_comes_first(self):
        result, rows = self.compared(*JOB, *SOLD)
        text = " ".join(result.stdout.split())
        said = re.search(r"Without any effect on the loss: \+hpZ alone, ([\d.]+) times fewer bytes and a step ([\d.]+) "
                         r"times as fast, with (--zero-hpz-partition-size 8), or \"zero_hpz_partition_size\": 8 under "
                         r"zero_optimization\. Weight differences .* --weight-differences .* To turn on all parts: .* "
                         r"The planner cannot predict the effect on the loss: docs/howto/safe-compression\.md", text)
        self.assertTrue(said, text)
        self.assertEqual(said.groups()[:2], tuple(f"{rows['hpZ'][name]:.2f}" for name in ("reduction", "speedup")))
        _, alone = self.told("time", *JOB, *SOLD, *said[3].split())
        self.assertEqual(alone["time"]["step_seconds"], rows["hpZ"]["step_seconds"])
        self.assertNotIn("hpZ alone", self.compared(*JOB, "--ranks-per-node", "1")[0].stdout)

    def test_weight_differences_are_explained(self):
        """Of nodes of one rank too, which have copies for differences and no hpZ; what the last lines advise is what
        was compared."""
        words = [*MODEL, "--bf16", "--nodes", "4", "--ranks-per-node"]
        for ranks in (1, 2):
            with self.subTest(ranks):
                result, rows = self.compared(*words, ranks, "--weight-differences")
                text = " ".join(result.stdout.split())
                self.assertGreater(rows["all"]["reduction"], 2 * rows["qwZ+qgZ"]["reduction"])
                self.assertIn(f"The factor is {rows['all']['reduction']:.2f} with 1 micro-step a step: ZeRO-3 sends "
                              f"the weights across nodes "
                              "twice and the gradients once, in bf16; ZeRO++ sends the weights once, as differences in "
                              "int4:128, and", text)
                self.assertIn("the factor grows: the copy that differences are added to serves all later passes", text)
                self.assertIn("docs/howto/safe-compression.md", text)
                self.assertNotIn("row +differences, in zpp_train alone", text)
                plain = self.compared(*words, ranks)[1]["all+differences"]
                self.assertEqual(plain, {**rows["all"], "feature": "all+differences"})
                self.assertRegex(result.stdout, r"\n\+differences .*\n")
                self.assertNotIn("ZeRO++ (all)", result.stdout)
                advised = re.search(r"To turn on all parts: (--[^,]*),", text)[1].split()
                self.assertEqual("--zero-hpz-partition-size" in advised, ranks > 1)
                self.assertEqual('"zero_hpz_partition_size": 2, ' in text, ranks > 1)
                _, alone = self.told(*words, ranks, *advised)
                self.assertEqual(rows["all"]["bytes_out_of_node"], planned.traffic(alone)["step"][1] // 4)
                text = " ".join(self.compared(*words, ranks, "--weight-differences",
                                              "--gradient-accumulation-steps", "4")[0].stdout.split())
                self.assertIn("ZeRO++ sends the weights once, as differences in int4:128, and the gradients once a "
                              "micro-step", text)
                self.assertIn("It has no weight differences: its ZeRO++ sends whole weights.", text)
                self.assertRegex(text, r"step in DeepSpeed .* ZeRO\+\+ \(all\) ")
        persist = ["--param-persistence-threshold", "1000000000", "--model-persistence-threshold", "1000000000"]
        for ranks, more, why in ((1, [], "hpZ keeps nothing inside a node here, because a node has one rank."),
                                 (2, persist, "hpZ keeps nothing inside a node here, because weights stay gathered."),
                                 (1, ["--weight-differences", *persist],
                                  "nothing is gathered from the copy that differences are added to here, because "
                                  "weights stay gathered.")):
            result, rows = self.compared(*words, ranks, *more)
            self.assertIn(f"The factor is {rows['all']['reduction']:.2f}, by codecs alone: {why}",
                          " ".join(result.stdout.split()))
            self.assertEqual(rows["all"]["reduction"], rows["qwZ+qgZ"]["reduction"])

    def test_deepspeeds_micro_steps_share_the_secondary_copy(self):
        """Since its pull request 4906: it sends the bytes of the rows, and its micro-steps run one after the other."""
        _, alone = self.told("compare", *JOB[:-1], "1", *SOLD)
        result, told = self.told("compare", *JOB, *SOLD)
        one, rows, four = alone["comparison"], told["comparison"], told["in_turn"]
        names = [*FLAGS, "hybrid"]
        self.assertEqual(four["feature"], names)
        for index, name in enumerate(names):
            row = rows["feature"].index(name)
            with self.subTest(name):
                self.assertEqual(four["bytes_out_of_node"][index], rows["bytes_out_of_node"][row])
                seconds, of_one = four["step_seconds"][index], one["step_seconds"][row]
                self.assertGreaterEqual(seconds, 0.99 * rows["step_seconds"][row])
                self.assertLessEqual(seconds, 4 * of_one)
                if "hpZ" not in name and name not in ("all", "hybrid"):
                    self.assertGreater(seconds, 3.5 * of_one)  # each is like the first, but for the update
        self.assertRegex(result.stdout, fr"step in DeepSpeed .*\n-+\nZeRO-3 (.*\n)+ZeRO\+\+ \(all\) .* "
                         fr"{four['reduction'][5]:.2f} .* {four['speedup'][5]:.2f}\nhybrid \(MiCS\) ")
        text = " ".join(result.stdout.split())
        self.assertIn(f"times as fast in zpp_train, and {four['speedup'][5]:.2f} times in DeepSpeed", text)
        self.assertIn("DeepSpeed sends the bytes of these rows: since January 2024 (its #4906)", text)
        self.assertNotIn("step in DeepSpeed", self.plan("compare", *JOB[:-1], "1", "--output", self.out).stdout)
        without = self.compared(*JOB)[0].stdout
        self.assertIn("DeepSpeed sends the bytes of these rows", " ".join(without.split()))
        self.assertNotIn("step in DeepSpeed", without)

    def test_overlap_that_is_off_is_pointed_at(self):
        """With what it costs: the steps of the same job with it."""
        self.assertNotIn("overlap_comm", self.compared(*JOB, *SOLD)[0].stdout)
        result, rows = self.compared(*JOB, *SOLD, "--no-overlap-comm")
        faster = self.compared(*JOB, *SOLD)[1]
        self.assertIn(f"This job has overlap_comm off. With it (--overlap-comm, \"overlap_comm\": true) ZeRO-3 takes "
                      f"{1e3 * faster['none']['step_seconds']:.1f} ms in place of "
                      f"{1e3 * rows['none']['step_seconds']:.1f}, and ZeRO++ "
                      f"{1e3 * faster['all']['step_seconds']:.1f} in place of {1e3 * rows['all']['step_seconds']:.1f}.",
                      " ".join(result.stdout.split()))
        self.assertLess(faster["all"]["step_seconds"], rows["all"]["step_seconds"])
        self.assertNotIn("overlap_comm", self.compared(*JOB, "--no-overlap-comm")[0].stdout)

    def test_weights_that_stay_gathered_are_said(self):
        said = "ZeRO-3 sends the weights across nodes 8 times, but for weights that stay gathered, and the gradients"
        self.assertNotIn(said, " ".join(self.compared(*JOB)[0].stdout.split()))
        result, rows = self.compared(*JOB, "--max-reuse-distance", "1000")
        self.assertIn(said, " ".join(result.stdout.split()))
        self.assertLess(rows["none"]["bytes_out_of_node"], self.compared(*JOB)[1]["none"]["bytes_out_of_node"])

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
        for row in re.findall(r"(?m)^(?:\+|hybrid ).*$", text.partition("DeepSpeed sends")[0]):
            self.assertRegex(row, r" \d\.\d\d +(?:\d+|always|never) +[a-z]")
        self.assertRegex(text, fr"\n\+hpZ .* {ranges[1]} +c")
        self.assertRegex(" ".join(text.split()), r"every rate between nodes that was tried, 0\.174 to 173913 Gbit/s "
                         r"as sold,")

    def test_bytes_of_a_toy_are_no_zeros(self):
        toy = ["--num-layers", "2", "--hidden-size", "32", "--num-attention-heads", "2", "--seq-length", "16",
               "--vocab-size", "64", "--nodes", "2"]
        text = self.compared(*toy)[0].stdout
        self.assertRegex(text, "[KM]B out of a node")
        self.assertIn("MiB a GPU", text)
        for told in (text, self.told(*toy)[0].stdout, self.told("search", *toy)[0].stdout):
            self.assertNotIn(" GB", told)
            self.assertNotIn(" GiB", told)

    def test_a_gpu_is_a_cluster_file(self):
        """What --gpu stands for can be written, and gives the same answer as a file."""
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

    def test_what_does_not_fit_is_said(self):
        result, _ = self.compared("--model-preset", "gpt-175b", "--bf16", "--nodes", "2", *SOLD)
        text = " ".join(result.stdout.split())
        self.assertRegex(text, r"ZeRO-3, \+qwZ, \+hpZ, \+qgZ, \+qwZ\+qgZ, ZeRO\+\+ \(all\), \+differences, hybrid, "
                         r"hybrid \+qgZ: this needs more than the 79.2 GiB of the GPU H100")
        self.assertIn("No row fits, not even ZeRO-3. With enough memory: ZeRO++", text)
        self.assertEqual(len(re.findall(r" \d+\.\d{3} +-\d+\.\d{3} ", text)), 9, text)

    def test_some_parts_that_are_faster_than_all_are_named(self):
        """Behind whether all of them pay and before where; not where they make the step no faster than ZeRO-3's."""
        cluster = json.loads((CLUSTERS / "h200-dgx.json").read_text())
        cluster["host"] = {**cluster.get("host", {}), "link_gb_per_s": 1.0, "memory_gb_per_s": 200.0}
        slow = ["--cluster", self.write_json("slow.json", cluster), "--hpz-device", "cpu"]
        result, rows = self.compared(*JOB[:-2], *slow)
        text, less = " ".join(result.stdout.split()), rows["qwZ+qgZ"]
        self.assertRegex(text, r"is asked for \(--gain\)\. \+qwZ\+qgZ without the other parts makes a step "
                               fr"{less['speedup']:.2f} times as fast\. It pays ")
        cluster["gpu"]["memory_gb_per_s"] = 100.0  # which codecs wait for
        result, rows = self.compared(*JOB[:-2], "--cluster", self.write_json("slower.json", cluster),
                                     "--hpz-device", "cpu", "--rail-gb-per-s", "500")
        self.assertGreater(rows["qwZ+qgZ"]["speedup"], 2 * rows["all"]["speedup"])
        self.assertLess(max(row["speedup"] for name, row in rows.items() if name != "none"), 1)
        self.assertNotIn("without the other parts", result.stdout)

    def test_what_is_left_of_the_memory_is_said(self):
        result, rows = self.compared(*JOB, *SOLD)
        lines = result.stdout.split("\n\n")[1].splitlines()[2:]
        self.assertEqual(len(lines), len(rows))
        for row, line in zip(rows.values(), lines):
            held, left = (float(value) for value in re.search(r" \d+\.\d\d +(\d+\.\d{3}) +(\d+\.\d{3}) ",
                                                              line).groups())
            self.assertAlmostEqual(held, row["memory"] / 2**30, delta=0.001)
            self.assertAlmostEqual(held + left, 79.2, delta=0.1)
        # The limit that search takes, also without a cluster.
        result, rows = self.compared(*JOB, "--memory-limit", "8")
        self.assertIn("GiB left", result.stdout)
        limited = self.compared(*JOB, *SOLD, "--memory-limit", str(rows["qwZ+qgZ"]["memory"] / 2**30 + 1e-6))[0].stdout
        self.assertIn("ZeRO++ with all parts does not fit here. With enough memory: ", limited)
        self.assertIn("of --memory-limit and does not run there", " ".join(limited.split()))
        self.assertRegex(limited, r"\n\+qwZ\+qgZ .* 0\.000 ")
        self.assertNotIn("--hpz-device", limited)

    def test_hpz_on_the_host_takes_no_memory_for_its_copy(self):
        job = [*MODEL, "--bf16", "--nodes", "4", "--ranks-per-node", "2"]
        on_host, rows = self.compared(*job, "--hpz-device", "cpu")
        there = self.compared(*job)[1]
        self.assertEqual(rows["none"]["memory"], there["none"]["memory"])
        self.assertLessEqual(rows["hpZ"]["memory"], rows["none"]["memory"])
        memory = self.told(*job, "--zero-hpz-partition-size", "2")[1]["memory"]
        copy = dict(zip(memory["name"], memory["bytes"]))["secondary"]
        self.assertEqual(there["hpZ"]["memory"] - rows["hpZ"]["memory"], copy)
        self.assertEqual(there["all"]["memory"] - rows["all"]["memory"], copy)
        self.assertEqual(rows["hpZ"]["bytes_out_of_node"], there["hpZ"]["bytes_out_of_node"])
        text = " ".join(on_host.stdout.split())
        self.assertIn("--zero-quantized-gradients --hpz-device cpu, or in a DeepSpeed JSON", text)
        self.assertIn(', and under zeropp: "hpz_device": "cpu".', text)
        self.assertGreater(there["hpZ"]["memory"], there["none"]["memory"])
        limited = self.compared(*job, "--memory-limit", str(there["none"]["memory"] / 2**30 + 1e-6))[0].stdout
        self.assertIn("; +hpZ would run there with --hpz-device cpu, which leaves the secondary copy to the memory "
                      "of the host",
                      " ".join(limited.split()))

    def test_the_host_is_advised_where_it_makes_a_row_fit(self):
        """To the byte, of what is planned with the copy there, and not where it is there already."""
        differences = ["--weight-differences"]
        for ranks, more in ((2, []), (2, differences), (2, [*differences, "--weight-copy-dtype", "fp32"]),
                            (1, differences),
                            (1, [*differences, "--weight-copy-dtype", "fp32"])):
            job = [*MODEL, "--bf16", "--nodes", "4", "--ranks-per-node", ranks, "--micro-batch-size", "1", *more]
            (_, there), (_, on_host) = self.compared(*job), self.compared(*job, "--hpz-device", "cpu")
            self.assertLess(on_host["all"]["memory"], there["all"]["memory"])
            all_parts = r"\+differences" if more else r"ZeRO\+\+ \(all\)"
            for spare, fits in ((1e-9, True), (-1e-9, False)):
                limit = ["--memory-limit", str(on_host["all"]["memory"] / 2**30 + spare)]
                with self.subTest(ranks=ranks, more=more, fits=fits):
                    text = " ".join(self.compared(*job, *limit)[0].stdout.split())
                    self.assertIn("does not run there", text)
                    self.assertEqual(bool(re.search(rf"{all_parts}[^;:]* would run there with --hpz-device cpu", text)),
                                     fits, text)
                    again = " ".join(self.compared(*job, *limit, "--hpz-device", "cpu")[0].stdout.split())
                    self.assertNotIn("would run there", again)
                    too_large = re.search(rf"{all_parts}(?:, [^:]*)?: this needs more", again)
                    self.assertEqual(bool(too_large), not fits, again)
                    self.assertIn("zpp_plan search finds what fits.", text)

    def test_what_is_assumed_is_said(self):
        head = " ".join(self.compared(*JOB)[0].stdout.split("\n\n")[0].split())
        self.assertIn("activations all kept (--recompute-activations takes less memory)", head)
        again = self.compared(*JOB, "--recompute-activations")[0].stdout
        self.assertIn("activations computed again", " ".join(again.split()))
        self.assertIn("DeepSpeed's own is not predicted", again)

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
        result, rows = self.compared(*words, "--hf-config", self.write_json("config.json", llama))
        self.assertIn("zpp_train has no blocks as the config.json has them", " ".join(result.stdout.split()))
        self.assertNotIn("in zpp_train's flags", result.stdout)
        parameters = 2 * 50257 * 768 + 12 * (2 * 768**2 + 2 * 768 * 256 + 3 * 768 * 2048 + 2 * 768) + 768
        self.assertAlmostEqual(rows["none"]["bytes_out_of_node"] / (3 * parameters), 1, delta=0.01)  # 6 of 2 nodes, / 2
        # A flag overrides what the name says, and the other commands take the name too.
        longer, _ = self.compared(*words, *shape[:-4], "--seq-length", "2048", *shape[-2:])
        self.assertEqual(self.compared(*words, "--model-preset", "gpt2-124m", "--seq-length", "2048")[0].stdout,
                         longer.stdout)
        self.assertEqual(self.told(*words, "--model-preset", "gpt2-124m")[0].stdout,
                         self.told(*words, *shape)[0].stdout)

    def test_known_problems_of_deepspeed_are_named(self):
        """Those that the job of the file meets, and of no job without a file."""
        heading = "Known problems of DeepSpeed with a job like this (docs/howto/deepspeed-versions.md):"
        words = [*MODEL, "--ranks-per-node", "8"]
        offload = {"offload_optimizer": {"device": "cpu"}}
        mended = {"#7606", "#7707", "#7164", "#5059", "#5216", "#4851", "#4906"}
        for nodes, zero, precision, met in ((4, {}, "bf16", {"#3992", "#4852", "#7775", "#8215"}),
                                            (4, {}, "fp16", set()), (3, {}, "fp16", {"#4386"}),
                                            (4, offload, "fp16", {"#6926", "#6889", "#3697"})):
            with self.subTest(nodes=nodes, zero=zero, precision=precision):
                file = {"train_micro_batch_size_per_gpu": 1, precision: {"enabled": True},
                        "zero_optimization": {"stage": 3, **zero}}
                text = self.compared(*words, "--nodes", nodes, "--deepspeed_config",
                                     self.write_json("ds.json", file))[0].stdout
                lines = " ".join(text.partition(heading)[2].partition("The model in")[0].split())
                self.assertEqual(set(re.findall(r"#\d+", lines)), met | mended, text)
        self.assertNotIn("Known problems", self.compared(*words, "--bf16", "--nodes", "3")[0].stdout)

    def test_only_gpus_that_were_compared_have_an_error(self):
        for gpu, compared in (("h200", True), ("v100", True), ("a100", False), ("l40s", False)):
            precision = "--fp16" if gpu == "v100" else "--bf16"
            text = " ".join(self.compared(*MODEL, precision, "--nodes", "2", "--gpu", gpu, "--node-gbit",
                                          "100")[0].stdout.split())
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
