"""Few rows that hold every pair of values of any two factors, made greedily; the same on every run."""

import itertools
import random


def pairs_of(row):
    return {((a, row[a]), (b, row[b])) for a, b in itertools.combinations(sorted(row), 2)}


def cover(factors, kinds, seed=1, tries=60):
    """`factors`: {name: [value, ...]}; `kinds`: predicates of rows. Rows of the first kind hold all pairs that
    they can, rows of the next kind hold the remaining pairs, and so on. A pair that no kind can hold is an error."""
    generator = random.Random(seed)
    missing = {pair for a, b in itertools.combinations(sorted(factors), 2)
               for pair in (((a, x), (b, y)) for x in factors[a] for y in factors[b])}
    rows = []
    for accept in kinds:
        unreachable = set()
        while missing - unreachable:
            wanted = min(missing - unreachable, key=repr)
            best = None
            for _ in range(tries):
                row = candidate(factors, wanted, accept, generator)
                if row and (best is None or len(pairs_of(row) & missing) > len(pairs_of(best) & missing)):
                    best = row
            if best is None:
                unreachable.add(wanted)
                continue
            rows.append(best)
            missing -= pairs_of(best)
    assert not missing, missing
    return rows


def candidate(factors, wanted, accept, generator):
    """A random row with the wanted pair that `accept` takes, or None."""
    for _ in range(200):
        row = {name: generator.choice(values) for name, values in factors.items()}
        row.update(wanted)
        if accept(row):
            return row
    return None
