# ctest: name=plan_trace timeout=150 labels=cli processors=2
"""zpp-validate check on the traces of zpp_plan: VALID for random jobs of every command, with bytes, messages and memory
derived again; INVALID, with the reason, for every number that is changed."""

import random
import shutil

import h5py

import planned
import zpp
from zpp_validate.checkers import check_trace

SEED, RANDOM_JOBS = 7, 25
CLUSTER = ["--cluster", zpp.SOURCE / "inputs" / "clusters" / "h200-dgx.json"]
SMALL = ["--num-layers", "3", "--hidden-size", "64", "--seq-length", "32", "--vocab-size", "300", "--bf16"]
FEATURES = ["--nodes", "3", "--ranks-per-node", "4", "--zero-quantized-weights", "--zero-hpz-partition-size", "4",
            "--zero-quantized-gradients"]
SCHEDULE = '{"zeropp": {"codec_schedule": [{"from_step": 2, "units": ["block"], "weight_codec": "int4:64"}]}}'


def random_job(generator):
    pick = generator.choice
    nodes, local, stage = generator.randrange(1, 40), pick([1, 2, 3, 8, 16]), pick([0, 1, 2, 3, 3])
    words = ["--nodes", nodes, "--ranks-per-node", local, "--zero-stage", stage,
             "--num-layers", generator.randrange(1, 6),
             "--hidden-size", pick([32, 96, 1024]), "--num-attention-heads", pick([1, 2, 4]),
             "--vocab-size", generator.randrange(2, 60_000),
             "--seq-length", 16, "--gradient-accumulation-steps", pick([1, 2, 5]),
             "--reduce-bucket-size", pick([4096, 300_000, 500_000_000]),
             "--optimizer", pick(["AdamW", "Lion", "SGD"]),
             "--all-gather-algorithm", pick(["flat", "native", "native-images", "direct", "two-level"]),
             *pick([[], ["--no-tied-head"]]), *pick([["--bf16"], ["--fp16"]]),
             *pick([[], ["--num-key-value-heads", 1]]), *pick([[], ["--head-dim", pick([8, 64])]]),
             *pick([[], ["--ffn-hidden-size", 80]]), *pick([[], ["--model", "llama", *pick([[], ["--add-qkv-bias"]])]])]
    if pick([True, False]):
        words += ["--reduce-scatter-algorithm", pick(["flat", "native", "ordered"])]
    elif stage > 0:
        words += ["--zero-quantized-gradients", "--gradient-codec-intra", pick(["int8:64", "int4:2048"]),
                  "--gradient-codec-inter",
                  pick(["int4:256", "int5:32"]), "--reduce-scatter-algorithm", "2-hop"]
        words += ["--pipeline-depth", pick([1, 3, 8])] if "native" not in words else []
    if stage == 3 and nodes * local % 4 == 0 and (local % 4 == 0 or 4 % local == 0) and pick([True, False]):
        words += ["--zero-hpz-partition-size", 4]
    return list(map(str, words))


