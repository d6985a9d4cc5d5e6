"""What the GPU does in a training step, kernel by kernel, beside the least time that each operation needs.

usage: zpp-validate kernel-table [--summary RUN.json | shape flags] [OPTION...] KERNELS.tsv [KERNELS.tsv ...]

KERNELS.tsv is what the library kernel_times (validation/kernel_times/) wrote, a file a rank, all of one run. The shape
comes from the summary of that run (zpp_train --json) or from flags. A step is the time from one loss to the next: the
kernel that --marker matches runs once in every micro-step; the first steps (--skip) do not count.

Prints Markdown: a row an operation, the longest first, averaged over ranks and steps; sums by category; and for each
rank how long its GPU was busy, idle, and waited for communication alone. Products are told apart by the transpositions
in their names (forward TN, gradient of the input NN, of the weight NT) and by their order in the step; where the number
of them is not that of the model's layers, they stay together, without a floor, and a note says so.
Floors: validation/zpp_validate/forms/gpt_floors.py. Exits with 2 when a file cannot be read.
"""

import argparse
import json
import re
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from zpp_validate import command_line
from zpp_validate.forms import gpt_floors, settings
from zpp_validate.problem import Problem, reading
from zpp_validate.readers import kernel_file
from zpp_validate.tables import markdown_table

COMMUNICATION = "communication"

# Operation and category of a kernel by its name: the first that matches. What none matches is a row of its own.
KERNELS = [(re.compile(pattern), operation, category) for pattern, operation, category in (
    (r"^nccl", None, COMMUNICATION),
    (r"sdpa.*fprop", "attention forward", "attention"),
    (r"sdpa.*bprop|convert_dq|dot_do_o", "attention backward", "attention"),
    (r"(attention|causal)_softmax|cudnn", None, "attention"),
    (r"nvjet|gemm|cutlass|cublas", None, "products"),
    (r"cross_entropy", "cross entropy", "loss"),
    (r"add_mean", None, "loss"),
    (r"column_sums", "bias gradient", "bias"),
    (r"token_gradient|position_gradient|radix_sort|Iota|embedding_backward", "embedding backward", "embedding"),
    (r"embedding|EmbeddingShape", "embedding forward", "embedding"),
    (r"cuda_ops::.*(backward_kernel|input_gradient)|layernorm_backward", "layernorm backward", "layernorm"),
    (r"cuda_ops::.*forward_kernel|layernorm_forward", "layernorm forward", "layernorm"),
    # No floor of another optimizer, or of moments that are not fp32, is written down.
    (r"update_kernel<zeropp::optim::rule::(?!adamw::)|update_(moments|tiles)_kernel<", None, "optimizer"),
    (r"AdamW|adamw", "AdamW", "optimizer"),
    (r"optim.*(block_sums|norm|square_pieces)", "gradient norm", "optimizer"),
    (r"optim.*Scale", "gradient scaling", "optimizer"),
    (r"optim", None, "optimizer"),
    (r"codec::", None, "codec"),
)]
# A second pass of sums over rows: of the operation before it on its stream.
FINISHES_SUM = re.compile(r"shares_kernel|AddGroups")
# A kernel that finishes the product before it: sums of a split product.
FINISHES_PRODUCT = re.compile(r"splitK|reduce_kernel|epilogue::impl", re.IGNORECASE)
TRANSPOSITIONS = re.compile(r"_([TN])([TN])[TN](?:_|$)|_([tn])([tn])(?:_|$)")
ROLES = {"TN": "forward", "NN": "data", "NT": "weight"}
ROLE_NAMES = {"forward": "forward", "data": "input gradient", "weight": "weight gradient"}


def readable(name):
    """A kernel's name without namespaces, arguments and what its template is made for; of a loop, its body's."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    body = re.search(r"for_each_kernel<(.*)>\(", name)
    if body:
        inner = re.split(r"[<>, ]+", body[1])
        return next((re.sub(r".*::", "", part) for part in inner if part and not part.endswith("ByFour")), name)
    head = re.split(r"[<(]", re.sub(r"^void ", "", name), maxsplit=1)[0]
    inner = re.search(r"cutlass::Kernel2?<(\w+)>", name)
    return inner[1] if inner else re.sub(r".*::", "", head)


def classify(activity):
    """Operation, category, name of an activity; a product's operation is found later."""
    if activity.kind != "kernel":
        operation = "copies" if activity.kind == "copy" else "memory sets"
        return operation, "copies and sets", operation
    name = readable(activity.name)
    for pattern, operation, category in KERNELS:
        if pattern.search(activity.name):
            return operation or name, category, name
    return name, "other", name


