# ctest: name=release_files timeout=30 labels=style
"""One version everywhere, and the licence that every file says."""

import re

from source_tree import SOURCE

root = SOURCE


def find(file, pattern):
    match = re.search(pattern, (root / file).read_text(), re.MULTILINE)
    assert match, f"{file}: nothing matches {pattern}"
    return match[1]


version = find("CMakeLists.txt", r"^project\(zeropp VERSION ([0-9.]+)")
assert find("CITATION.cff", r"^version: ([0-9.]+)$") == version
assert find("CITATION.cff", r"^cff-version: (\S+)$") == "1.2.0"
assert find("CITATION.cff", r"^license: (\S+)$") == "Apache-2.0"
assert find("CHANGELOG.md", r"^## \[([0-9.]+)\]") == version
find("LICENSE", r"(Apache License\s+Version 2\.0, January 2004)")