class PlanTrace(zpp.TestCase):
    def made(self, *words):
        self.check_ok(zpp.Process([planned.PLAN, *words, "--output", self.out]).end())
        return self.out / "plan.h5"

    def test_every_command(self):
        config = self.folder / "config.json"
        config.write_text(SCHEDULE)
        for words in (["--num-layers", "2"], [*SMALL, *FEATURES], [*SMALL, *FEATURES, "--error-feedback", "both"],
                      ["--model", "quadratic", "--zero-stage", "2"],
                      ["--model", "llama", *SMALL, "--num-key-value-heads", "1"],
                      [*SMALL, *FEATURES, "--config", config, "--step", "1"],
                      [*SMALL, *FEATURES, "--config", config, "--step", "2"],
                      [*SMALL, *FEATURES, "--measure-quantization-error", "1"],
                      ["search", *SMALL, "--nodes", "1,2", "--ranks-per-node", "2"],
                      ["search", *SMALL, "--nodes", "2", *CLUSTER, "--goal", "time"],
                      ["time", *SMALL, "--nodes", "2", *CLUSTER], ["breakeven", *SMALL, "--nodes", "2", *CLUSTER],
                      ["compare", *SMALL, "--nodes", "2"], ["compare", *SMALL, "--nodes", "2", *CLUSTER]):
            with self.subTest(words=words):
                self.assertEqual(check_trace.judge(self.made(*words)), [])

    def test_random_jobs(self):
        generator = random.Random(SEED)
        refused = 0
        for _ in range(RANDOM_JOBS):
            words = random_job(generator)
            with self.subTest(" ".join(words)):
                result = zpp.Process([planned.PLAN, *words, "--output", self.out]).end()
                if result.code == zpp.USAGE:  # an option without effect, or heads that do not divide
                    refused += 1
                    continue
                self.check_ok(result)
                self.assertEqual(check_trace.judge(self.out / "plan.h5"), [])
        self.assertLess(refused, RANDOM_JOBS // 3)

    def changed(self, path, group, column, value):
        """A copy with another value in the first row, or in an attribute of a group."""
        copy = self.folder / "changed.h5"
        shutil.copyfile(path, copy)
        with h5py.File(copy, "r+") as file:
            if column in file[group]:
                values = file[group][column][()]
                values[0] = value(values[0])
                file[group][column][...] = values
            else:
                file[group].attrs.modify(column,
                                         file[group].attrs.get_id(column).dtype.type(value(file[group].attrs[column])))
        return copy

    def test_a_changed_number_is_found(self):
        more = lambda value: value + 1
        cases = {(*SMALL, *FEATURES): [("job", "world_size", more), ("job", "parameters", more),
                                       ("job", "memory_bytes", more),
                                       ("job", "tokens_per_step", more), ("job", "flops_per_step", lambda _: -1),
                                       ("units", "elements", more),
                                       ("tensors", "elements", lambda value: 2 * value), ("memory", "bytes", more),
                                       *(("traffic", f"{kind}_{link}_node", more) for kind in ("bytes", "messages")
                                         for link in ("intra", "inter")),
                                       *(("collectives", name, more)
                                         for name in ("calls", "modelled", "wire_bytes_intra", "wire_bytes_inter",
                                                      "messages_intra", "messages_inter"))],
                 ("search", *SMALL, "--nodes", "2", "--ranks-per-node", "2"):
                     [("searches", "possible", lambda _: 0), ("candidates", "memory", lambda _: 0),
                      ("candidates", "nodes", lambda _: 9)],
                 ("time", *SMALL, "--nodes", "2", *CLUSTER): [("time", "step_seconds", lambda value: 2 * value),
                                                              ("time", "forward_seconds", lambda value: -value),
                                              ("time", "mfu", lambda _: 1.5), ("timeline", "begin", lambda _: 1e9)],
                 ("breakeven", *SMALL, "--nodes", "2", *CLUSTER): [("break_even", "speedup", more),
                                                                   ("break_even", "link_rate", lambda _: -1.0),
                                                                   ("break_even", "step_seconds",
                                                                    lambda _: float("nan"))],
                 ("compare", *SMALL, "--nodes", "2", *CLUSTER): [("comparison", "bytes_out_of_node", more),
                                                                 ("comparison", "reduction", more),
                                                                 ("comparison", "memory", lambda _: 0),
                                                                 ("comparison", "step_seconds", more),
                                                                 ("comparison", "speedup", more),
                                                                 ("comparison", "link_rate", lambda _: -1.0),
                                                                 *(("in_turn", name, more)
                                                                   for name in ("bytes_out_of_node", "reduction",
                                                                                "step_seconds",
                                                                                "speedup"))]}
        for words, changes in cases.items():
            path = self.made(*words)
            self.assertEqual(check_trace.judge(path), [])
            for group, column, value in changes:
                with self.subTest(group=group, column=column):
                    reasons = check_trace.judge(self.changed(path, group, column, value))
                    self.assertTrue(reasons)
                    self.assertTrue(any(f"/{group}" in reason or "follows" in reason or "/traffic" in reason
                                        for reason in reasons), reasons)

    def test_rows_of_hybrid_sharding_are_checked(self):
        path = self.made("compare", *SMALL, "--nodes", "2", *CLUSTER)
        copy = self.folder / "changed.h5"
        with h5py.File(path) as file:
            columns = list(file["comparison"])
            hybrid = list(file["comparison/feature"].asstr()[()]).index("hybrid")  # the first of the two
        # One of the two is missing, they are swapped, they are others.
        for change in (lambda values: values[[row for row in range(len(values)) if row != hybrid + 1]],
                       lambda values: values[[*range(hybrid), hybrid + 1, hybrid, *range(hybrid + 2, len(values))]],
                       lambda values: values[[*range(hybrid), 0, 0, *range(hybrid + 2, len(values))]]):
            shutil.copyfile(path, copy)
            with h5py.File(copy, "r+") as file:
                for column in columns:
                    made = file["comparison"][column]
                    values, attributes = change(made[()]), dict(made.attrs)
                    del file["comparison"][column]
                    file["comparison"].create_dataset(column, data=values, dtype=made.dtype, fletcher32=True,
                                                      chunks=values.shape).attrs.update(attributes)
            self.assertIn("/comparison has not exactly", " ".join(check_trace.judge(copy)))
        for column, value in (("memory", 0), ("speedup", 9.0), ("reduction", 9.0), ("step_seconds", float("nan"))):
            with self.subTest(column):
                shutil.copyfile(path, copy)
                with h5py.File(copy, "r+") as file:
                    file["comparison"][column][hybrid + 1] = value
                self.assertTrue(any("hybrid+qgZ" in reason or "times of some rows alone" in reason
                                    for reason in check_trace.judge(copy)))


if __name__ == "__main__":
    zpp.main()
