# ctest: name=option_words timeout=30 labels=style
"""Words of a closed set are enums, parsed where they are read (kernels/core/enum_names.hpp): elsewhere no text is
compared with a word."""

import re
import sys
from pathlib import Path

from source_tree import SOURCE

# Files that may compare texts: names of registries, words that files hold, and words of command lines.
COMPARE = {
    "lib/c/all_reduce_plan.cpp": "registered algorithms",
    "lib/c/names.cpp": "what a caller in another language asks for",
    "lib/c/plan_request.cpp": "auto, instead of a registered algorithm",
    "lib/collective/one_hop_reduce.cpp": "a registered codec",
    "lib/collective/reference.cpp": "algorithms, written out a second time",
    "lib/data/options.hpp": "registered token sources",
    "lib/model/options.hpp": "a registered model",
    "lib/config/json.cpp": "a configuration file",
    "lib/config/option.cpp": "a configuration file, and flags",
    "lib/config/optimizer_options.cpp": "registered optimizers",
    "lib/config/unknown_key.cpp": "a configuration file",
    "lib/app/command_line.cpp": "the word after a flag of a boolean",
    "lib/app/help.cpp": "defaults as they are printed",
    "lib/app/run.cpp": "the launcher's environment",
    "lib/plan/calibrate.cpp": "the files of a sweep and of kernels",
    "lib/plan/hf_shape.cpp": "a file of transformers",
    "apps/plan/estimate_outputs.cpp": "the codec of a described collective",
    "apps/plan/job.cpp": "a type of weights in a file of transformers",
    "lib/trace/document.cpp": "the trace's own words",
    "lib/trace/sinks/json_sink.cpp": "names of the trace's groups",
    "lib/train/checkpoints.cpp": "the trace's own words",
    "lib/zero/optimizer/optimizer_shard.cpp": "which parameters decay, an option of kernels/optim",
    "lib/zero/plan/weight_image_memory.cpp": "registered codecs",
    "lib/zero/plan/unit_model.cpp": "names of units",
    "apps/converge/codec_lists.cpp": "a matrix",
    "apps/converge/plan.cpp": "an effective configuration",
    "apps/converge/quadratic_bound.cpp": "a registered optimizer and a registered schedule",
    "apps/kernels/resolve.cpp": "auto, instead of a list",
    "apps/plan/cluster_job.cpp": "a GPU of a table",
    "apps/plan/commands.cpp": "a flag on the command line",
    "apps/plan/measured_trace.cpp": "a trace",
    "apps/plan/savings.cpp": "paths of options",
    "apps/sweep/all_reduce.cpp": "a registered algorithm",
    "apps/sweep/text_output.cpp": "a registered group of ranks",
    "apps/sweep/nccl_flags.cpp": "names of nccl-tests",
    "apps/sweep/resolve.cpp": "lists of nccl-tests' flags",
    "apps/sweep/sweep.cpp": "a codec of a row",
}
WORD = re.compile(r'[=!]= "[a-zA-Z0-9-]+"')


def comparing(root):
    """The files in which a text is compared with a word; comments do not count."""
    found = set()
    for file in (file for top in ("lib", "apps") for file in (root / top).rglob("*.[ch]pp")):
        if WORD.search(re.sub(r"//.*", "", file.read_text())):
            found.add(file.relative_to(root).as_posix())
    return found


assert WORD.search('if (c.backend == "cuda") return;') and not WORD.search("if (c.backend == Backend::cuda) return;")
found = comparing(SOURCE)
for path in sorted(found - COMPARE.keys()):
    print(f"{path}: compares a text with a word: make the words an enum, or say in {Path(__file__).name} what "
          f"the text is")
for path in sorted(COMPARE.keys() - found):
    print(f"{path}: compares no text any more: leave it out of {Path(__file__).name}")
sys.exit(1 if found != COMPARE.keys() else 0)
