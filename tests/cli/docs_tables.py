# ctest: name=docs_tables timeout=120 labels=cli,nightly
"""The tables of README and docs/ are what the programs and results say today, and every figure with a unit
in a concept's prose is in one."""

import os
import pathlib
import re
import sys

SOURCE = pathlib.Path(os.environ["ZEROPP_SOURCE"])
sys.path.insert(0, str(SOURCE / "docs" / "tables"))
import traffic
import update
import zpp

PAGES = {page.relative_to(SOURCE).as_posix(): page.read_text() for page in update.PAGES}
QUANTITY = re.compile(r"(?<![\w.,/])(\d[\d,]*\.?\d*) ?(GB|GiB|x)(?![\w/])")


def prose_and_tables(text):
    text = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = text.splitlines()
    return ("\n".join(line for line in lines if not line.startswith("|")),
            "\n".join(line for line in lines if line.startswith("|")))


class Tables(zpp.TestCase):
    def test_every_table_is_current(self):
        programs = update.Programs(zpp.BIN)
        for name, text in PAGES.items():
            with self.subTest(page=name):
                self.assertEqual(update.renewed(text, programs), text, f"{name}: run docs/tables/update.py")

    def test_every_table_has_a_page(self):
        self.assertEqual(sorted(set(update.MADE)),
                         sorted({table for text in PAGES.values() for table in update.tables_of(text)}))

    def test_a_closed_form_that_differs_is_noticed(self):
        with self.assertRaises(ValueError):
            traffic.agreed(100.0, 100.2)

    def test_figures_in_prose_are_those_of_a_table(self):
        """With the unit GB, GiB or x (times), on a page that has a table made by a program."""
        for name, text in PAGES.items():
            prose, tables = prose_and_tables(text)
            if not update.tables_of(text):
                continue
            for figure, unit in QUANTITY.findall(prose):
                with self.subTest(page=name, figure=figure + unit):
                    self.assertRegex(tables, rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)")


if __name__ == "__main__":
    zpp.main()
