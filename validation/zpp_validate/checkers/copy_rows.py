"""Do all who hold a copy of the weights hold the same, bit for bit? Rows of /weight_copies, by the rules of
lib/trace/README.md."""

import re


def problems(hashes, count, holders, found, first):
    """Reasons why the copies are wrong. `hashes`: one for each of `count` nodes or ranks, as `holders` says;
    `found`: the copies from which the run resumed, after `first` steps."""
    wrong = []
    if len(hashes) != count or not all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes):
        wrong.append(f"/weight_copies has not one SHA-256 in hexadecimal digits for each of {count} {holders}")
    elif len(set(hashes)) > 1:
        wrong.append(f"/weight_copies: the copies of the {holders} differ: {len(set(hashes))} of {count}")
    if found not in ("none", "behind", "current") or first == 0 and found != "none":
        wrong.append(f"/weight_copies: found is {found!r} after {first} steps of earlier runs")
    return wrong
