# ctest: name=converge_text timeout=120 labels=cli,nightly processors=4
"""The matrices on a corpus of tokens, with a small model instead of theirs. They run on teams of one rank and of
several ranks. Weights and gradients of a single rank pass through the codecs. corpus.json's flags name the data."""

import json
import shutil

import token_file_writer
import zpp

from zpp_validate.readers import converge_file

PROGRAM = str(zpp.BIN / "zpp_converge")
INPUTS = zpp.SOURCE / "inputs" / "convergence"


class ConvergeText(zpp.TestCase):
    def setUp(self):
        super().setUp()
        words = b"".join(page.read_bytes() for page in sorted((zpp.SOURCE / "docs").rglob("*.md")))
        (self.folder / "ids").write_bytes(token_file_writer.llmc(list(words[:40000])))
        self.data = ["--data-source", "llmc", "--data-path", self.folder / "ids", "--held-out-fraction", "0.1",
                     "--data-vocab-size", "256"]

    def smaller(self, name, evaluation_batches):
        """The matrix for the host and a model of a moment; all else is as it is."""
        matrix = json.loads((INPUTS / f"{name}.json").read_text())
        base = matrix["base"]
        self.assertEqual(base["scheduler"]["params"]["total_num_steps"], base["zeropp"]["train_steps"],
                         "the rate decays to zero")
        held_out = (base["zeropp"]["evaluation_batches"] * base["train_batch_size"]
                    * base["zeropp"]["model"]["seq_length"])
        self.assertGreaterEqual(held_out, 2_000_000)
        base["train_batch_size"] = 8
        base["scheduler"]["params"] |= {"warmup_num_steps": 3, "total_num_steps": 8}
        base["zeropp"]["model"] |= {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 2, "seq_length": 32}
        base["zeropp"] |= {"backend": "host", "train_steps": 8, "evaluation_interval": 8,
                           "evaluation_batches": evaluation_batches}
        return self.write_json(f"{name}.json", matrix)

    def run_of(self, name, ranks, *words, evaluation_batches=4):
        """(hash of the final weights by setting, the rest of the trace) of one seed."""
        shutil.rmtree(self.out, ignore_errors=True)
        command = [PROGRAM, "--config", self.smaller(name, evaluation_batches), "--output", self.out,
                   *self.data, *words]
        self.check_ok(zpp.run(ranks, command, cwd=self.folder))
        self.check_accepted(self.out / "converge.h5")
        root, groups = zpp.read_trace(self.out / "converge.h5")
        runs = groups["runs"]
        return {groups["settings"]["name"][setting]: hashed
                for setting, hashed in zip(runs["setting"], runs["parameters_hash"])}, root, groups

    def test_one_rank_goes_through_the_codecs(self):
        hashes, root, groups = self.run_of("text-25m", 1, "--seeds", "[3]", "--ranks-per-run", "1")
        self.assertEqual(len(set(hashes.values())), len(hashes), "every setting trains something else")
        self.assertEqual((set(groups["runs"]["seed"]), json.loads(root["config_json"])["seeds"]), ({3}, [3]))
        self.assertEqual((groups["data_text"]["vocab_size"], groups["data_text"]["held_out_tokens"]), (256, 4000))

    def test_teams(self):
        """Teams of one rank run side by side; teams of two and of eight ranks train each run together."""
        for ranks, words in ((2, ["--ranks-per-run", "1"]), (2, []), (8, [])):
            hashes, _, groups = self.run_of("text-pilot", ranks, "--seeds", "[101, 102]", *words)
            self.assertEqual(set(groups["runs"]["world_size"]), {1 if words else ranks})
            self.assertEqual(len(set(groups["runs"]["parameters_hash"])), 2 * len(hashes))

    def test_losses_by_part_of_the_data(self):
        """Four batches are four parts; teams of one rank and of two see the same tokens in each."""
        parts = []
        for ranks in (1, 2):
            _, _, groups = self.run_of("text-pilot", ranks, "--seeds", "[101]")
            rows, runs = groups["held_out_parts"], groups["runs"]
            self.assertEqual(list(zip(rows["run"], rows["part"])),
                             [(run, part) for run in range(3) for part in range(4)])
            for run in range(3):
                self.assertAlmostEqual(sum(rows["loss"][4 * run:4 * run + 4]) / 4, runs["final_held_out_loss"][run],
                                       places=9)
            parts.append(rows["loss"][:4])
        self.assertEqual(len(set(parts[0])), 4)
        for one, two in zip(*parts):  # of training without a codec, which does the same sums in another order
            self.assertAlmostEqual(one, two, delta=0.1 * (max(parts[0]) - min(parts[0])))

    def test_parts_of_several_sizes(self):
        """The data have 31 of the 40 requested batches: one of the 16 parts has one batch, and the others have two."""
        self.data[self.data.index("--held-out-fraction") + 1] = "0.2"
        # The checker weights the parts.
        _, _, groups = self.run_of("text-pilot", 1, "--seeds", "[101]", evaluation_batches=40)
        losses, final = groups["held_out_parts"]["loss"], groups["runs"]["final_held_out_loss"]
        self.assertEqual(len(losses), 3 * 16)
        for run in range(3):
            own = losses[16 * run:16 * run + 16]
            self.assertAlmostEqual(sum(2 * loss for loss in own) - own[15], 31 * final[run], places=9)
            self.assertNotAlmostEqual(sum(own) / 16, final[run], places=6)

    def test_the_shape_of_gpt2(self):
        """Every setting of text-124m.json trains something else."""
        matrix = json.loads((INPUTS / "text-124m.json").read_text())
        model = matrix["base"]["zeropp"]["model"]
        self.assertEqual((model["num_layers"], model["hidden_size"], model["seq_length"]), (12, 768, 1024))
        hashes, _, _ = self.run_of("text-124m", 1, "--seeds", "[1]")
        self.assertEqual(len(set(hashes.values())), 4)

    def test_nodes(self):
        hashes, _, groups = self.run_of("text-25m-nodes", 4, "--seeds", "[1]")
        self.assertEqual(len(set(hashes.values())), len(hashes), "the second hop has a codec of its own")
        self.assertEqual(set(groups["runs"]["node_size"]), {2})

    def differences(self):
        """text-25m-differences.json, with nodes of two ranks."""
        name = "text-25m-differences"
        matrix = json.loads(self.smaller(name, 4).read_text())
        matrix["base"]["zeropp"]["node_size"] = 2
        for setting in matrix["settings"][1:]:
            setting["config"]["zero_optimization"]["zero_hpz_partition_size"] = 2
        matrix["settings"][2]["config"]["zeropp"]["weight_refresh_interval"] = 4
        return self.write_json(f"{name}.json", matrix)

    def test_weight_differences(self):
        """The bits of the exchange of a step are the mean over eight steps; the first step and a refresh send whole
        weights in int8."""
        command = [PROGRAM, "--config", self.differences(), "--output", self.out, *self.data, "--seeds", "[1]"]
        self.check_ok(zpp.run(4, command, cwd=self.folder))
        self.check_accepted(self.out / "converge.h5")
        _, groups = zpp.read_trace(self.out / "converge.h5")
        settings, runs = groups["settings"], groups["runs"]
        self.assertEqual(len(set(runs["parameters_hash"])), 7, "every setting trains something else")
        self.assertEqual([converge_file.Setting(0, {"config_json": text}).weight_differences
                          for text in settings["config_json"]],
                         ["", "int4:128", "int4:128+had32", "int4:128, fp32 copy", "int3:128", "int2:128", "int4:128"])
        whole, scales = 8 + 16 / 256, 16 / 128
        self.assertEqual(settings["weight_bits"], [16, *((refreshes * whole + (8 - refreshes) * (bits + scales)) / 8
                                                         for bits, refreshes in (
                                                             (4, 1), (4, 2), (4, 1), (3, 1), (2, 1), (4, 1)))])
        across = runs["bytes_inter_node"]
        plain, int4, refreshed, _, int3, int2, both = across
        self.assertEqual(sorted(across, reverse=True)[:2], [plain, refreshed])
        self.assertEqual(sorted((int4, int3, int2, both), reverse=True)[:3], [int4, int3, int2])
        self.assertGreater(plain, 2 * int4)

    def test_the_pilot_trains_what_the_matrix_trains(self):
        pilot, matrix, core = (json.loads((INPUTS / f"{name}.json").read_text())
                               for name in ("text-pilot", "text-25m", "text-25m-core"))
        self.assertEqual(pilot["base"], matrix["base"])
        self.assertEqual(core["base"], matrix["base"])
        differences = json.loads((INPUTS / "text-25m-differences.json").read_text())
        self.assertEqual(differences["base"], core["base"])
        self.assertFalse(set(pilot["seeds"]) & set(matrix["seeds"]))


if __name__ == "__main__":
    zpp.main()
