"""The loss scale of every step of a run, worked out again from its configuration and its skipped steps, by DeepSpeed's
rules for the object `fp16`: steps are counted from 0, the latest overflow is remembered by its number, and the scale
doubles where the steps since it are a multiple of the window."""

LARGEST = 2.0**64


def is_dynamic(config):
    fp16 = config.get("fp16", {})  # not in traces before fp16 was there
    return bool(fp16.get("enabled")) and fp16["loss_scale"] == 0


def scales(config, skipped):
    """The loss scale of each step; None after an overflow at the minimum, which ends the run. Raises KeyError: no
    effective configuration."""
    fp16 = config.get("fp16", {})
    if not fp16.get("enabled"):
        return [1.0] * len(skipped)
    if not is_dynamic(config):
        return [float(fp16["loss_scale"])] * len(skipped)
    scale, minimum = 2.0 ** fp16["initial_scale_power"], float(fp16["min_loss_scale"])
    patience, latest, found = fp16["hysteresis"], -1, []
    for step, overflow in enumerate(skipped):
        found.append(scale)
        if scale is None:
            continue
        if overflow:
            latest = step
            if patience > 1:
                patience -= 1
            else:
                scale = None if scale == minimum else max(scale / 2, minimum)
            continue
        doubles = (step - latest) % fp16["loss_scale_window"] == 0
        if doubles or fp16["consecutive_hysteresis"]:
            patience = fp16["hysteresis"]
        if doubles:
            scale = min(2 * scale, LARGEST)
    return found


def successors(config, scale, overflow):
    """The loss scales that may follow a step with `scale`, where only its overflow is known."""
    minimum = float(config["fp16"]["min_loss_scale"])
    if not overflow:
        return {scale, min(2 * scale, LARGEST)}
    return {scale, max(scale / 2, minimum)}


def problem(config, first_step, skipped, found):
    """The first step whose loss scale in `found` is impossible, as a reason; empty: none. A run that resumes another,
    at `first_step`, has the state of its dynamic scale from there: only the changes can be judged."""
    if first_step > 0 and is_dynamic(config):
        for step in range(1, len(found)):
            if found[step] not in successors(config, found[step - 1], skipped[step - 1]):
                return f"step {step}: loss_scale is {found[step]}, which cannot follow {found[step - 1]}"
        return ""
    for step, (one, wanted) in enumerate(zip(found, scales(config, skipped))):
        if one != wanted:
            return f"step {step}: loss_scale is {one}, not {wanted}, by the configuration and the steps skipped"
    return ""
