"""Traces of zpp_converge, made up: settings with a known effect on the loss, seeds that settings share, and noise of
each run.

make() gives attributes and groups, as write() puts them into a file and as a test may spoil them first.
"""

import hashlib
import json
import math

import numpy as np

import synthetic_trace

SETTING = {"level": "text", "model": "gpt", "stage": 3, "weight_codec": "none", "gradient_codec_intra": "none",
           "gradient_codec_inter": "none", "reduce_scatter": "2-hop", "hpz": 1, "feedback": "off", "optimizer": "adamw",
           "weight_bits": 16.0, "gradient_bits": 32.0, "baseline": "base", "effect": 0.0}
STEPS, EVERY, BATCHES = 20, 5, 4


def setting(name, **changed):
    """A setting. `effect`: nats per token that it adds to the final loss; `own`: keys of the object zeropp of its
    configuration. Neither is a column."""
    return SETTING | {"name": name} | changed


BASE = setting("base", baseline="")
NEAR = dict(gradient_codec_intra="int8:128", gradient_codec_inter="int4:128+had32", gradient_bits=12.0)
INT4 = dict(gradient_codec_intra="int4:128", gradient_codec_inter="int4:128", gradient_bits=8.25)
WEIGHTS = dict(weight_codec="int4:128", weight_bits=4.125)
LADDER = (BASE, setting("near", effect=0.001, **NEAR), setting("int4", effect=0.05, **INT4),
          setting("weights", effect=0.2, **WEIGHTS))


def config_of(source, batches, own):
    model = {"name": "gpt", "num_layers": 2, "hidden_size": 64, "seq_length": 32}
    return json.dumps({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 4,
                       "optimizer": {"params": {"lr": 0.003}}, "scheduler": {"type": "constant"},
                       "zeropp": {"data": {"source": source}, "model": model, "train_steps": STEPS,
                                  "evaluation_batches": batches, **own}})


def losses(settings, seeds, random, noise=0.004, between=0.05):
    """Final losses, a row a setting: what a seed does is common to all settings, `noise` is of each run."""
    common = 3 + between * random.standard_normal(len(seeds))
    return [common + each["effect"] + noise * random.standard_normal(len(seeds)) for each in settings]


def make(settings=LADDER, seeds=range(1, 7), random_seed=1, noise=0.004, quadratic=True, contracts=True,
         batches=BATCHES):
    """(attributes, groups) of a matrix that is VALID, with the two other levels beside it."""
    random, seeds = np.random.default_rng(random_seed), list(seeds)
    finals = losses(settings, seeds, random, noise)
    rows, runs, steps, evaluations, parts, errors, groups = [], [], [], [], [], [], {}
    for place, (each, own) in enumerate(zip(settings, finals)):
        columns = {name: value for name, value in each.items() if name not in ("effect", "own")}
        keys = each.get("own", {})
        rows.append(columns | {"config_json": config_of(each["level"], batches, keys)})
        for seed, final in zip(seeds, own):
            add_run(runs, steps, evaluations, place, each["level"], seed, float(final), random)
            add_parts(parts, len(runs) - 1, float(final), batches)
            add_errors(errors, len(runs) - 1, seed, keys, each["weight_codec"])
    quadratics, shown = [], []
    if quadratic:
        rows.append(plain_row("quadratic int8", "quadratic"))
        runs.append(run_row(len(rows) - 1, 1, 10000, 0.0, math.nan))
        quadratics.append({"run": len(runs) - 1, "violations": 0, "largest_ratio": 0.4, "steps": 10000})
        shown = [{"run": len(runs) - 1, "step": 50 * i, "distance": 0.4 / (i + 1), "bound": 1.0 / (i + 1)}
                 for i in range(200)]
    checks = []
    if contracts:
        rows += [plain_row("hpz off", "contract"), plain_row("hpz on", "contract") | {"hpz": 2}]
        for place in (len(rows) - 2, len(rows) - 1):
            runs.append(run_row(place, 1, 10, 2.0, math.nan))
        runs[-1]["parameters_hash"] = runs[-2]["parameters_hash"]
        checks.append({"name": "hpz", "first": len(runs) - 2, "second": len(runs) - 1, "difference": 0.0, "limit": 0.0,
                       "passed": 1})
    columns = lambda table, names: {name: [row[name] for row in table] for name in names}
    for name, table in (("settings", rows), ("runs", runs), ("steps", steps), ("evaluations", evaluations),
                        ("errors", errors),
                        ("held_out_parts", parts),
                        ("quadratic", shown), ("quadratic_runs", quadratics), ("checks", checks)):
        groups[name] = columns(table, synthetic_trace.columns_of("converge", name))
    groups["ranks"] = dict(host=["h"] * 4, node=[0, 0, 1, 1], local_rank=[0, 1, 0, 1], pid=[1, 2, 3, 4], gpu=[""] * 4,
                           gpu_uuid=[""] * 4, gpu_pci=[""] * 4)
    for level in {each["level"] for each in settings}:
        groups[f"data_{level}"] = {"@source": "text", "@train_tokens": 1000, "@held_out_tokens": 32 * 16 * 40 + 1,
                                   "@vocab_size": 256,
                                   "@unigram_entropy_bits": 4.0, "@source_entropy_bits": 1.5 if level == "markov"
                                   else math.nan}
    text = json.dumps({"seeds": seeds})
    attributes = {name: "x" for name in synthetic_trace.TEXT if name not in ("kernels", "parameters_hash")}
    attributes.update(schema="zeropp-trace", schema_version=synthetic_trace.VERSION, app="converge", verdict="VALID",
                      interrupted="",
                      config_json=text, config_hash=hashlib.sha256(text.encode()).hexdigest(),
                      backend="host", complete=1,
                      git_dirty=0, world_size=4, node_count=2, ranks_per_node=2, emulated=0, seed=1)
    return attributes, groups


