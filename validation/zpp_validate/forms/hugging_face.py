"""Names of tensors and config.json of a model (a transformer.Shape) as the package transformers has them: GPT-2 whose
matrices are kept as [in, out], Llama, and Qwen2, which is Llama with biases of queries, keys and values."""

from zpp_validate.problem import require

ARCHITECTURES = {"gpt2": "GPT2LMHeadModel", "llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM"}
GPT2 = {"attn.qkv": "attn.c_attn", "attn.proj": "attn.c_proj", "mlp.fc": "mlp.c_fc", "mlp.proj": "mlp.c_proj"}
LLAMA = {"wte": ("embed_tokens",), "ln_1": ("input_layernorm",),
         "attn.qkv": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"), "attn.proj": ("self_attn.o_proj",),
         "ln_2": ("post_attention_layernorm",), "mlp.gate_up": ("mlp.gate_proj", "mlp.up_proj"),
         "mlp.proj": ("mlp.down_proj",), "ln_f": ("norm",)}


def model_type(shape):
    """Throws ValueError for a model that the package has not."""
    if not shape.parts.learned:
        require(shape.qkv_bias or shape.hidden % shape.heads == 0,
                f"a Llama of transformers has no {shape.heads} heads in a hidden size of {shape.hidden}")
        return "qwen2" if shape.qkv_bias else "llama"
    require(shape.key_value_heads == shape.heads and shape.queries == shape.hidden,
            f"a GPT-2 has no {shape.key_value_heads} key-value heads of width {shape.head_dim}")
    return "gpt2"


def tensors(shape, name, values):
    """{their name: values} of a tensor of ours, an array."""
    if name == "lm_head.weight":
        return {name: values}
    part, _, kind = name.rpartition(".")
    block, own = part.split(".", 2)[1:] if part.startswith("h.") else (None, part)
    if model_type(shape) == "gpt2":
        prefix = "" if block is None else f"h.{block}."
        transposed = own in GPT2 and kind == "weight"
        return {f"transformer.{prefix}{GPT2.get(own, own)}.{kind}": values.T if transposed else values}
    prefix = "" if block is None else f"layers.{block}."
    rows = {"attn.qkv": (shape.queries, shape.key_values, shape.key_values), "mlp.gate_up": (shape.ffn, shape.ffn)}
    result, first = {}, 0
    for theirs, count in zip(LLAMA[own], rows.get(own, (len(values),))):
        result[f"model.{prefix}{theirs}.{kind}"] = values[first:first + count]
        first += count
    return result


def config(shape):
    """Members of config.json that describe the model."""
    kind = model_type(shape)
    common = {"model_type": kind, "architectures": [ARCHITECTURES[kind]], "vocab_size": shape.vocabulary,
              "tie_word_embeddings": shape.tied_head}
    if kind == "gpt2":
        usual = {} if shape.ffn == 4 * shape.hidden else {"n_inner": shape.ffn}
        return common | usual | {
            "n_layer": shape.layers, "n_embd": shape.hidden, "n_head": shape.heads, "n_positions": shape.seq_length,
            "activation_function": "gelu_new", "layer_norm_epsilon": shape.norm_eps}
    return common | {
        "num_hidden_layers": shape.layers, "hidden_size": shape.hidden, "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads, "head_dim": shape.head_dim, "intermediate_size": shape.ffn,
        "max_position_embeddings": shape.seq_length, "hidden_act": "silu", "rms_norm_eps": shape.norm_eps,
        "rope_theta": shape.rope_theta}
