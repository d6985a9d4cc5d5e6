"""Names the tests that a run of CTest skipped, by reason, from its JUnit file.

usage: left_out.py FILE
       left_out.py --passed FILE   the tests that passed, of a run of tests that had failed beside others

A skipped test prints a line "skipped: REASON", which says how to run it."""

import collections
import re
import sys
import xml.etree.ElementTree as xml

REASON = re.compile(r"^skipped: (.*)$", re.MULTILINE)
SHOWN = 12  # names of one reason


def skipped(root):
    """{reason: names} of a parsed JUnit file."""
    found = collections.defaultdict(list)
    for case in root.iter("testcase"):
        if case.find("skipped") is not None:
            said = REASON.search(case.findtext("system-out") or "")
            found[said.group(1) if said else "no reason given"].append(case.get("name"))
    return found


def lines(found):
    for reason, names in sorted(found.items(), key=lambda each: -len(each[1])):
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        yield f"check: left out: {', '.join(sorted(names)[:SHOWN])}{more}: {reason}"


def passed(root):
    return [case.get("name") for case in root.iter("testcase") if case.get("status") == "run"]


if __name__ == "__main__":
    suite = xml.parse(sys.argv[-1]).getroot()
    if sys.argv[1] == "--passed":
        names = passed(suite)
        print(f"check: passed only alone: {', '.join(sorted(names)) or 'none'}")
    else:
        for line in lines(skipped(suite)):
            print(line)
