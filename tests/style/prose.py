# ctest: name=prose timeout=60 labels=style
"""Pages, comments, help and messages keep those rules of docs/developers/style.md that a pattern can find."""

import os
import re
import subprocess
import sys

import source_tree

NO_NOUN = re.compile(r"(?:Of|Those|Whoever|Who|What)\b(?!.*\?)")  # begins a sentence that is no question
ANYWHERE = {  # the remedy, and what needs it
    "after, below or under": r"behind",
    "continue or resume": r"(?:go|goes|going|went|gone) on"
                          r"(?! (?:the|a|an|any|each|every|one|its|their|GPUs?|CPUs?|to)\b)",  # a place
    "instead of": r"in place of",
    "name the noun": r"(?:those|that) which|(?:that|those) of (?:that|those) of|which is what",
    "per": r"(?:bytes|[KMGT]i?B|ms|us|seconds|tokens|tokens/s|bits|runs|steps|calls|times|ranks|images) an? "
           r"(?:step|GPU|second|rank|node|parameter|weight|value|element|run|unit|layer|block|message|link|minute)",
    "without, because there is no": r"for want of",
}
COMPILED = {remedy: re.compile(rf"(?<![\w-])(?:{pattern})(?![\w'-])", re.IGNORECASE)
            for remedy, pattern in ANYWHERE.items()}
PAGE = re.compile(r".*\.(md|jinja)")
SOURCE = re.compile(r".*\.(cpp|hpp|cu|cuh|h|c|in|py|sh|sbatch|cmake)|(.*/)?CMakeLists\.txt|check|\.ci/run")
EXEMPT = re.compile(r"CHANGELOG\.md|docs/developers/style\.md|tests/style/prose\.py|tests/(fuzz|data)/.*|"
                    r"validation/published/.*|results/(?!.*README\.md).*")
WHOLE_LINE = re.compile(r"\s*(?://[/!]?<?|#+!?(?= |$)|\*(?= )|\"\"\")\s?(.*)")
ITEM = re.compile(r"\s*(?:[-*+>]|\d+\.|#+|\|)\s")
TRAILING = re.compile(r"(?:^|\s)(?://[/!]?<?|#) (.*)")
STRING = re.compile(r'"((?:[^"\\]|\\.)*? (?:[^"\\]|\\.)*)"')
CODE = re.compile(r"`[^`]*`")


def prose_of(name, text):
    """(line number, text, whether it continues the line before) of everything that somebody reads as prose."""
    continues = docstring = fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if PAGE.fullmatch(name):
            fence = line.strip().startswith(("```", "~~~"))
            fenced ^= fence
            if fence or fenced or not line.strip():
                continues = False
                continue
            yield number, CODE.sub("x", ITEM.sub("", line, 1)).strip(), continues and not ITEM.match(line)
            continues = True
            continue
        whole = WHOLE_LINE.fullmatch(line)
        quotes = line.count('"""') if name.endswith(".py") else 0
        if docstring or (whole and not line.strip().startswith("# ctest:") and "// ctest:" not in line):
            bare = CODE.sub("x", (line if docstring else whole[1]).replace('"""', "")).strip()
            if bare:
                yield number, bare, continues
            continues = bool(bare) and not (docstring and quotes)
        else:
            continues = False
            for pattern in (TRAILING, STRING):
                for found in pattern.findall(line):
                    yield number, CODE.sub("x", found), True  # its begin may lie elsewhere
        docstring ^= quotes == 1


def violations(name, text):
    sentence, begin = "", 0

    def judged():
        for each in re.split(r"(?<=[.!?]) ", sentence):
            if NO_NOUN.match(each):
                yield f"{name}:{begin}: begin with the noun: {each[:100]}"

    for number, bare, continues in prose_of(name, text):
        for remedy, pattern in COMPILED.items():
            if pattern.search(bare):
                yield f"{name}:{number}: {remedy}: {bare[:100]}"
        if continues and sentence:
            sentence += " " + bare
        elif not continues:
            yield from judged()
            sentence, begin = bare, number
    yield from judged()


PLANTED = {
    "a.md": "Of a step.\nIt goes on\n\n- What is it? Fine.\n- What it is.\n\n```\nin place of\n```\n"
            "A `behind` flag. Those\nwho.\n",
    "a.cpp": "// ctest: name=a\n// What is sent.\nint behind = 1;  // bytes a step\n/// It begins.\n/// Of it.\n"
             "f(\"goes on for ever\");\n",
    "a.py": '"""Of all.\n\nMore"""\nx = "behind"  # in place of it\n',
}
EXPECTED = {"a.md": [2, 1, 5, 10], "a.cpp": [3, 2, 6, 4], "a.py": [4, 1]}
for planted, lines in EXPECTED.items():
    seen = [int(line.split(":")[1]) for line in violations(planted, PLANTED[planted])]
    assert sorted(seen) == sorted(lines), (planted, seen)


def main():
    root = source_tree.SOURCE
    listed = subprocess.run(["git", "-c", f"safe.directory={root}", "ls-files", "-z"], cwd=root, check=True,
                            capture_output=True, text=True).stdout.split("\0")
    chosen = [name for name in listed if (PAGE.fullmatch(name) or SOURCE.fullmatch(name)) and not EXEMPT.fullmatch(name)
              and name.startswith(tuple(sys.argv[1:]) or "")]
    errors = []
    for name in chosen:
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            errors += violations(name, file.read())
    print("\n".join(errors))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
