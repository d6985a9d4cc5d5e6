# ctest: name=codec_text timeout=30 labels=style
"""The text of a codec is parsed where a user wrote it: what runs collectives takes what was parsed."""

import re
import sys

from source_tree import SOURCE

# Where text comes in: the C interface, options, the configuration's schedule of codecs, and lists that programs read or
# hold.
EDGES = {"lib/c/plan_request.cpp", "lib/config/option.cpp", "lib/config/codec_schedule.cpp", "lib/config/lists.cpp",
         "lib/plan/search_space.cpp", "kernels/codec/spec.cpp"}
PARSES = re.compile(r"\bparse_codec\s*\(")


def parsers(root):
    """The files of the library that parse a codec's text; comments do not count."""
    found = set()
    for file in (file for top in ("kernels", "lib") for file in (root / top).rglob("*.[chi]*")):
        code = re.sub(r"//.*", "", file.read_text()) if file.is_file() else ""
        if PARSES.search(code) and file.name != "spec.hpp":
            found.add(file.relative_to(root).as_posix())
    return found


assert PARSES.search("const CodecSpec again = parse_codec(to_string(spec));")
found = parsers(SOURCE)
assert found >= {"lib/config/option.cpp", "kernels/codec/spec.cpp"}, f"the search finds too little: {sorted(found)}"
for path in sorted(found - EDGES):
    print(f"{path}: parses the text of a codec, which it should be given parsed (codec::CodecSpec)")
sys.exit(1 if found - EDGES else 0)
