# ctest: name=readme_commands timeout=300 labels=cli processors=4
"""The commands in README: each is one that a shell takes, and each of a program of the CPU build runs, for one step where it
trains and on small messages where it measures. What is not run is listed with the reason."""

import re

import command_blocks
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


def blocks():
    """The fenced texts that name no language: they are for a shell, but for files that show how they look."""
    return [text for text in command_blocks.fenced(README) if not text.startswith(("cmake_minimum", "{", "project("))]


def commands():
    """What begins with a program of the build."""
    return [line for block in blocks() for line in command_blocks.lines(block) if command_blocks.OF_BUILD.match(line)]


class Readme(zpp.TestCase):
    def pasted(self, line):
        return command_blocks.pasted(line, command_blocks.clone(self.folder))

    def test_a_shell_takes_every_block(self):
        for block in blocks():
            self.assertEqual(command_blocks.complaint(block), "", block)

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
