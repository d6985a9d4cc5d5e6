# ctest: name=loss_scale labels=cli timeout=120 processors=2
"""zpp_train in fp16: the dynamic loss scale falls until gradients fit, and training continues. At the minimum of the
scale training ends, gives the reason, and leaves an INVALID trace. The loss is close to the loss in fp32, and two
precisions at once are refused."""

import zpp

SEARCH = ["--fp16", "--initial-scale-power", "24", "--hysteresis", "1"]


class LossScale(zpp.TestCase):
    def test_falls_until_gradients_fit(self):
        result = self.train(2, *SEARCH, "--train-iters", "20", "--log-interval", "1")
        self.check_ok(result)
        self.assertIn("SKIPPED: non-finite gradient at loss scale 16777216", result.stdout)
        root, groups = self.trace()
        self.assertEqual(root["verdict"], "VALID")
        skipped = sum(groups["steps"]["skipped"])
        self.assertEqual(groups["steps"]["skipped"], [1] * skipped + [0] * (20 - skipped))
        self.assertTrue(0 < skipped < 15, skipped)
        self.assertEqual(groups["steps"]["loss_scale"], [2.0 ** (24 - min(step, skipped)) for step in range(20)])
        counters = dict(zip(groups["counters"]["name"], groups["counters"]["value"]))
        self.assertEqual(counters["nonfinite_steps"], 2 * skipped, "on each rank")

    def test_ends_where_it_cannot_fall(self):
        result = self.train(2, *SEARCH, "--min-loss-scale", 2**23, "--train-iters", "20")
        self.assertEqual(result.code, zpp.INVALID, result)
        self.assertIn("INVALID: training gave up: gradients are not finite at loss scale 8388608: choose",
                      result.stdout)
        self.assertEqual(self.trace()[1]["steps"]["loss_scale"], [2.0**24, 2.0**23])
        judged = zpp.check_trace(self.out / "train.h5")
        self.assertEqual(judged.code, zpp.INVALID, judged)
        self.assertIn("2 steps of 20", judged.stdout)

    def test_trains_as_fp32_does(self):
        losses = {}
        for name, words in (("fp32", []), ("dynamic", ["--fp16", "--initial-scale-power", "8"]),
                            ("fixed", ["--fp16", "--loss-scale", "1000"])):
            self.check_ok(self.train(2, *words, "--train-iters", "30", out=self.folder / name))
            losses[name] = self.trace(self.folder / name)[1]["steps"]["loss"]
        exact = losses.pop("fp32")
        self.assertLess(exact[-1], 0.95 * exact[0])
        for name, found in losses.items():
            for step, (a, b) in enumerate(zip(found, exact)):
                self.assertLess(abs(a - b), 2e-3 * b, f"step {step} with {name}: {a}, in fp32 {b}")

    def test_a_scale_that_is_too_small(self):
        """Below the smallest normal number of fp32 it is refused; where no gradient is left, a warning says so."""
        for scale in ("1e-50", "1e-40"):
            self.check_fails(self.train(1, "--fp16", "--loss-scale", scale), zpp.USAGE, "fp16.loss_scale",
                             "give a larger one")
        result = self.train(1, "--fp16", "--loss-scale", "1e-30", "--train-iters", "3")
        self.assertEqual((result.code, "VALID" in result.stdout), (zpp.OK, True), result)
        self.assertEqual(result.stderr.count("the norm of the gradients is 0 in all 3 steps"), 1, result)
        self.assertNotIn("norm of the gradients", self.train(1, "--fp16", "--loss-scale", "64").stderr)

    def test_one_precision_at_a_time(self):
        self.check_fails(self.train(1, "--fp16", "--bf16"), zpp.USAGE, "fp16.enabled and bf16.enabled",
                         "leave one of them out")
        self.check_fails(self.train(1, "--loss-scale", "8"), zpp.USAGE, "fp16.loss_scale", "fp16.enabled")


if __name__ == "__main__":
    zpp.main()
