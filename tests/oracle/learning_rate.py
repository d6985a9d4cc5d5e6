# ctest: name=learning_rate timeout=120 labels=oracle processors=2
"""The rates in the traces of every schedule equal the rates of DeepSpeed's schedulers. The schedulers here are written
from their description, as objects that are stepped after each taken step, not by the closed form of the library and the
trace checker."""

import json
import math
import random

import zpp


class Scheduler:
    """The common part of all schedulers: a counter that begins at -1, and the latest rate."""

    def __init__(self, lr, params):
        self.lr, self.params, self.count = lr, params, -1
        self.warmup = max(2, params.get("warmup_num_steps", 1000))
        self.current = self.first()

    def step(self):
        self.count += 1
        self.current = self.rate()

    def first(self):
        return self.params.get("warmup_min_lr", 0.0)

    def rising(self):
        if self.params.get("warmup_type", "log") == "log":
            return math.log(1 + self.count, self.warmup)
        return self.count / self.warmup

    def factor(self):
        return self.rising() if self.count < self.warmup else self.falling()

    def rate(self):
        low = self.params.get("warmup_min_lr", 0.0)
        high = self.params.get("warmup_max_lr", self.default_high())
        return low + self.factor() * (high - low)

    def default_high(self):
        return self.lr


class WarmupLR(Scheduler):
    def falling(self):
        return 1.0


class WarmupDecayLR(Scheduler):
    def falling(self):
        total = self.params["total_num_steps"]
        return max(0.0, (total - self.count) / max(1, total - self.warmup))

    def default_high(self):
        return 0.001


class WarmupCosineLR(Scheduler):
    def first(self):
        return 0.0

    def rate(self):
        if self.count < self.warmup:
            low = self.params.get("warmup_min_ratio", 0.0)
            return self.lr * (low + (1 - low) * self.rising())
        low = self.params.get("cos_min_ratio", 0.0001)
        after = max(1, self.params["total_num_steps"] - self.warmup)
        angle = math.pi * min(after, self.count - self.warmup + 1) / after
        return self.lr * (low + (1 - low) * math.cos(angle / 2) ** 2)


class Constant(Scheduler):
    def first(self):
        return self.lr

    rate = first


KINDS = {"constant": Constant, "WarmupLR": WarmupLR, "WarmupDecayLR": WarmupDecayLR, "WarmupCosineLR": WarmupCosineLR}
SHAPES = {"warmup_type": lambda draw: draw.choice(["log", "linear"]),
          "warmup_num_steps": lambda draw: draw.randint(1, 8)}
READS = {
    "constant": {},
    "WarmupLR": {**SHAPES, "warmup_min_lr": lambda draw: draw.uniform(0, 1e-3),
                 "warmup_max_lr": lambda draw: draw.uniform(1e-3, 1e-2)},
    "WarmupDecayLR": {**SHAPES, "warmup_min_lr": lambda draw: draw.uniform(0, 1e-3),
                      "warmup_max_lr": lambda draw: draw.uniform(1e-3, 1e-2)},
    "WarmupCosineLR": {**SHAPES, "warmup_min_ratio": lambda draw: draw.random(),
                       "cos_min_ratio": lambda draw: draw.random()},
}