def plain_row(name, level):
    return {key: value for key, value in setting(name, level=level, baseline="").items()
            if key != "effect"} | {"config_json": "{}"}


def digest(*words):
    return hashlib.sha256(repr(words).encode()).hexdigest()


def run_row(place, seed, steps, train, held_out):
    return {"setting": place, "seed": seed, "world_size": 4, "node_size": 2, "steps": steps, "skipped": 0,
            "final_train_loss": train, "final_held_out_loss": held_out, "bits_per_byte": held_out / math.log(2),
            "seconds": 2.0,
            "seconds_per_step": 0.1, "bytes_inter_node": 4096, "bytes_predicted_inter_node": 4096,
            "data_hash": digest("data", seed),
            "parameters_hash": digest("parameters", place, seed), "verdict": "VALID"}


def add_run(runs, steps, evaluations, place, level, seed, final, random):
    index = len(runs)
    curve = final + 2.5 * 0.7 ** np.arange(STEPS) + 0.01 * random.standard_normal(STEPS)
    last = max(1, STEPS // 10)
    runs.append(run_row(place, seed, STEPS, float(curve[-last:].mean()), final))
    if level == "markov":
        runs[-1]["bits_per_byte"] = math.nan
    steps += [{"run": index, "step": i, "loss": float(loss), "grad_norm": 1.0, "skipped": 0}
              for i, loss in enumerate(curve)]
    evaluations += [{"run": index, "step": step, "loss": final + (2.5 * 0.7**step if step < STEPS else 0)}
                    for step in range(0, STEPS + 1, EVERY)]


def add_errors(rows, run, seed, own, weight_codec):
    """Errors of the embedding at a right angle, 0.1 times the seed, and of the blocks a tenth of that; weights lose
    nothing without a codec, or with exact differences."""
    exact = own.get("exact_differences") or weight_codec == "none" and not own.get("weight_differences")
    every = own.get("measure_quantization_error")
    for step in range(0, STEPS, every) if every else ():
        for kind in ("weights", "gradients"):
            for unit_kind, error in (("embedding", 0.1 * seed), ("block", 0.01 * seed)):
                lost = 0.0 if exact and kind == "weights" else round(error, 2)
                ratio = math.hypot(1, lost)
                rows.append({"run": run, "step": step, "kind": kind, "unit_kind": unit_kind, "relative_l2": lost,
                             "cosine": 1 / ratio, "largest": lost, "norm_ratio": ratio})


def add_parts(parts, run, final, batches):
    """Losses by part whose batches have the final one as their mean: some are harder in all runs, and some in every
    third run. Batches are dealt in turn to up to 16 parts."""
    count = min(16, batches)
    part_of = np.arange(batches) * count // batches
    apart = np.resize([0.02, 0.01, -0.01, -0.02], count)
    if run % 3 == 0:
        apart = apart + np.resize([0.001, -0.001], count)
    apart = apart - apart[part_of].mean()
    parts += [{"run": run, "part": part, "loss": final + float(both)} for part, both in enumerate(apart)]


def write(path, attributes, groups):
    synthetic_trace.write(path, attributes, groups)
    return path