def role_of(name):
    match = TRANSPOSITIONS.search(name)
    return ROLES.get("".join(letter for letter in match.groups() if letter).upper()) if match else None


def expected_products(shape, role, count):
    """The layers, in order, whose products of a role begin between two losses: the backward pass of one micro-step,
    and the forward pass of the next. Recomputed ones come before: all but the last block's, without the last product.
    None where `count` is another number."""
    layers = list(gpt_floors.BLOCK) * shape.layers
    if role != "forward":
        order = ["head", *reversed(layers)]
        return [(layer, "") for layer in order] if count == len(order) else None
    order = [(layer, "") for layer in [*layers, "head"]]
    again = [(layer, ", recomputed") for layer in gpt_floors.BLOCK[:3]] * (shape.layers - 1)
    return {len(order): order, len(order) + len(again): again + order}.get(count)


@dataclass
class Row:
    """Of one rank, over all its steps; of all ranks when summed."""

    category: str
    names: dict = field(default_factory=lambda: defaultdict(int))  # nanoseconds of each
    nanoseconds: int = 0
    calls: int = 0
    floor: float | None = None  # seconds a step

    def add(self, activity, name):
        self.names[name] += activity.end - activity.begin
        self.nanoseconds += activity.end - activity.begin
        self.calls += 1


@dataclass
class Rank:
    """What one file says of whole steps. Times in nanoseconds."""

    steps: int
    span: int
    busy: int
    working: int  # with something that is no communication
    communicating: int
    rows: dict
    notes: set


def name_products(shape, window, notes):
    """The operations of the products that begin between two losses, in the order of `window`, by activity's index."""
    by_role, finishing = defaultdict(list), []
    for index, activity in window:
        if FINISHES_PRODUCT.search(activity.name):
            finishing.append(index)
        else:
            by_role[role_of(activity.name)].append(index)
    names = {}
    for role, indices in by_role.items():
        expected = expected_products(shape, role, len(indices)) if role else None
        if expected is None:
            what = ROLE_NAMES.get(role, "of unknown transposition")
            notes.add(f"{len(indices)} products, {what}, in a micro-step are not those of the layers: not told apart")
            names.update((index, (f"products, {what}", None)) for index in indices)
        else:
            names.update((index, (f"{layer} {ROLE_NAMES[role]}{suffix}", (layer, role)))
                         for index, (layer, suffix) in zip(indices, expected))
    for index in finishing:  # belongs to the one before
        before = [other for other in names if other < index]
        names[index] = names[max(before)] if before else ("products, finishing", None)
    return names


def read_rank(path, shape, machine, options):
    activities, complete = kernel_file.read(path)
    marks = [a.begin for a in activities if a.kind == "kernel" and options.marker.search(a.name)]
    first = options.skip * shape.micro_steps
    steps = (len(marks) - 1 - first) // shape.micro_steps
    if steps < 1:
        raise Problem(f"{path}: {len(marks)} kernels match the marker, too few for one step after {options.skip}: "
                       "record more steps, or give --marker or --skip")
    marks = marks[first:first + steps * shape.micro_steps + 1]
    inside = [a for a in activities if marks[0] <= a.begin < marks[-1]]

    rows, notes, products, window = {}, set(), {}, []
    if not complete:
        notes.add(f"{path.name} lacks its end: the recorded program did not end by itself")
    boundaries = iter(marks[1:])
    boundary = next(boundaries)
    kinds = [classify(activity) for activity in inside]
    for index, activity in enumerate(inside):
        while activity.begin >= boundary:
            products.update(name_products(shape, window, notes))
            window, boundary = [], next(boundaries)
        if kinds[index][1] == "products":
            window.append((index, activity))
    products.update(name_products(shape, window, notes))

    before = {}  # on each stream: operation and category
    for index, (activity, (operation, category, name)) in enumerate(zip(inside, kinds)):
        layer_and_role = None
        if index in products:
            operation, layer_and_role = products[index]
        elif FINISHES_SUM.search(activity.name):
            operation, category = before.get(activity.stream, (operation, category))
        if activity.kind == "kernel":
            before[activity.stream] = operation, category
        row = rows.setdefault(operation, Row(category))
        row.add(activity, name)
        if layer_and_role and not FINISHES_PRODUCT.search(activity.name):
            row.floor = (row.floor or 0) + gpt_floors.product(shape, machine, *layer_and_role) / steps
        elif activity.kind != "kernel":
            moved = activity.size * (2 if activity.kind == "copy" else 1)
            row.floor = (row.floor or 0) + machine.seconds(0, moved) / steps
    floors = gpt_floors.operations(shape, machine)
    if any(operation.endswith("recomputed") for operation in rows):  # all blocks but the last
        share = 1 + (shape.layers - 1) / shape.layers
        floors["attention forward"] *= share
        floors["layernorm forward"] *= 1 + 2 * (shape.layers - 1) / (2 * shape.layers + 1)
    for operation, seconds in floors.items():
        if operation in rows:
            rows[operation].floor = seconds

    def covered(chosen):
        return kernel_file.covered(chosen, marks[0], marks[-1])

    talk = [i for i, (_, category, _) in enumerate(kinds) if category == COMMUNICATION]
    work = [a for a, (_, category, _) in zip(inside, kinds) if category != COMMUNICATION]
    return Rank(steps, marks[-1] - marks[0], covered(inside), covered(work), covered([inside[i] for i in talk]),
                rows, notes)