class LearningRate(zpp.TestCase):
    def run_with(self, numbered):
        index, (lr, kind, params, words) = numbered
        out = self.folder / str(index)
        scheduler = {"type": kind, **({"params": params} if params else {})}
        optimizer = {"type": "AdamW", **({"params": {"lr": lr}} if lr is not None else {})}
        config = self.write_json(f"{index}.json", {"optimizer": optimizer, "scheduler": scheduler})
        self.check_ok(self.train(1, "--config", config, "--train-iters", 14, *words, out=out))
        checked = zpp.check_trace(out / "train.h5")
        self.assertEqual(checked.code, zpp.OK, checked)
        return self.trace(out)[1]["steps"]

    def test_traces_follow_the_schedulers(self):
        draw = random.Random(17)
        cases = []
        for kind, reads in READS.items():
            for turn in range(3 if reads else 1):
                params = {name: value(draw) for name, value in reads.items() if turn == 0 or draw.random() < 0.7}
                if kind in ("WarmupDecayLR", "WarmupCosineLR"):
                    params["total_num_steps"] = draw.randint(3, 12)
                lr = None if "warmup_max_lr" in params or (kind == "WarmupDecayLR") else draw.uniform(1e-4, 1e-2)
                cases.append((lr, kind, params, ["--model", "quadratic"]))
        # Steps that are skipped do not move it: gradients of this run overflow at 2^17.
        cases.append((0.003, "WarmupCosineLR", {"warmup_num_steps": 4, "total_num_steps": 9},
                      ["--fp16", "--initial-scale-power", 20, "--hysteresis", 1, "--loss-scale-window", 4]))
        skips = 0
        for (lr, kind, params, _), steps in zip(cases, zpp.side_by_side(self.run_with, enumerate(cases))):
            with self.subTest(kind=kind, params=params):
                scheduler = KINDS[kind](1e-3 if lr is None else lr, params)
                self.assertEqual(len(steps["skipped"]), 14)
                for found, skipped in zip(steps["learning_rate"], steps["skipped"]):
                    self.assertAlmostEqual(found, scheduler.current, delta=1e-12 * max(1e-3, scheduler.current))
                    if not skipped:
                        scheduler.step()
                skips += sum(steps["skipped"])
        self.assertGreater(skips, 1, "no step was skipped")

    def test_what_is_missing_or_of_no_effect_is_refused(self):
        for scheduler, lr, part in (({"type": "WarmupDecayLR"}, 1e-3, "total_num_steps"),
                                    ({"type": "OneCycle"}, 1e-3, "scheduler.type")):
            with self.subTest(scheduler=scheduler):
                config = self.write_json("refused.json", {"optimizer": {"params": {"lr": lr}}, "scheduler": scheduler})
                self.check_fails(self.train(1, "--config", config, out=self.out), zpp.USAGE, part)
        flags = ["--scheduler", "WarmupLR", "--warmup-max-lr", 0.01, "--lr", 0.002]
        self.check_fails(self.train(1, *flags), zpp.USAGE, "optimizer.params.lr 0.002")

    def test_a_rate_beside_another_highest_rate_counts_for_nothing_in_a_file(self):
        for scheduler, highest, why in (
                ({"type": "WarmupLR", "params": {"warmup_max_lr": 0.01}}, 0.01,
                 "the given scheduler.params.warmup_max_lr"),
                ({"type": "WarmupDecayLR", "params": {"total_num_steps": 9}}, 0.001,
                 "the default of scheduler.params.warmup_max_lr with scheduler.type WarmupDecayLR")):
            with self.subTest(scheduler=scheduler):
                config = self.write_json("both.json", {"optimizer": {"params": {"lr": 0.002}}, "scheduler": scheduler})
                result = self.train(1, "--config", config)
                self.assertEqual(result.code, zpp.OK, result)
                (line,) = [said for said in result.stderr.splitlines() if zpp.LEFT_OUT not in said]
                self.assertIn(f"optimizer.params.lr 0.002 is not used: the learning rate rises to {highest}, {why}",
                              line)
                self.assertIn("set scheduler.params.warmup_max_lr to 0.002", line)
                effective = json.loads(self.trace()[0]["config_json"])
                self.assertEqual(effective["scheduler"]["params"]["warmup_max_lr"], highest)
                scheduler["params"]["warmup_max_lr"] = 0.002
                remedied = self.write_json("remedied.json",
                                           {"optimizer": {"params": {"lr": 0.002}}, "scheduler": scheduler})
                self.check_ok(self.train(1, "--config", remedied))


if __name__ == "__main__":
    zpp.main()
