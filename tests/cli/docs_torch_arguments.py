# ctest: name=docs_torch_arguments timeout=30 labels=cli
"""The table of docs/howto/pytorch.md has the arguments of zeropp.torch.compress(), each with its default; its docstring
names each."""

import ast
import re

import zpp

PAGE = (zpp.SOURCE / "docs" / "howto" / "pytorch.md").read_text()
WORDS = {"()": "none", "None": "none", "1 << 20": "1 MiB"}  # of a default, where the page has another word for it


def function():
    tree = ast.parse((zpp.SOURCE / "python" / "zeropp" / "torch" / "compress.py").read_text())
    return next(each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == "compress")


def defaults():
    """By name, as the page writes them."""
    arguments = function().args
    positional = arguments.args[1:]
    pairs = [*zip(positional, arguments.defaults), *zip(arguments.kwonlyargs, arguments.kw_defaults)]
    assert len(pairs) == len(positional) + len(arguments.kwonlyargs)
    written = {argument.arg: ast.unparse(default).strip("'") for argument, default in pairs}
    return {name: WORDS.get(text, text) for name, text in written.items()}


class Arguments(zpp.TestCase):
    def test_the_page_has_each_with_its_default(self):
        table = PAGE[PAGE.index("| argument | meaning | default |"):].split("\n\n")[0]
        rows = re.findall(r"^\| `(\w+)` \| .* \| ([^|]+) \|$", table, re.MULTILINE)
        listed = {name: default.replace("`", "") for name, default in rows}
        self.assertGreater(len(listed), 10)
        expected = {**defaults(), "node_size": "LOCAL_WORLD_SIZE, else ranks of one host name"}
        self.assertEqual(listed, expected)

    def test_the_docstring_names_each(self):
        said = ast.get_docstring(function())
        self.assertEqual([name for name in defaults() if not re.search(rf"\b{name}\b", said)], [])


if __name__ == "__main__":
    zpp.main()