def shortened(names, most=2, width=66):
    """What a cell can hold."""
    shown = [name if len(name) <= width else name[:width - 3] + "..." for name in names[:most]]
    return " + ".join(shown + ([f"{len(names) - most} more"] if len(names) > most else []))


def milliseconds(seconds):
    return "-" if seconds is None else f"{seconds * 1e3:,.3f}"


def percent(part, whole):
    return "-" if part is None or whole == 0 else f"{100 * part / whole:.1f}%"


def mean_rows(ranks):
    """Operation, category, names, seconds a step, calls a step, floor a step: means over ranks, the longest first."""
    found = []
    for operation in dict.fromkeys(operation for rank in ranks for operation in rank.rows):
        own = [(rank.rows[operation], rank.steps) for rank in ranks if operation in rank.rows]
        names = defaultdict(int)
        for row, _ in own:
            for name, spent in row.names.items():
                names[name] += spent
        floors = [row.floor for row, _ in own if row.floor is not None]
        found.append((operation, own[0][0].category, sorted(names, key=names.get, reverse=True),
                      sum(row.nanoseconds / steps for row, steps in own) * 1e-9 / len(ranks),
                      sum(row.calls / steps for row, steps in own) / len(ranks),
                      sum(floors) / len(ranks) if floors else None))
    return sorted(found, key=lambda entry: -entry[3])


def report(ranks, shape, options):
    rows = mean_rows(ranks)
    step = sum(rank.span / rank.steps for rank in ranks) * 1e-9 / len(ranks)
    table = [[operation, category, shortened(names), milliseconds(spent), f"{calls:,.1f}",
              f"{spent / calls * 1e6:,.1f}",
              milliseconds(floor), percent(floor, spent)]
             for operation, category, names, spent, calls, floor in rows[:options.top]]
    left = rows[options.top:]
    if left:
        table.append([f"{len(left)} more", "", "", milliseconds(sum(row[3] for row in left)),
                      f"{sum(row[4] for row in left):,.1f}", "", "", ""])
    categories = defaultdict(float)
    for _, category, _, spent, _, _ in rows:
        categories[category] += spent
    floors = [(floor, spent) for _, _, _, spent, _, floor in rows if floor is not None]
    floor_sum, with_floor = sum(f for f, _ in floors), sum(s for _, s in floors)
    devices = []
    for number, rank in enumerate(ranks):
        per_step = lambda nanoseconds, rank=rank: milliseconds(nanoseconds * 1e-9 / rank.steps)
        exposed = rank.busy - rank.working
        devices.append([str(number), str(rank.steps), per_step(rank.span), per_step(rank.busy),
                        per_step(rank.span - rank.busy), per_step(rank.communicating), per_step(exposed),
                        per_step(rank.communicating - exposed)])
    notes = sorted(set().union(*(rank.notes for rank in ranks)))
    parts = [
        f"GPT of {shape.layers} x {shape.hidden}, {shape.heads} heads, {shape.length} tokens, vocabulary "
        f"{shape.vocab}; "
        f"{shape.micro_steps} x {shape.sequences} sequences a rank and step, {shape.ranks} ranks, "
        f"{8 * shape.element}-bit.",
        f"Floors: {options.bandwidth:g} TB/s by a copy, {options.tflops:g} TFLOP/s by products.", "",
        markdown_table.aligned(["operation", "category", "kernels", "ms a step", "calls", "us a call", "floor (ms)",
                                "of floor"], table, {"operation", "category", "kernels"}), "",
        f"A step takes {milliseconds(step)} ms. Operations with a floor take {milliseconds(with_floor)} ms and need "
        f"{milliseconds(floor_sum)} ms: {percent(floor_sum, with_floor)}.", "", *disturbance(options),
        markdown_table.aligned(["category", "ms a step", "of the step"],
                               [[name, milliseconds(spent), percent(spent, step)]
                                for name, spent in sorted(categories.items(), key=lambda item: -item[1])],
                               {"category"}), "",
        markdown_table.aligned(["rank", "steps", "step (ms)", "busy", "idle", "communicating", "exposed", "overlapped"],
                               devices, set()), "",
        "of floor: the floor over the time taken. busy: at least one kernel, copy or set runs; exposed: nothing but",
        "communication does; overlapped: communication and something else. Sums of kernels that run side by side "
        "may exceed",
        "the step.", *(f"Note: {note}." for note in notes), ""]
    return "\n".join(parts)


