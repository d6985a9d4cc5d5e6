# ctest: name=published_figures timeout=30 labels=oracle,nightly
"""validation/published/zeropp.json: every figure has a source, and throughput and MFU of the measured peers follow from
their step times. Their MFU counts every parameter, the embeddings' too: 6 P + 12 L T C FLOP a token."""

import json
import os
from pathlib import Path

from zpp_validate.forms import model_flops
from zpp_validate.forms.transformer import Shape

VALIDATION = Path(os.environ["ZEROPP_SOURCE"]) / "validation"
VOCAB = 50257
figures = json.loads((VALIDATION / "published" / "zeropp.json").read_text())
readme = (VALIDATION / "published" / "README.md").read_text()

for section, content in figures.items():
    if section != "about":
        assert f"`{section}`" in readme, f"README.md says nothing of {section}"
for section in ("throughput_tflops_per_gpu", "tutorial_log", "nexus_savings_table", "measured_peers_8xH200"):
    assert figures[section]["source"], section
for entry in figures["headlines"] + list(figures["convergence"].values()):
    assert entry["source"], entry

rows = figures["measured_peers_8xH200"]["fsdp2"]
checked = 0
for row in rows:
    parameters = 12 * row["layers"] * row["hidden"] ** 2 + 2 * VOCAB * row["hidden"]
    assert abs(parameters / row["params_b"] / 1e9 - 1) < 0.01, (parameters, row)
    if "mfu" in row:
        rate = row["seq"] * row["micro_batch"] / (row["step_ms"] * 1e-3)
        embedded = 6 * VOCAB * row["hidden"]  # looked up, not multiplied
        gpt = Shape.of({"name": "gpt", "num_layers": row["layers"], "hidden_size": row["hidden"], "vocab_size": VOCAB,
                        "num_attention_heads": 1, "seq_length": row["seq"]})
        flops = embedded + model_flops.flops_per_token(gpt)
        mfu = model_flops.utilization(rate, flops)
        assert abs(rate / row["tokens_per_s_per_gpu"] - 1) < 0.01, (rate, row)
        assert abs(mfu / row["mfu"] - 1) < 0.01, (mfu, row)
        checked += 1
assert checked >= 5, checked
print(f"{checked} of {len(rows)} measured rows follow from their step times")
