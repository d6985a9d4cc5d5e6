# ctest: name=rank_fails labels=fault timeout=300 processors=3
"""An error of one rank ends all ranks, with its message, printed once, and its exit code."""

import zpp

LARGE = ["--zero-stage", "0", "--hidden-size", "512", "--num-layers", "4", "--seq-length", "16"]


def with_shell(script, command):
    """`command` as a shell starts it after `script`."""
    return ["/bin/sh", "-c", script + ' && exec "$@"', "sh", *command]


class Throws(zpp.TestCase):
    def throws(self, what, *words, env=None):
        return zpp.launch([(3, [str(zpp.TEST_BIN / "rank_throws"), "--what", what, *words])], cwd=self.folder,
                          env=env).end()

    def test_error_keeps_code_and_message(self):
        self.check_fails(self.throws("error"), zpp.IO, "rank 1 lost its disk: mount it", "(rank 1 on ",
                         program="zpp_throws")

    def test_any_exception_keeps_its_message(self):
        self.check_fails(self.throws("exception"), zpp.ENVIRONMENT, "rank 1 has an idea", "(rank 1 on ",
                         program="zpp_throws")

    def test_out_of_memory_names_the_remedy(self):
        self.check_fails(self.throws("memory"), zpp.ENVIRONMENT, "out of memory", "smaller model",
                         program="zpp_throws")

    def test_what_is_no_exception(self):
        self.check_fails(self.throws("number"), zpp.ENVIRONMENT, "(rank 1 on ", program="zpp_throws")


    def test_a_message_that_does_not_wait_for_others_to_free_communicators(self):
        """They wait in a barrier: a rank that freed its groups first would wait for them, until --timeout ends the job
        without its message."""
        result = self.throws("error", "--timeout", "5",
                             env={"LD_PRELOAD": str(zpp.TEST_BIN / "libpmpi_strict_free.so")})
        self.check_fails(result, zpp.IO, "rank 1 lost its disk: mount it", "(rank 1 on ", program="zpp_throws")


class Training(zpp.TestCase):
    def launch(self, first, second):
        return zpp.launch([(1, first), (1, second)], cwd=self.folder).end()

    def test_different_configurations(self):
        result = self.launch(zpp.train_command("--lr", "0.001", out=self.out),
                             zpp.train_command("--lr", "0.002", out=self.out))
        self.check_fails(result, zpp.USAGE, "different configurations", "rank 1", "optimizer.params.lr",
                         "0.002", "0.001")

    def test_unknown_flag_on_one_rank(self):
        result = self.launch(zpp.train_command(out=self.out), zpp.train_command("--no-such", out=self.out))
        self.check_fails(result, zpp.USAGE, "--no-such")

    def test_different_files_behind_the_same_flags(self):
        for rank, rate in enumerate((0.25, 0.5)):
            (self.folder / str(rank)).mkdir()
            self.write_json(f"{rank}/run.json", {"gradient_clipping": rate})
        command = zpp.train_command("--config", "run.json", out=self.out)
        result = self.launch(with_shell("cd 0", command), with_shell("cd 1", command))
        self.check_fails(result, zpp.USAGE, "gradient_clipping", "0.5", "0.25")

    def test_data_file_is_missing_on_one_rank(self):
        result = self.with_data(b"some text, over and over. " * 100, None)
        self.check_fails(result, zpp.IO, "corpus.txt", "does not exist")

    def test_data_file_differs_on_one_rank(self):
        """Also where it is shorter: a rank with fewer held-out batches would leave the others waiting."""
        text = b"some text, over and over. " * 100
        for other in (text[:-400], text.replace(b"over", b"Over", 1)):
            with self.subTest(length=len(other)):
                self.check_fails(self.with_data(text, other), zpp.IO, "corpus.txt", "rank 0")

    def with_data(self, *contents):
        command = zpp.train_command("--data-source", "text", "--data-path", "corpus.txt", "--eval-interval",
                                    "1", "--eval-iters", "100", out=self.out)
        ranks = []
        for rank, content in enumerate(contents):
            (self.folder / str(rank)).mkdir(exist_ok=True)
            if content is not None:
                (self.folder / str(rank) / "corpus.txt").write_bytes(content)
            ranks.append(with_shell(f"cd {rank}", command))
        return self.launch(*ranks)

    def test_memory_limit_on_one_rank(self):
        """The tiny model fits under the limit, the large one does not."""
        limit = f"ulimit -v {self.peak_of_tiny() + 65536}"
        tiny = zpp.train_command(out=self.folder / "tiny")
        self.assertEqual(self.launch(tiny, with_shell(limit, tiny)).code, zpp.OK)
        (self.folder / "tiny" / "train.h5").unlink()
        large = zpp.train_command(*LARGE, out=self.out)
        result = self.launch(large, with_shell(limit, large))
        self.check_fails(result, zpp.ENVIRONMENT, "no memory for", "smaller model", "would need less: ")

    def peak_of_tiny(self):
        """Largest address space, in KiB, of a rank that trains the tiny model."""
        script = '"$@" & child=$!; peak=0; while line=$(grep VmPeak /proc/$child/status 2>/dev/null); do' \
                 ' peak=$line; done; wait $child; echo "$peak" >&2'
        command = zpp.train_command("--train-iters", "200", out=self.folder / "tiny")
        result = self.launch(command, ["/bin/sh", "-c", script, "sh", *command])
        self.assertEqual(result.code, zpp.OK, result)
        return int(result.stderr.split()[-2])


if __name__ == "__main__":
    zpp.main()
