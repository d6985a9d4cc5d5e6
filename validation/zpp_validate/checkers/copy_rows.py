"""Do all nodes hold the same copy of the weights, bit for bit? Rows of /weight_copies, by the rules of lib/trace/README.md."""

import re


def problems(hashes, nodes, found, first):
    """Reasons why they are wrong. `hashes`: by node; `found`: the copies that the run went on from, after `first` steps."""
    wrong = []
    if len(hashes) != nodes or not all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes):
        wrong.append(f"/weight_copies has not one SHA-256 in hexadecimal digits for each of {nodes} nodes")
    elif len(set(hashes)) > 1:
        wrong.append(f"/weight_copies: the copies of the nodes differ: {len(set(hashes))} of {nodes}")
    if found not in ("none", "behind", "current") or first == 0 and found != "none":
        wrong.append(f"/weight_copies: found is {found!r} after {first} steps of earlier runs")
    return wrong
