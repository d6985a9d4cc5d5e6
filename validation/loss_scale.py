"""The loss scale of every step of a run, worked out again from its configuration and its skipped steps, by DeepSpeed's rules for the
object `fp16`: steps are counted from 0, the latest overflow is remembered by its number, and the scale doubles where the steps
since it are a multiple of the window."""

LARGEST = 2.0**64


def is_dynamic(config):
    fp16 = config.get("fp16", {})  # not in traces before fp16 was there
    return bool(fp16.get("enabled")) and fp16["loss_scale"] == 0


def scales(config, skipped):
    """One a step; None behind an overflow at the minimum, after which there is no step. Raises KeyError: no effective configuration."""
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
