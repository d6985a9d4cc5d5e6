# ctest: name=front_command timeout=120 labels=cli,without-cuda
"""zpp COMMAND becomes the program of that name beside it, with its arguments and its exit code; alone it lists the
commands."""

import os
import re
import sys

import zpp
from zpp_validate.commands import COMMANDS

ZPP = zpp.BIN / "zpp"
PROGRAMS = {path.name[4:]: path for path in sorted(zpp.BIN.glob("zpp[_-]*"))}


class FrontCommand(zpp.TestCase):
    def test_lists_the_commands(self):
        done = self.check_ok(zpp.Process([ZPP]).end())
        self.assertEqual(done.stdout, self.check_ok(zpp.Process([ZPP, "--help"]).end()).stdout)
        listed = dict(re.findall(r"^  ([a-z]+) +(\S.*)$", done.stdout, re.MULTILINE))
        self.assertEqual(set(listed), set(PROGRAMS))
        self.assertTrue({"train", "sweep", "plan", "validate"} <= set(listed))
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 110)
        for name, summary in listed.items():
            self.assertRegex(summary, "^[A-Z].*[^.]$", name)

    def test_each_command_is_its_program(self):
        for name, path in PROGRAMS.items():
            with self.subTest(name):
                words = ["--help"] if name == "validate" else ["--version"]
                own = self.check_ok(zpp.Process([path, *words]).end())
                self.assertEqual(self.check_ok(zpp.Process([ZPP, name, *words]).end()).stdout, own.stdout)

    def test_validate_is_the_program_of_the_pages(self):
        self.assertEqual((zpp.BIN / "zpp-validate").resolve(), (zpp.SOURCE / "validation" / "zpp-validate").resolve())
        text = self.check_ok(zpp.Process([ZPP, "validate", "--help"]).end()).stdout
        self.assertEqual(set(re.findall(r"^  ([a-z0-9-]+) {2,}\S", text, re.MULTILINE)), set(COMMANDS))

    def test_version(self):
        own = zpp.Process([zpp.INFO, "--version"]).end().stdout
        self.assertEqual(self.check_ok(zpp.Process([ZPP, "--version"]).end()).stdout, own.replace("zpp_info", "zpp"))

    def test_arguments_and_exit_codes_pass(self):
        for words, code, program in ((["train", "--zero-stage", "4 5"], zpp.USAGE, "zpp_train"),
                                     (["info", "--config", "no such file"], zpp.IO, "zpp_info"),
                                     (["plan", "serach"], zpp.USAGE, "zpp_plan"),
                                     (["validate", "chekc"], zpp.USAGE, "zpp-validate")):
            with self.subTest(words):
                done = zpp.Process([ZPP, *words]).end()
                self.check_fails(done, code, words[-1], program=program)

    def test_under_a_launcher(self):
        done = self.check_ok(zpp.launch([(2, [ZPP, "train", *zpp.TINY, "--output", self.out])]).end())
        self.assertIn("2 ranks", done.stdout)
        # The first python3 of PATH is the one that the build has chosen, which has all modules.
        path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
        self.check_ok(zpp.Process([ZPP, "validate", "check", self.out / "train.h5"], env={"PATH": path}).end())

    def test_an_unknown_command(self):
        for word, nearest in (("trian", "train"), ("swep", "sweep"), ("--frob", "fabric")):
            done = zpp.Process([ZPP, word]).end()
            self.assertEqual((done.code, done.stdout), (zpp.USAGE, ""), done)
            self.assertRegex(done.stderr, rf'^zpp: error: unknown command "{word}" \(nearest: \w+\): zpp --help lists '
                             rf'them\n$')
            if not word.startswith("-"):
                self.assertIn(f"(nearest: {nearest})", done.stderr)

    def test_through_a_link(self):
        link = self.folder / "zpp"
        link.symlink_to(ZPP)
        self.assertEqual(self.check_ok(zpp.Process([link]).end()).stdout,
                         self.check_ok(zpp.Process([ZPP]).end()).stdout)


if __name__ == "__main__":
    zpp.main()
