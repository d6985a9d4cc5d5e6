# ctest: name=drift_table timeout=30 labels=oracle,nightly
"""zpp-validate drift-table: the numbers of its rows, and texts that are none of copy-drift's."""

import zpp

TEXT = """steps         sent           how often  largest |r - w|  largest bound  of the bound  other bits
2 to 9        differences            8        4.000e-03      5.000e-03        90.0 %           0
10            nothing                1                -              -             -           0
11            whole weights          1        9.000e-03      9.100e-03        99.5 %           2
12 to 15      differences            4        1.000e-03      5.000e-03        20.0 %           1
"""


class DriftTable(zpp.TestCase):
    def table(self, *texts):
        paths = []
        for number, text in enumerate(texts):
            paths.append(self.folder / f"run-{number}.txt")
            paths[-1].write_text(text)
        return zpp.Process([*zpp.VALIDATE, "drift-table", *paths, "--output", self.folder / "table.md"]).end()

    def rows(self):
        return [[cell.strip() for cell in line.strip("|").split("|")]
                for line in (self.folder / "table.md").read_text().splitlines()[2:]]

    def test_rows(self):
        row = ["14", "1", "4.000e-03", "1.000e-03", "99.5 %", "3"]
        result = self.table(TEXT + "VALID: 14 steps, of which none\n", TEXT + "VALID: 14 steps, of which none\n")
        self.assertEqual((result.code, self.rows()), (0, [["run-0", *row], ["run-1", *row]]), result)
        result = self.table(TEXT + "INVALID: the copies\n", TEXT + "VALID: 14\n")
        self.assertEqual((result.code, self.rows()[0]), (1, ["run-0", *row]), result)

    def test_other_texts(self):
        short = "\n".join(TEXT.splitlines()[:2]) + "\nVALID: 8\n"
        for text, part in ((TEXT, "with its last line"), ("", "no text of"),
                           (TEXT.replace("sent", "gone") + "VALID: 14\n", "no text of"),
                           (TEXT.replace("        99.5 %", "") + "VALID: 14\n", "a row of other columns"),
                           (short, "fewer than two rows")):
            with self.subTest(text=text):
                result = self.table(text)
                self.assertEqual((result.code, len(result.errors("zpp-validate drift-table"))), (zpp.USAGE, 1), result)
                self.assertIn(part, result.errors("zpp-validate drift-table")[0])


if __name__ == "__main__":
    zpp.main()
