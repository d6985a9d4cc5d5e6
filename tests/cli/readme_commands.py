# ctest: name=readme_commands timeout=300 labels=cli processors=4
"""The commands in README: each is one that a shell takes, and each of a program of the CPU build runs, for one step where it
trains and on small messages where it measures. What is not run is listed with the reason."""

import pathlib
import re
import subprocess
import tempfile

import zpp

README = (zpp.SOURCE / "README.md").read_text()
NOT_RUN = {
    r"--hidden-size 6144": "18 billion parameters",
    r"--data-path (notes|tiny|my)": "the reader's own file",
    r"\.\.\. --": "stands for the flags of the line before",
    r"zpp_converge": "minutes; the tests converge and convergence_script run matrices",
    r"zpp_kernels$": "minutes; the test kernels runs them",
    r"zpp_plan report": "the reader's own traces",
}
SHORTER = [(r"(zpp_train (?!.*--(help|train-iters)).*)", r"\1 --train-iters 1 --eval-interval 1 --eval-iters 1"),
           (r"-b 1K -e 64M", "-b 1K -e 4K --max-seconds 0.01")]


def blocks():
    """The fenced texts that name no language: they are for a shell, but for files that show how they look."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [text for language, text in fenced if not language and not text.startswith(("cmake_minimum", "{", "project("))]


def commands():
    """What begins with a program of the build, with the lines that belong to it and without its comment."""
    found = []
    for block in blocks():
        line = ""
        for part in block.replace("\\\n", " ").splitlines():
            line += " " + re.sub(r"(^|\s+)# .*", "", part)
            if line.count("'") % 2 == 0:
                found.append(line.strip())
                line = ""
    return [line for line in found if re.match(r"(mpirun [^/]*)?build/bin/zpp_", line)]


class Readme(zpp.TestCase):
    def pasted(self, line):
        """Run in a folder of its own, which looks like a clone after the build."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (folder / "build").symlink_to(zpp.BIN.parent)
        for name in ("inputs", "results"):
            (folder / name).symlink_to(zpp.SOURCE / name)
        for pattern, shorter in SHORTER:
            line = re.sub(pattern, shorter, line)
        return zpp.Process(["bash", "-c", line], cwd=folder, env={"OMPI_MCA_rmaps_base_oversubscribe": "1"}).end(timeout=120)

    def test_a_shell_takes_every_block(self):
        for block in blocks():
            done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "", block)

    def test_every_command_runs(self):
        run = [line for line in commands() if not any(re.search(rule, line) for rule in NOT_RUN)]
        self.assertGreater(len(run), 12)
        for done in zpp.side_by_side(self.pasted, run):
            self.assertEqual(done.code, zpp.OK, done)
            self.assertNotIn("no size of a model", done.stderr)

    def test_the_search_is_as_large_as_it_says(self):
        said = re.search(r"The ([\d,]+)\s+combinations on 4,096 GPUs of this example", README).group(1)
        command = next(line for line in commands() if "search" in line and "16,64,512" in line)
        done = self.check_ok(self.pasted(command.replace("16,64,512", "512")))
        self.assertIn(f"512 nodes x 8 ranks: {said.replace(',', '')} combinations", done.stdout)

    def test_nothing_is_listed_in_vain(self):
        for rule in NOT_RUN:
            self.assertTrue(any(re.search(rule, line) for line in commands()), rule)


if __name__ == "__main__":
    zpp.main()
