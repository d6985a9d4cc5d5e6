# ctest: name=hpz_warning timeout=240 labels=cli,nightly processors=4
"""zpp_train and zpp_plan warn in the same line where hpZ saves nothing, because limits of stage 3 keep all weights, and
where its groups cross nodes, and where weight differences save nothing; the remedy that the line names makes it work,
and then there is no warning."""

import json

import planned
import zpp

# The limits of a large model, as DeepSpeed's users have them.
LARGE = {"stage3_param_persistence_threshold": 56320, "stage3_max_live_parameters": 1e9,
         "stage3_max_reuse_distance": 1e9}
ZEROPP = {"stage": 3, "zero_quantized_weights": True, "zero_quantized_gradients": True, "zero_hpz_partition_size": 2}
MODEL = ["--num-layers", 2, "--num-attention-heads", 2, "--seq-length", 16, "--vocab-size", 300, "--node-size", 2]
PERSISTENCE = "zero_optimization.stage3_param_persistence_threshold 56320"
REUSE = ("zero_optimization.stage3_max_reuse_distance 1000000000 (with zero_optimization.stage3_max_live_parameters "
         "1000000000)")
NOTHING = ("zero_optimization.zero_hpz_partition_size 2 saves nothing here: a step gathers each weight only once and "
           "keeps it, because the model is "
           "small for {}: scale such limits with the model, or set them to 0")
CROSSES = ("zero_optimization.zero_hpz_partition_size 4 is more than the 2 ranks of a node: the groups that hold a "
           "secondary copy cross nodes, and so "
           "do the gathers of backward: set it to 2, unless memory forbids it")

# (what it is, hidden size, what the file has beside ZEROPP, the line)
CASES = [
    ("all units persist, and would be kept", 32, LARGE, NOTHING.format(f"{PERSISTENCE} and {REUSE}")),
    ("all units persist", 32, {**LARGE, "stage3_max_reuse_distance": 0}, NOTHING.format(PERSISTENCE)),
    ("all are kept", 32, {**LARGE, "stage3_param_persistence_threshold": 0}, NOTHING.format(REUSE)),
    ("some persist, and the others are kept", 72, LARGE, NOTHING.format(REUSE)),
    ("some persist", 72, {**LARGE, "stage3_max_reuse_distance": 0}, None),
    ("none is kept", 32, {**LARGE, "stage3_param_persistence_threshold": 0, "stage3_max_reuse_distance": 0}, None),
    ("there is no room to keep them", 32, {"stage3_max_reuse_distance": 1e9, "stage3_max_live_parameters": 0}, None),
    ("groups cross nodes", 32, {"zero_hpz_partition_size": 4}, CROSSES),
    ("hpZ is off", 32, {**LARGE, "zero_hpz_partition_size": 1}, None),
]


class HpzWarning(zpp.TestCase):
    def config(self, more):
        return self.write_json("ds.json", {"bf16": {"enabled": True}, "zero_optimization": {**ZEROPP, **more}})

    def warnings(self, result):
        self.assertEqual(result.code, zpp.OK, result)
        return [line.split(": warning: ")[1] for line in result.stderr.splitlines() if ": warning: " in line
                and zpp.NO_RING not in line]

    def plan(self, command, words):
        return zpp.Process([planned.PLAN, *command, *words, "--nodes", 2, "--output", self.folder / "plan"],
                           cwd=self.folder).end()

    def test_the_trainer_and_the_planner_say_it(self):
        for what, hidden, more, line in CASES:
            words = ["--deepspeed_config", self.config(more), *MODEL, "--hidden-size", hidden]
            expected = [line] if line else []
            with self.subTest(what):
                trained = self.train(4, *words, "--gradient-accumulation-steps", 2, "--train-iters", 1,
                                     "--json", self.folder / "run.json")
                self.assertEqual(self.warnings(trained), expected)
                purposes = json.loads((self.folder / "run.json").read_text())["collectives"]["purpose"]
                works = more.get("zero_hpz_partition_size") != 1 and not (line or "").startswith(NOTHING.split("{")[0])
                self.assertEqual("weights_secondary" in purposes, works)
                for command in (["estimate"], ["time", "--gpu", "h100", "--node-gbit", 400]):
                    self.assertEqual(self.warnings(self.plan(command, words)), expected, command)

    def test_weight_differences_without_anything_to_exchange(self):
        """The copies of nodes of one rank are there for differences alone; nothing is gathered from them where all
        units persist."""
        config = self.write_json("ds.json", {"bf16": {"enabled": True},
                                             "zero_optimization": {"stage": 3, "zero_quantized_weights": True,
                                                                    "stage3_param_persistence_threshold": 56320}})
        persist = ("nothing here: a step gathers each weight only once and keeps it, because the model is small for "
                   f"{PERSISTENCE}: scale such limits with the model, or set them to 0")
        for size, subject in ((1, "zeropp.weight_differences saves"),
                              (2, "zero_optimization.zero_hpz_partition_size 2 and zeropp.weight_differences save")):
            words = ["--deepspeed_config", config, *MODEL[:-1], size, "--zero-hpz-partition-size", size,
                     "--weight-differences", "--hidden-size"]
            for hidden, expected in ((32, [f"{subject} {persist}"]), (128, [])):
                with self.subTest(size=size, hidden=hidden):
                    self.assertEqual(self.warnings(self.plan(["estimate"], [*words, hidden])), expected)
                    trained = self.train(2 * size, *words, hidden, "--train-iters", 1)
                    self.assertEqual(self.warnings(trained), expected)

    def test_the_comparison_names_the_limits_too(self):
        words = ["--deepspeed_config", self.write_json("stage3.json", {"zero_optimization": {"stage": 3, **LARGE}}),
                 *MODEL, "--hidden-size", 32]
        self.assertEqual(self.warnings(self.plan(["compare"], words)), [NOTHING.format(f"{PERSISTENCE} and {REUSE}")])


if __name__ == "__main__":
    zpp.main()