def median_step(summary, skip):
    return statistics.median(summary["steps"]["time"][skip:])


def disturbance(options):
    """How much longer a step took because it was recorded."""
    if options.unrecorded is None:
        return []
    with reading(options.unrecorded, "summary of zpp_train", "give the JSON of the same run"):
        recorded, plain = (median_step(json.loads(path.read_text()), options.skip)
                           for path in (options.summary, options.unrecorded))
    return [f"Median step on the host's clock: {milliseconds(recorded)} ms recorded, {milliseconds(plain)} ms "
            f"unrecorded "
            f"({100 * (recorded / plain - 1):+.1f}%).", ""]


def shape_from(options):
    if options.summary is None:
        return gpt_floors.Shape(options.num_layers, options.hidden_size, options.num_attention_heads,
                                options.seq_length,
                                options.vocab_size, options.micro_batch_size, options.gradient_accumulation_steps,
                                options.ranks or len(options.kernels), options.zero_stage, options.tied_head,
                                2 if options.bf16 else 4)
    with reading(options.summary, "summary of zpp_train", "give what --json wrote"):
        summary = json.loads(options.summary.read_text())
        config = summary["config"]
        model = config["zeropp"]["model"]
        if model["name"] != "gpt":
            raise Problem(f"{options.summary} is of the model {model['name']}: there are floors of a GPT only")
        return gpt_floors.Shape(*map(int, (
            model["num_layers"], model["hidden_size"], model["num_attention_heads"], model["seq_length"],
            model["vocab_size"] or summary["data"]["vocab_size"], config["train_micro_batch_size_per_gpu"],
            config["gradient_accumulation_steps"], summary["world_size"], config["zero_optimization"]["stage"],
            model["tied_head"], settings.element_bytes(config))))


def parse_arguments(words):
    parser = command_line.parser("kernel-table", __doc__)
    parser.add_argument("kernels", nargs="+", type=command_line.InputFile, metavar="KERNELS.tsv", help="a file a rank")
    parser.add_argument("--summary", type=command_line.InputFile, metavar="RUN.json",
                        help="of the same run: gives the shape and ranks")
    parser.add_argument("--unrecorded", type=command_line.InputFile, metavar="RUN.json",
                        help="of the same run without the library")
    for flag, default in (("num-layers", 48), ("hidden-size", 1600), ("num-attention-heads", 25), ("seq-length", 1024),
                          ("micro-batch-size", 8), ("vocab-size", 50257), ("gradient-accumulation-steps", 1)):
        parser.add_argument(f"--{flag}", type=command_line.positive, default=default,
                            help=f"without a summary [{default}]")
    parser.add_argument("--ranks", type=command_line.positive, help="of the run, without a summary [files]")
    parser.add_argument("--zero-stage", type=int, choices=range(4), default=3, help="without a summary [3]")
    parser.add_argument("--tied-head", action=argparse.BooleanOptionalAction, default=True, help="without a summary")
    parser.add_argument("--bf16", action=argparse.BooleanOptionalAction, default=True, help="without a summary")
    parser.add_argument("--bandwidth", type=command_line.positive_number, default=4.2,
                        help="of a copy, read and written [4.2 TB/s: H200]")
    parser.add_argument("--tflops", type=command_line.positive_number, default=800.0,
                        help="of matrix products [800 TFLOP/s: H200, bf16]")
    parser.add_argument("--marker", type=re.compile, default=re.compile("cross_entropy"), metavar="REGEX",
                        help="kernel that runs once a micro-step [cross_entropy]")
    parser.add_argument("--skip", type=command_line.natural, default=2, metavar="N",
                        help="steps at the begin that do not count [2]")
    parser.add_argument("--top", type=command_line.positive, default=40, metavar="N", help="rows of operations [40]")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there as well")
    options = parser.parse_args(words)
    if options.unrecorded and not options.summary:
        parser.error("--unrecorded is compared with --summary")
    return options


def main(words):
    options = parse_arguments(words)
    shape = shape_from(options)
    machine = gpt_floors.Machine(options.bandwidth * 1e12, options.tflops * 1e12)
    text = report([read_rank(path, shape, machine, options) for path in options.kernels], shape, options)
    print(text, end="")
    if options.output:
        options.output.write_text(text)
    return 0
