"""Are the codecs that a trace says were in force those of its configuration, and did adaptive bits keep their budget?
By the rules of lib/trace/README.md."""

import math


def problems(trace, run, steps, first, evaluations):
    """Reasons why /codecs and /adaptive_bits are wrong. Sets the chosen widths in `run`, a closed_forms.Run. `steps`:
    rows of /steps; `first`: number of steps of the runs that this one resumes; `evaluations`: batches by the number of
    rows of /steps before them."""
    found = []
    if "adaptive_bits" in trace.columns:
        found += choose(trace, run, steps, first)
    if "codecs" in trace.columns:
        # An evaluation after the last step takes the codecs that a further one would.
        last = first + len(steps)
        looked = [*range(first, last), *[last] * (evaluations.get(len(steps), 0) > 0)]
        rows = [(row["step"], row["unit"], row["weights"], row["gradients_intra"], row["gradients_inter"])
                for row in trace.rows("codecs")]
        expected = [(step, unit, codecs.weights, *codecs.gradients) for step, unit, codecs in run.table.rows(looked)]
        for row, right in zip(rows, expected):
            if row != right:
                found.append(f"/codecs: {row} should be {right} (step, unit, weights, gradients)")
                break
        if len(rows) != len(expected):
            found.append(f"/codecs has {len(rows)} rows, should have {len(expected)}")
    return found


def begun_with(trace, adaptive, first, units, widest):
    """Bits by unit: the widest that all can have; for a run that resumes another, the bits that it says it found."""
    if first == 0:
        return [widest] * len(units)
    column = "weights" if adaptive.values == "weights" else "gradients_intra"
    rows = {row["unit"]: row[column] for row in trace.rows("codecs") if row["step"] == first}
    return [next((bits for bits in adaptive.bits if adaptive.codec(bits) == rows.get(unit)), None) for unit in units]


def choose(trace, run, steps, first):
    """Reasons why /adaptive_bits is wrong; sets run's widths by what it says was chosen."""
    adaptive, units, found = run.settings.adaptive, range(len(run.layout.shards)), []
    bytes_of = {(unit, bits): run.sent_in_a_step(adaptive.values, unit, adaptive.codec(bits)) for unit in units
                for bits in adaptive.bits}
    uniform = {bits: sum(bytes_of[unit, bits] for unit in units) for bits in adaptive.bits}
    budget = adaptive.budget_bytes or sum(run.sent_in_a_step(adaptive.values, unit, adaptive.budget_codec)
                                          for unit in units)
    if trace.budget != budget:
        found.append(f"/adaptive_bits: budget_bytes is {trace.budget}, should be {budget}")
    affordable = [bits for bits in adaptive.bits if uniform[bits] <= budget]
    if not affordable:
        return [*found, f"/adaptive_bits: no width keeps the budget of {budget}"]
    chosen = {first: begun_with(trace, adaptive, first, units, max(affordable))}
    if None in chosen[first] or sum(bytes_of[unit, bits] for unit, bits in zip(units, chosen[first])) > budget:
        return [*found, "/codecs does not begin with widths that keep the budget"]
    rows = trace.rows("adaptive_bits")
    due = [first + index for index, step in enumerate(steps) if (first + index) % adaptive.interval == 0
           and not step["skipped"]]
    if [(row["step"], row["unit"], row["bits"]) for row in rows] != [(step, unit, bits) for step in due
                                                                     for unit in units for bits in adaptive.bits]:
        found.append("/adaptive_bits has not exactly a row for each unit and width of every step after which widths "
                     "are chosen")
        rows = []
    for step in due if rows else ():
        of_step = {(row["unit"], row["bits"]): row for row in rows if row["step"] == step}
        found += [f"/adaptive_bits: {why} in step {step}"
                  for why in wrong_choice(of_step, bytes_of, budget, affordable, units)]
        chosen[step + 1] = [next((bits for bits in adaptive.bits if of_step[unit, bits]["chosen"]), max(affordable))
                            for unit in units]
    run.choose(chosen)
    return found


def wrong_choice(rows, bytes_of, budget, affordable, units):
    """Reasons why one choice is wrong. `rows`: by unit and bits."""
    taken = [key for key, row in rows.items() if row["chosen"]]
    if [unit for unit, _ in taken] != list(units):
        yield "not exactly one width of each unit is chosen"
    for key, row in rows.items():
        if row["bytes"] != bytes_of[key]:
            yield f"unit {key[0]} with {key[1]} bits sends {row['bytes']} bytes, should be {bytes_of[key]}"
        if not (math.isfinite(row["error"]) and row["error"] >= 0):
            yield f"the error of unit {key[0]} with {key[1]} bits is {row['error']}"
    if sum(bytes_of[key] for key in taken) > budget:
        yield f"the widths send {sum(bytes_of[key] for key in taken)} bytes, more than the budget of {budget}"
    error = sum(rows[key]["error"] for key in taken)
    best = min(sum(rows[unit, bits]["error"] for unit in units) for bits in affordable)
    if error > best * (1 + 1e-12):
        yield f"the widths lose {error:g}, more than the {best:g} of one width for all that the budget allows"
