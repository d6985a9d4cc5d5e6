"""The learning rate of every step of a run, worked out again from its configuration and its skipped steps, by
DeepSpeed's rules for the object `scheduler`: the scheduler is asked when it is made, and again after each step that was
taken."""

import math


def _share(params, i, warmup):
    return i / warmup if params["warmup_type"] == "linear" else math.log(i + 1) / math.log(warmup)


def rate(config, taken):
    """Learning rate of the step that follows `taken` others. Raises KeyError: no effective configuration."""
    base = config["optimizer"]["params"]["lr"]
    scheduler = config.get("scheduler", {"type": "constant"})  # not in traces before schedules were there
    if scheduler["type"] == "constant":
        return base
    params, i = scheduler["params"], taken - 1
    warmup = max(2, params["warmup_num_steps"])
    after = max(1, params.get("total_num_steps", 0) - warmup)
    if scheduler["type"] == "WarmupCosineLR":
        if i < 0:
            return 0.0
        if i < warmup:
            least = params["warmup_min_ratio"]
            return base * (least + (1 - least) * _share(params, i, warmup))
        least, progress = params["cos_min_ratio"], min(1, (i - warmup + 1) / after)
        return base * (least + (1 - least) * (1 + math.cos(math.pi * progress)) / 2)
    least, most = params["warmup_min_lr"], params["warmup_max_lr"]
    if i < 0:
        share = 0
    elif i < warmup:
        share = _share(params, i, warmup)
    elif scheduler["type"] == "WarmupLR":
        share = 1
    elif scheduler["type"] == "WarmupDecayLR":
        share = max(0, (params["total_num_steps"] - i) / after)
    else:
        raise KeyError(scheduler["type"])
    return least + (most - least) * share


def problem(config, first_step, skipped, found):
    """The first step whose rate in `found` is impossible, as a reason; empty: none. Where earlier steps of a resumed
    run may have been skipped, the number that were taken is unknown: any number that fits all rates is accepted."""
    counts = [first_step] if not first_step or not config.get("fp16", {}).get("enabled") else range(first_step, -1, -1)
    reasons = []
    for taken in counts:
        reason = ""
        for step, (one, skip) in enumerate(zip(found, skipped)):
            wanted = rate(config, taken)
            if not math.isclose(one, wanted, rel_tol=1e-12, abs_tol=1e-300):
                reason = (f"step {step}: learning_rate is {one}, not {wanted}, by the configuration and the "
                          f"steps skipped")
                break
            taken += not skip
        if not reason:
            return ""
        reasons.append(reason)
    return reasons[0]
