"""The published throughputs of ZeRO++ on V100 and the tutorial's log, against `zpp_plan time`. Four constants of the
cluster file were fitted, on the rows FITTED_ON alone; all other rows are predicted.

Figures are read off plots as integers: an error counts beyond half a unit. The TFLOPS of a row follow from the paper's
formula for the operations of a step with recompute, 96 B s L h^2 (1 + s / 6h + V / 16Lh).
"""

import dataclasses

CLUSTER = "v100-24x16"
VOCABULARY = 50257
SEQUENCE = 1024
HALF_A_UNIT = 0.5

# Layers, width, heads: 18 B as the tutorial gives it. The other shapes are not published where we could read them;
# these have the parameters, with a width of which two layers do not fit into DeepSpeed's max_live_parameters of 10^9.
SHAPES = {18: (40, 6144, 48), 49: (61, 8192, 64), 138: (76, 12288, 96)}

# (model, tokens, links): both ends of tokens, links and widths, two rows each. Other choices fit
# differently: on all rows 4.0 %, at most 13.5 %.
FITTED_ON = [(18, 1024, 1), (18, 1024, 4), (49, 2048, 1), (49, 2048, 4)]

# Same tokens, same links, another model, another throughput: no bandwidth model can tell 18 B from 49 B there unless
# layers decide what is hidden, and 49 B equals 138 B to the digit.
CONTRADICTING = [((18, 1024, 1), (49, 1024, 1)), ((18, 2048, 1), (49, 2048, 1)), ((18, 1024, 4), (49, 1024, 4)),
                 ((18, 2048, 4), (49, 2048, 4)), ((49, 1024, 1), (138, 1024, 1)), ((49, 2048, 1), (138, 2048, 1))]

# Where each constant stands in the cluster file, what it is, and what is plausible.
CONSTANTS = [("gpu.products.*.forward_tflops", "TFLOP/s that matrix products reach, of 125", 80, 112),
             ("engine.bytes_per_parameter", "bytes of memory traffic a parameter and step beside the products: "
              "copies, casts, "
                                            "gradients in fp32", 40, 150),
             ("rails.lanes.0.gb_per_s", "GB/s that a link of 100 Gbit/s carries, of 12.5", 10, 12.1),
             ("engine.overlap", "part of what prefetching could hide that DeepSpeed hides", 0.3, 0.8)]

FEATURES = {"zero3": ["--all-gather-algorithm", "native", "--reduce-scatter-algorithm", "native"],
            "zeropp": ["--zero-quantized-weights", "--zero-hpz-partition-size", "16", "--zero-quantized-gradients",
                       "--all-gather-algorithm", "flat"]}


@dataclasses.dataclass
class Row:
    model: int
    tokens: int
    links: int
    engine: str
    published: float
    predicted: float

    @property
    def key(self):
        return self.model, self.tokens, self.links

    @property
    def fitted(self):
        return self.key in FITTED_ON

    @property
    def error(self):
        """Relative error of the prediction beyond half a unit of the published value."""
        return max(0.0, abs(self.predicted - self.published) - HALF_A_UNIT) / self.published


def operations(model, tokens):
    layers, width, _ = SHAPES[model]
    return 96 * tokens * layers * width**2 * (1 + SEQUENCE / (6 * width) + VOCABULARY / (16 * layers * width))


def shape_flags(model, sequence, micro_batch):
    layers, width, heads = SHAPES[model]
    return ["--num-layers", layers, "--hidden-size", width, "--num-attention-heads", heads, "--seq-length", sequence,
            "--micro-batch-size", micro_batch, "--recompute-activations", "--fp16", "--backend", "cuda",
            "--copy-engines", "off", "--vocab-size",
            VOCABULARY]


def linked(constants):
    """Backward's products reach what forward's do."""
    path = CONSTANTS[0][0]
    return {**constants, **({path.replace("forward", "backward"): constants[path]} if path in constants else {})}


