# ctest: name=contract3_gpu_train timeout=600 labels=gpu,cli processors=4
"""The trainer on GPUs: over NCCL and through host memory, with all features; the same bits on every run, with hpZ on
and off, and with either transport; close to the host; refusals where ranks outnumber GPUs."""

import json
import math

import zpp


GPUS = zpp.gpus()

# Ranks and transports that this machine can run.
PLACES = [(1, "nccl"), (1, "mpi"), (2, "mpi"), (4, "mpi")] + [(n, "nccl") for n in (2, 4, 8) if n <= len(GPUS)]
FEATURES = ["--zero-quantized-weights", "--zero-quantized-gradients", "--deterministic", "--train-iters", "6"]


def counters_of(groups):
    return dict(zip(groups["counters"]["name"], groups["counters"]["value"]))


class GpuTrain(zpp.TestCase):
    def run_on(self, ranks, transport, *words, name="out"):
        out = self.folder / name
        self.check_ok(self.train(ranks, "--backend", "cuda", "--transport", transport, *words, out=out))
        judged = zpp.check_trace(out / "train.h5")
        self.assertEqual(judged.stdout, "VALID\n", judged)
        return self.trace(out)

    def run_all(self, run, cases, transport_of):
        """{case: run(case)}. Jobs over NCCL run alone: their kernels wait on the GPU, and would take turns with
        others."""
        nccl = [case for case in cases if transport_of(case) == "nccl"]
        others = [case for case in cases if transport_of(case) != "nccl"]
        return {case: run(case) for case in nccl} | dict(zip(others, zpp.side_by_side(run, others, gpus=True)))

    def test_every_place_stage_and_dtype(self):
        cases = [(*place, *kind) for place in PLACES
                 for kind in (("--bf16", "3"), ("--fp16", "3"), ("--no-bf16", "2"), ("--fp16", "1"), ("--no-bf16", "1"),
                              ("--bf16", "0"))]
        traces = self.run_all(lambda case: self.run_on(case[0], case[1], case[2], "--zero-stage", case[3],
                                                       name="".join(map(str, case))), cases, lambda case: case[1])
        for (ranks, transport, dtype, stage), (root, groups) in traces.items():
            with self.subTest(ranks=ranks, transport=transport, dtype=dtype, stage=stage):
                self.assertEqual((root["backend"], root["transport"]), ("cuda", transport))
                self.assertIn("attention=", root["kernels"])
                self.assertEqual(groups["ranks"]["gpu"], [GPUS[0]["name"]] * ranks)
                self.assertTrue(all(math.isfinite(loss) for loss in groups["steps"]["loss"]))

    def test_same_bits_on_every_run_with_hpz_on_and_off_and_either_transport(self):
        for ranks in sorted({ranks for ranks, _ in PLACES if ranks > 1}):
            cases = [(transport, hpz, run) for transport in (t for r, t in PLACES if r == ranks)
                     for hpz in ("1", "2") for run in ("a", "b")]
            traces = self.run_all(
                lambda case, ranks=ranks: self.run_on(ranks, case[0], *FEATURES, "--bf16", "--node-size", "2",
                                                      "--zero-hpz-partition-size", case[1],
                                                      name=str(ranks) + "".join(case)), cases, lambda case: case[0])
            hashes = {case: (root["parameters_hash"], tuple(groups["steps"]["loss"]))
                      for case, (root, groups) in traces.items()}
            self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_close_to_the_host(self):
        words = ["--train-iters", "10", "--lr", "0.001"]
        self.check_ok(self.train(1, *words, out=self.folder / "host"))
        host = self.trace(self.folder / "host")[1]["steps"]["loss"]
        for dtype, tolerance in (("--no-bf16", 1e-4), ("--bf16", 2e-2), ("--fp16", 2e-2)):
            cuda = self.run_on(1, "nccl", *words, dtype, name="cuda" + dtype)[1]["steps"]["loss"]
            for step, (a, b) in enumerate(zip(cuda, host)):
                self.assertLess(abs(a - b), tolerance * b, f"step {step} {dtype}: {a} on the GPU, {b} on the host")

    def test_autotuning_trains_as_well_and_is_in_the_trace(self):
        words = ["--train-iters", "10", "--lr", "0.001", "--bf16"]
        plain = self.run_on(1, "nccl", *words, name="plain")
        tuned = self.run_on(1, "nccl", *words, "--autotune-gemm", name="tuned")
        self.assertNotIn("products=", plain[0]["kernels"])
        self.assertTrue(tuned[0]["kernels"].endswith(", products=tuned"), tuned[0]["kernels"])
        for step, (a, b) in enumerate(zip(tuned[1]["steps"]["loss"], plain[1]["steps"]["loss"])):
            self.assertLess(abs(a - b), 2e-2 * b, f"step {step}: {a} tuned, {b} by the heuristics")

    def test_copy_engines_change_no_bit(self):
        if len(GPUS) < 2:
            self.skipTest("needs two GPUs")
        ranks = 4 if len(GPUS) >= 4 else 2
        # Encoded in 4 bits a quarter of a block's weights is 4 MiB: long enough for them.
        shape = ["--bf16", "--hidden-size", "1664", "--num-attention-heads", "13"]
        quantized = ["--zero-quantized-weights", "--zero-quantized-gradients"]
        for name, words in (("plain", ["--all-gather-algorithm", "direct", "--reduce-scatter-algorithm", "1-hop"]),
                            ("quantized", quantized), ("hpz", [*quantized, "--zero-hpz-partition-size", str(ranks)]),
                            ("nodes", [*quantized, "--node-size", str(ranks // 2)] if ranks == 4 else quantized)):
            hashes = {}
            for engines in ("on", "off"):
                root = self.run_on(ranks, "nccl", *shape, *words, "--copy-engines", engines, name=name + engines)[0]
                self.assertEqual(json.loads(root["config_json"])["zeropp"]["copy_engines"], engines)
                hashes[engines] = root["parameters_hash"]
            self.assertEqual(len(set(hashes.values())), 1, (name, hashes))

    def test_updates_write_kept_images(self):
        for codec, kernel in (("int8:256", True), ("int6:64", False)):
            groups = self.run_on(1, "nccl", "--bf16", "--zero-quantized-weights", "--weight-codec", codec,
                                 "--keep-weight-images", name=codec)[1]
            counters = counters_of(groups)
            self.assertEqual(("weight_images_by_updates" in counters,
                              "weight_image_tables" in groups["memory"]["name"]), (kernel, kernel))
            self.assertGreater(counters["weight_images_encoded"], 0)

    def test_updates_write_what_units_that_stay_send(self):
        for codec, kernel in (("int8:256", True), ("int6:64", False)):
            groups = self.run_on(1, "nccl", "--bf16", "--zero-quantized-weights", "--weight-codec", codec,
                                 "--param-persistence-threshold", "1000000000", name=codec)[1]
            self.assertEqual(("refreshes_by_updates" in counters_of(groups),
                              "weight_image_tables" in groups["memory"]["name"]), (kernel, kernel))

    def test_lanes_change_no_bit(self):
        ranks = min(4, len(GPUS) // 2 * 2)
        if ranks == 0:
            self.skipTest("needs two GPUs")
        # Weights of a block are longer than what one lane takes.
        words = [*FEATURES, "--bf16", "--node-size", ranks // 2, "--hidden-size", "512", "--num-attention-heads", "8"]
        hashes = {lanes: self.run_on(ranks, "nccl", *words, "--rail-lanes", lanes,
                                     name="lanes" + lanes)[0]["parameters_hash"]
                  for lanes in ("1", "4")}
        self.assertEqual(len(set(hashes.values())), 1, hashes)

    def test_more_ranks_than_gpus(self):
        self.check_fails(self.train(2, "--backend", "cuda", env={"CUDA_VISIBLE_DEVICES": "0"}), zpp.ENVIRONMENT,
                         "2 ranks", "share 1 visible GPU", "--transport mpi")

    def test_auto_takes_the_host_where_ranks_would_share(self):
        self.check_ok(self.train(2, "--backend", "auto", env={"CUDA_VISIBLE_DEVICES": "0"}))
        self.assertEqual(self.trace()[0]["backend"], "host")
        self.check_ok(self.train(1, "--backend", "auto", out=self.folder / "one"))
        self.assertEqual(self.trace(self.folder / "one")[0]["backend"], "cuda")


if __name__ == "__main__":
    zpp.main()
