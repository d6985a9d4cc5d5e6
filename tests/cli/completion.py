# ctest: name=completion timeout=120 labels=cli,without-cuda
"""Completion in bash: commands and flags of zpp, of its programs and of zpp-validate, as their help names them."""

import os
import shlex
import sys

import zpp

FOLDER = zpp.BIN.parent / "share" / "bash-completion" / "completions"


def completed(*words):
    """The words that bash offers for the last word if PATH has the programs."""
    script = (f". {shlex.quote(str(FOLDER / 'zpp.bash'))}\n"
              f"COMP_WORDS=({shlex.join(words)})\nCOMP_CWORD={len(words) - 1}\n_zpp\n"
              'if ((${#COMPREPLY[@]})); then printf "%s\\n" "${COMPREPLY[@]}"; fi\n')
    # zpp-validate runs with the Python that the build has chosen, which has all modules.
    path = os.pathsep.join([str(zpp.BIN), os.path.dirname(sys.executable), os.environ["PATH"]])
    done = zpp.Process(["bash", "-c", script], env={"PATH": path}).end()
    assert (done.code, done.stderr) == (zpp.OK, ""), done
    return done.stdout.split()


class Completion(zpp.TestCase):
    def test_commands(self):
        self.assertEqual(completed("zpp", "tr"), ["train"])
        self.assertTrue({"train", "plan", "validate"} <= set(completed("zpp", "")))
        self.assertEqual(completed("zpp", "plan", "sea"), ["search"])
        self.assertEqual(completed("zpp_plan", "sea"), ["search"])
        self.assertEqual(completed("zpp-validate", "checkp"), ["checkpoint"])
        self.assertEqual(completed("zpp", "validate", "compa"), ["compare"])

    def test_no_command_where_none_can_be(self):
        """Then bash offers files."""
        for words in (["zpp", "validate", "check", ""], ["zpp_train", ""], ["zpp_train", "--config", ""]):
            self.assertEqual(completed(*words), [], words)

    def test_flags(self):
        for words in (["zpp_train", "--zero-st"], ["zpp", "train", "--zero-st"], ["zpp_train", "--bf16", "--zero-st"],
                      [str(zpp.BIN / "zpp_train"), "--zero-st"], ["zpp", "plan", "search", "--zero-st"]):
            self.assertEqual(completed(*words), ["--zero-stage"], words)
        self.assertEqual(completed("zpp_plan", "search", "--goa"), ["--goal"])
        self.assertEqual(completed("zpp_plan", "--goa"), [])
        self.assertEqual(completed("zpp_train", "--no-overlap"), ["--no-overlap-comm"])
        self.assertEqual(completed("zpp-validate", "summarize", "--pl"), ["--plot"])
        self.assertEqual(completed("zpp_sweep", "--minb"), ["--minbytes"])

    def test_every_program_has_it(self):
        names = {path.name for path in zpp.BIN.glob("zpp*")}
        self.assertEqual({path.name for path in FOLDER.iterdir()}, {f"{name}.bash" for name in names})
        script = f". {shlex.quote(str(FOLDER / 'zpp.bash'))} && complete -p {shlex.join(sorted(names))}"
        done = self.check_ok(zpp.Process(["bash", "-c", script]).end())
        self.assertEqual(done.stdout.count("-F _zpp"), len(names))


if __name__ == "__main__":
    zpp.main()
