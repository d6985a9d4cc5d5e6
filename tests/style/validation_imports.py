# ctest: name=validation_imports timeout=30 labels=style
"""validation/zpp_validate shares no code with the suite: it imports Python's own modules, packages of the system and
itself; and its rooms import downward only, as the table below says."""

import ast
import sys

from source_tree import SOURCE

PACKAGES = {"h5py", "jinja2", "markupsafe", "matplotlib", "numpy", "prometheus_client", "scipy", "torch",
            "transformers"}
# The rooms that a room may import beside itself, without the rooms that these may import.
ARROWS = {
    "": set(),  # cli and commands: the command's module is imported by its name
    "stats": {""},
    "forms": {""},
    "readers": {"", "forms"},
    "checkers": {"", "forms", "readers", "stats"},
    "tables": {"", "forms", "readers", "stats"},
    "convergence": {"", "checkers", "readers", "stats", "tables"},
    "gate": {"", "checkers", "readers", "stats", "tables"},
    "plots": {"", "convergence", "readers", "stats", "tables"},
    "reports": {"", "checkers", "forms", "plots", "convergence", "readers", "stats", "tables"},
    "planner": {"", "readers", "stats", "tables"},
    "oracles": {"", "forms", "readers"},
    "peers": {"", "forms", "stats"},
    "curves": {"", "convergence", "forms", "peers", "readers", "stats", "tables"},
}
ROOT = SOURCE / "validation" / "zpp_validate"


def imported(tree):
    """Imported modules; `from a.b import c` gives a.b.c, because c may be a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{name.name}" for name in node.names)


def violations(room, text):
    for name in imported(ast.parse(text)):
        package, *rest = name.split(".")
        if package == "zpp_validate":
            target = rest[0] if rest[0] in ARROWS else ""
            if target != room and target not in ARROWS[room]:
                yield f"{name}: {room or 'the command'} may not import {target or 'the command'}"
        elif package not in PACKAGES and package not in sys.stdlib_module_names:
            yield f"{name}: is neither Python's, nor in PACKAGES, nor validation's"


assert len(list(violations("forms", "import zeropp\nimport os\nfrom zpp_validate.readers.wire import x\nimport numpy "
                           "as np"))) == 2
files = sorted(ROOT.rglob("*.py"))
assert len(files) > 80, len(files)
found = [f"{file.relative_to(ROOT)}: {line}" for file in files
         for line in violations("" if file.parent == ROOT else file.parent.name, file.read_text())]
unknown = {file.parent.name for file in files} - {"zpp_validate", *ARROWS}
print("\n".join([*found, *(f"{room}: is no room of the table" for room in unknown)]))
sys.exit(1 if found or unknown else 0)
