# ctest: name=installation timeout=60 labels=cli processors=2
"""cmake --install: the programs run from where they are put, with the inputs and the trace checker beside them."""

import subprocess
import sys

import zpp


class Installation(zpp.TestCase):
    def test_installed_programs_run(self):
        prefix = self.folder / "prefix"
        done = subprocess.run(["cmake", "--install", zpp.BIN.parent, "--prefix", prefix], capture_output=True,
                              text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done)
        programs = {path.name for path in zpp.BIN.iterdir() if path.name.startswith("zpp")}
        self.assertIn("zpp-validate", programs)
        self.assertEqual({path.name for path in (prefix / "bin").iterdir()}, programs)
        share = prefix / "share" / "zeropp"
        self.assertEqual({path.name for path in share.iterdir()}, {"inputs", "validation"})
        completions = prefix / "share" / "bash-completion" / "completions"
        self.assertEqual({path.name for path in completions.iterdir()}, {f"{name}.bash" for name in programs})
        self.assertTrue(all(path.exists() for path in completions.iterdir()))
        self.assertIn("zpp_plan",
                      self.check_ok(zpp.Process([prefix / "bin" / "zpp", "plan", "--version"]).end()).stdout)
        self.assertEqual([path for path in share.rglob("*") if path.is_dir() and not any(path.iterdir())], [])
        self.check_ok(zpp.launch([(2, [str(prefix / "bin" / "zpp_train"),
                                       "--config", str(share / "inputs" / "site_check.json"),
                                       "--backend", "host", "--node-size", "1", "--output", str(self.out)])]).end())
        here = {"PYTHONPATH": ""}  # not the package of the source tree
        done = zpp.Process([sys.executable, prefix / "bin" / "zpp-validate", "check", self.out / "train.h5"],
                           env=here).end()
        self.assertEqual((done.code, done.stdout.strip(), done.stderr), (zpp.OK, "VALID", ""), done)
        self.check_ok(zpp.Process([prefix / "bin" / "zpp_plan", "report", self.out / "train.h5",
                                   "--output", self.out]).end())


if __name__ == "__main__":
    zpp.main()
