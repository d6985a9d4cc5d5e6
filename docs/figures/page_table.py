"""Generated tables of pages, which figures are drawn from."""

import pathlib
import re

__all__ = ["page_table"]
TREE = pathlib.Path(__file__).resolve().parents[2]


def page_table(page, name):
    """The head and the rows of the table `name` of the page, a path from the root of the tree, as lists of cells."""
    table = re.search(rf"<!-- table: {name} -->(.*?)<!-- end -->", (TREE / page).read_text(), re.DOTALL)[1].strip().splitlines()
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return head, rows