def predict(planner, published, constants=None, keys=None):
    rows, jobs = [], []
    for entry in published["throughput_tflops_per_gpu"]["rows"]:
        key = entry["model_b"], entry["tokens_per_gpu"], entry["links"]
        if keys is not None and key not in keys:
            continue
        for engine, flags in FEATURES.items():
            rows.append(Row(*key, engine, entry[engine], 0.0))
            jobs.append({"cluster": CLUSTER, "flags": shape_flags(key[0], SEQUENCE, key[1] // SEQUENCE) + flags,
                         "changes": {"rails.links_per_node": key[2], **linked(constants or {})}})
    for row, time in zip(rows, planner.times(jobs)):
        row.predicted = operations(row.model, row.tokens) / time["step_seconds"] / 1e12
    return rows


def predict_tutorial(planner, published):
    """[(engine, phase, ms of the log, ms predicted)]. The log does not say how many links a node has: one is
    assumed."""
    log = published["tutorial_log"]
    model = log["model"]
    jobs = [{"cluster": CLUSTER, "flags": shape_flags(18, model["seq"], model["micro_batch"]) + flags + ["--nodes", 4]}
            for flags in FEATURES.values()]
    rows = []
    for engine, time in zip(FEATURES, planner.times(jobs)):
        predicted = {"iteration": time["step_seconds"], "forward": time["forward_seconds"],
                     "backward": time["backward_seconds"]}
        rows += [(engine, phase, log[engine][f"{phase}_ms"], seconds * 1e3) for phase, seconds in predicted.items()]
    return rows


def unexplained(planner, published):
    """[(what, step s, products s, links s, ps a parameter that are left)] of ZeRO++ over one link when nothing is
    hidden: what no rate of products and links explains. The same engine on the same GPUs should have about the same
    left of each parameter."""
    cluster = planner.description(CLUSTER)
    link, inside = cluster["rails"]["lanes"][0]["gb_per_s"] * 1e9, cluster["node_links"]["gb_per_s"] * 1e9
    products = cluster["gpu"]["products"][0]["forward_tflops"] * 1e12
    gpus = cluster["gpus_per_node"]
    steps = [(f"{row['model_b']} B, {row['tokens_per_gpu']} tokens", row["model_b"], row["tokens_per_gpu"],
              cluster["nodes"],
              operations(row["model_b"], row["tokens_per_gpu"]) / (row["zeropp"] * 1e12))
             for row in published["throughput_tflops_per_gpu"]["rows"] if row["links"] == 1]
    log = published["tutorial_log"]
    steps.append(("the log: 18 B, 512 tokens", 18, log["model"]["seq"], log["cluster"]["nodes"],
                  log["zeropp"]["iteration_ms"] / 1e3))
    rows = []
    for what, model, tokens, nodes, step in steps:
        layers, width, _ = SHAPES[model]
        parameters = 12 * layers * width**2 + VOCABULARY * width
        computed = operations(model, tokens) / products
        # Once int8 weights and int4 gradients out of the node, once 16-bit weights and int4 gradients inside it.
        sent = parameters * (1 + 0.5 * (1 - 1 / nodes)) / link + parameters * 2.5 * (1 - 1 / gpus) / inside
        rows.append((what, step, computed, sent, (step - computed - sent) / parameters * 1e12))
    return rows


def fit(planner, published):
    """The constants that make the errors of FITTED_ON least, within what is plausible."""
    import scipy.optimize

    paths = [path for path, *_ in CONSTANTS]

    def errors(values):
        rows = predict(planner, published, dict(zip(paths, map(float, values))), FITTED_ON)
        return [row.predicted / row.published - 1 for row in rows]

    low, high = [least for *_, least, _ in CONSTANTS], [most for *_, most in CONSTANTS]
    middle = [(a + b) / 2 for a, b in zip(low, high)]
    found = scipy.optimize.least_squares(errors, middle, bounds=(low, high), x_scale=middle, diff_step=0.01,
                                         max_nfev=12)
    return dict(zip(paths, map(float, found.x)))
