"""Are the shapes of exact differences possible? Rows of /exact_differences, by the rules of lib/trace/README.md."""

from zpp_validate.forms.wire import exact_bytes


def problem(rows, shards):
    """Why the first wrong row cannot be; "" where all can. `shards`: values of a rank's shard, by unit."""
    seen = set()
    for number, row in enumerate(rows):
        where, unit, shape = f"/exact_differences: row {number}", row["unit"], (row["width"], row["escapes"])
        if unit >= len(shards):
            return f"{where}: unit {unit} of {len(shards)}"
        if (row["step"], unit) in seen:
            return f"{where}: the second of unit {unit} after {row['step']} steps"
        seen.add((row["step"], unit))
        if shape[0] > 8 and shape != (16, 0) or shape[0] == 0 and shape[1] or shape[1] > shards[unit]:
            return f"{where}: no image has a width of {shape[0]} bits with {shape[1]} escapes"
        if exact_bytes(shards[unit], *shape) > exact_bytes(shards[unit], 16, 0):
            return f"{where}: longer than the weights as they are"
    return ""


def shapes(rows):
    """{(steps before, unit): (width, escapes)}"""
    return {(row["step"], row["unit"]): (row["width"], row["escapes"]) for row in rows}
