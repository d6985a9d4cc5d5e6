# ctest: name=include_arrows timeout=30 labels=style
"""Includes point downward only: who may include whom is the table below (CONTRIBUTING.md, "Layout")."""

import re
import sys
import tempfile
from pathlib import Path

from source_tree import SOURCE

# A module is the folder, or the part of one, that holds a file; the longest prefix wins.
MODULES = ["kernels/core", "kernels/codec", "kernels/nn", "kernels/optim", "lib/base", "lib/device",
           "lib/device/compute_device",
           "lib/trace/recorder", "lib/trace", "lib/comm", "lib/checkpoint", "lib/collective", "lib/c", "lib/zero/plan",
           "lib/zero/communication",
           "lib/zero/quantization", "lib/zero/optimizer", "lib/zero/engine", "lib/model", "lib/data",
           "lib/config", "lib/app", "lib/bench",
           "lib/train", "lib/plan", "apps"]

# Direct arrows; what these include may be included as well, but by the rooms of lib/zero, whose arrows are all that
# they have.
TIGHT = {"lib/plan", "lib/zero/plan", "lib/zero/communication", "lib/zero/quantization", "lib/zero/optimizer",
         "lib/zero/engine"}
ARROWS = {
    "kernels/core": [],
    "kernels/codec": ["kernels/core"],
    "kernels/nn": ["kernels/core"],
    "kernels/optim": ["kernels/core"],
    "lib/base": [],
    "lib/device": ["lib/base", "kernels/core"],
    "lib/device/compute_device": ["lib/device", "kernels/nn", "kernels/optim"],
    "lib/trace/recorder": ["lib/base"],
    "lib/trace": ["lib/trace/recorder", "lib/base"],
    "lib/comm": ["lib/device", "lib/base", "lib/trace/recorder"],
    "lib/checkpoint": ["lib/comm", "lib/base"],
    "lib/collective": ["lib/comm", "kernels/codec", "lib/trace/recorder"],
    "lib/c": ["lib/collective", "lib/comm", "lib/device", "lib/trace/recorder", "lib/base", "kernels/codec"],
    "lib/zero/plan": ["lib/base", "kernels/core", "kernels/codec", "kernels/optim"],
    "lib/zero/communication": ["lib/zero/plan", "lib/collective", "lib/comm", "lib/device",
                              "lib/device/compute_device", "lib/base", "lib/trace/recorder"],
    "lib/zero/quantization": ["lib/zero/communication", "lib/zero/plan", "lib/collective", "lib/comm", "lib/device",
                              "lib/device/compute_device", "lib/base", "lib/trace/recorder", "kernels/codec"],
    "lib/zero/optimizer": ["lib/zero/plan", "lib/device", "lib/device/compute_device", "lib/base", "kernels/optim"],
    "lib/zero/engine": ["lib/zero/plan", "lib/zero/communication", "lib/zero/quantization", "lib/zero/optimizer",
                        "lib/checkpoint",
                        "lib/comm", "lib/device", "lib/device/compute_device", "lib/base", "lib/trace/recorder"],
    "lib/model": ["kernels/core", "kernels/codec", "kernels/nn", "kernels/optim", "lib/base", "lib/device",
                  "lib/device/compute_device", "lib/trace/recorder"],
    "lib/data": ["lib/base"],
    "lib/config": ["lib/base"],
    "lib/app": ["lib/comm", "lib/collective", "lib/config", "lib/model", "lib/data", "lib/trace", "lib/base"],
    "lib/bench": ["lib/app"],
    "lib/train": ["lib/app", "lib/zero/engine", "lib/plan"],
    "lib/plan": ["lib/zero/plan", "lib/config", "lib/base", "lib/trace/recorder", "kernels/core", "kernels/codec",
                 "kernels/optim"],
    "apps": ["lib/train", "lib/plan", "lib/bench", "lib/app", "lib/base", "lib/device", "lib/trace", "lib/comm",
             "lib/collective", "lib/zero/engine", "lib/model", "lib/data", "lib/config"],
}

# Single headers that a module may include beyond its arrows.
HEADERS = {
    "kernels/codec": [r"lib/base/nearest\.hpp"],
    # Updates that encode.
    "kernels/optim": [r"kernels/codec/formats/int[48]\.hpp", r"kernels/codec/host_scaled\.hpp",
                      r"kernels/codec/cuda/(encoded|vector)\.cuh"],
    "lib/data": [r"kernels/core/counter_rng\.hpp"],
    "lib/model": [r"lib/zero/plan/unit_model\.hpp"],
    "lib/zero/plan": [r"lib/comm/(shape|traffic)\.hpp", r"lib/collective/(description|plan|traits)\.hpp"],
    "lib/plan": [r"lib/comm/(options|shape|topology|traffic)\.hpp",
                 r"lib/collective/(chunks|description|plan)\.hpp",
                 r"lib/model/(description|options|parts|steps|transformer_units)\.hpp",
                 r"kernels/nn/(nn_sizes|cuda_sizes)\.hpp"],
    "lib/config": [r"(lib|kernels)/\w+(/\w+)?/options\.hpp", r"kernels/codec/spec\.hpp",
                   r"kernels/core/enum_names\.hpp",
                   r"lib/collective/traits\.hpp"],
}

