"""Host memory for the inputs of a transformer's blocks from forward to backward, with zeropp.model.cpu_checkpointing.
By the rules of lib/trace/README.md; shares nothing with the library."""

from zpp_validate.forms.wire import ceil_to

ON_DEVICE = 2  # of the blocks that recompute, the last so many keep their inputs on the device
ALIGNMENT = 256  # bytes


def memory(config, backend, element_bytes):
    """Rows of /memory; none where no inputs lie on the host. `element_bytes`: of the compute dtype."""
    model = config["zeropp"]["model"]
    if not model.get("cpu_checkpointing"):  # not where nothing recomputes
        return {}
    recomputing = -(-model["num_layers"] // model["recompute_interval"])
    values = config["train_micro_batch_size_per_gpu"] * model["seq_length"] * model["hidden_size"]
    each = ceil_to(values * (element_bytes if backend == "cuda" else 4), ALIGNMENT)
    return {"offloaded_activations": (recomputing - ON_DEVICE) * each}
