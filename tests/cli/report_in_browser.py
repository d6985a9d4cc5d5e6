# ctest: name=report_in_browser timeout=240 labels=cli,nightly
"""Headless Chromium makes of the HTML report exactly the elements that are written in it, and runs nothing that was
planted in traces."""

import shutil
import sys

import html_case
import zpp

PATIENCE = 200  # seconds: a browser starts slowly on a busy machine
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if BROWSER is None:
    print("skipped: no Chromium is installed (apt-get install chromium)")
    sys.exit(zpp.SKIPPED)


class ReportInBrowser(zpp.TestCase):
    def dom(self, path):
        """The document as Chromium has it once it is loaded."""
        done = zpp.Process([BROWSER, "--headless", "--no-sandbox", "--disable-gpu",
                            "--disable-dev-shm-usage", f"--user-data-dir={self.folder / 'profile'}",
                            "--dump-dom", path.as_uri()]).end(PATIENCE)
        self.assertEqual(done.code, 0, done)
        return done.stdout

    def test_what_the_browser_makes_of_it(self):
        valid, invalid = html_case.planted(self.folder)
        done = zpp.Process([zpp.BIN / "zpp_plan", "report", *valid, invalid, "--output", self.out,
                            "--title", "planted"]).end(PATIENCE)
        self.assertEqual(done.code, zpp.INVALID, done)
        path = self.out / "report.html"
        written, seen = html_case.Page(path.read_text(encoding="utf-8")), html_case.Page(self.dom(path))
        self.assertEqual(seen.tags, written.tags)
        self.assertEqual(seen.tables, written.tables)
        self.assertIn("<title>planted</title>", self.dom(path))  # "ran", had a script run

    def test_the_browser_runs_scripts_elsewhere(self):
        path = self.folder / "script.html"
        path.write_text(f"<!DOCTYPE html><title>planted</title>{html_case.SCRIPT}")
        self.assertIn("<title>ran</title>", self.dom(path))


if __name__ == "__main__":
    zpp.main()