# Files that CMake writes into the build folder are included by their bare names.
GENERATED = re.compile(r"\w+\.inc|zeropp_build\.hpp|@\w+@")

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SOURCES = {".hpp", ".cpp", ".cu", ".cuh", ".h", ".in"}


def module_of(path):
    names = [name for name in MODULES if path.startswith((name + "/", name + ".", name + "_"))]
    return max(names, key=len) if names else None


def below(module):
    """The module and everything that its arrows lead to; of a tight one, what they point to."""
    if module in TIGHT:
        return {module, *ARROWS[module]}
    reached, open_ends = {module}, [module]
    while open_ends:
        for target in ARROWS[open_ends.pop()]:
            if target not in reached:
                reached.add(target)
                open_ends.append(target)
    return reached


def violations(root):
    found = []
    for file in sorted(file for top in ("kernels", "lib", "apps") for file in (root / top).rglob("*")):
        if file.suffix not in SOURCES or not file.is_file():
            continue
        path = file.relative_to(root).as_posix()
        module = module_of(path)
        if module is None:
            found.append(f"{path}: belongs to no module of the table")
            continue
        allowed = below(module)
        for header in INCLUDE.findall(file.read_text()):
            if GENERATED.fullmatch(header):
                continue
            target = module_of(header)
            if target is None:
                found.append(f'{path}: "{header}": own headers are included by their path from the root')
            elif target not in allowed and not any(re.fullmatch(rule, header) for rule in HEADERS.get(module, [])):
                found.append(f"{path}: {module} may not include {header}")
    return found


def prove_itself():
    """Planted violations are found, each, and allowed includes are not."""
    planted = {
        "kernels/core/a.hpp": ("lib/base/error.hpp", False),
        "kernels/codec/a.cpp": ("kernels/optim/adamw.hpp", False),
        "kernels/codec/b.cpp": ("lib/base/nearest.hpp", True),
        "lib/base/a.hpp": ("lib/zero/engine/engine.hpp", False),
        "lib/trace/recorder.hpp": ("lib/trace/hdf5_sink.hpp", False),
        "lib/model/a.cpp": ("lib/zero/engine/engine.hpp", False),
        "lib/config/a.hpp": ("lib/zero/plan/schedule.hpp", False),
        "lib/comm/a.hpp": ("lib/collective/collective.hpp", False),
        "lib/comm/b.hpp": ("communicator.hpp", False),
        "lib/c/a.cpp": ("lib/config/resolve.hpp", False),
        "lib/c/b.cpp": ("lib/comm/world.hpp", True),
        "lib/zero/a.hpp": ("vector.inc", False),
        "lib/zero/engine/a.hpp": ("apps/frame.hpp", False),
        "lib/zero/engine/b.cpp": ("lib/zero/optimizer/offloaded_optimizer.hpp", True),
        "lib/zero/engine/c.cpp": ("lib/collective/collective.hpp", False),
        "lib/zero/plan/a.cpp": ("lib/zero/engine/executor.hpp", False),
        "lib/zero/plan/b.hpp": ("lib/comm/world.hpp", False),
        "lib/zero/plan/c.hpp": ("lib/comm/traffic.hpp", True),
        "lib/zero/optimizer/a.cpp": ("lib/zero/communication/weight_collectives.hpp", False),
        "lib/zero/quantization/a.cpp": ("lib/zero/communication/gradient_reduce.hpp", True),
        "lib/plan/c.cpp": ("lib/zero/engine/engine.hpp", False),
        "lib/model/b.cpp": ("lib/zero/plan/unit_model.hpp", True),
        "lib/config/b.hpp": ("lib/zero/plan/options.hpp", True),
        "lib/comm/c.hpp": ("lib/device/compute_device.hpp", False),
        "lib/device/a.hpp": ("kernels/nn/nn_ops.hpp", False),
        "lib/data/a.cpp": ("kernels/core/view.hpp", False),
        "lib/data/b.cpp": ("kernels/core/counter_rng.hpp", True),
        "lib/zero/plan/d.cpp": ("algorithms.inc", True),
        "lib/collective/a.cpp": ("lib/base/error.hpp", True),
        "lib/trace/sink.cpp": ("lib/trace/recorder.hpp", True),
        "apps/a.cpp": ("lib/zero/engine/engine.hpp", True),
        "lib/app/a.cpp": ("lib/train/session.hpp", False),
        "lib/train/a.cpp": ("lib/zero/engine/engine.hpp", True),
        "lib/plan/a.cpp": ("apps/frame.hpp", False),
        "lib/plan/b.cpp": ("lib/zero/communication/weight_collectives.hpp", False),
        "lib/plan/d.cpp": ("lib/comm/shape.hpp", True),
        "lib/plan/e.cpp": ("lib/comm/world.hpp", False),
        "lib/zero/plan/e.cpp": ("lib/collective/description.hpp", True),
    }
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for path, (header, _) in planted.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(f'#include <vector>\n#include "{header}"\n')
        found = {line.split(":")[0] for line in violations(root)}
    assert found == {path for path, (_, allowed) in planted.items() if not allowed}, found


prove_itself()
errors = violations(SOURCE)
for error in errors:
    print(error)
sys.exit(1 if errors else 0)
