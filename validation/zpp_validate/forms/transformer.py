"""The transformers of zeropp as data: sizes, parts and tensors that follow from zeropp.model of a configuration. Shares
nothing with the library. Sources: GPT-2; Llama 2 (arXiv 2307.09288); Qwen2 (arXiv 2407.10671), whose queries, keys and
values have biases.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

from zpp_validate.problem import require


class Parts(NamedTuple):
    """The parts in which models differ."""

    centred: bool  # norms subtract the mean and add a bias (LayerNorm), instead of dividing alone (RMSNorm)
    biased: bool  # products add a bias, but for the head
    learned: bool  # a table of positions is added to the tokens, instead of a rotation of queries and keys
    gated: bool  # the MLP is silu(gate) up, instead of the tanh-GELU


PARTS = {"gpt": Parts(True, True, True, False), "llama": Parts(False, False, False, True)}


class Tensor(NamedTuple):
    unit: str
    name: str
    shape: tuple
    initial: str  # "spread" and "residual" are drawn, "one" and "zero" are constants

    @property
    def elements(self):
        return math.prod(self.shape)

    @property
    def decays(self):
        return len(self.shape) > 1


@dataclass(frozen=True)
class Shape:
    """A model with all its sizes."""

    name: str
    layers: int
    hidden: int
    heads: int  # of queries
    key_value_heads: int  # each of them is read by heads / key_value_heads heads, one after the other
    head_dim: int
    ffn: int
    seq_length: int
    vocabulary: int
    tied_head: bool
    qkv_bias: bool
    rope_theta: float
    norm_eps: float

    @classmethod
    def of(cls, model, vocabulary=0):
        """`model`: zeropp.model of a configuration, or an object with its names; traces of earlier versions lack some.
        `vocabulary`: where it leaves this to the data. Throws KeyError, and ValueError for what fits no model."""
        name, hidden, heads = model["name"], model["hidden_size"], model["num_attention_heads"]
        require(name in PARTS, f"'{name}' is none of the transformers {', '.join(PARTS)}")
        parts = PARTS[name]
        key_value_heads = model.get("num_key_value_heads") or heads
        require(heads % key_value_heads == 0, f"{key_value_heads} key-value heads do not divide {heads} heads")
        require(model.get("head_dim") or hidden % heads == 0,
                f"{heads} heads do not divide the hidden size {hidden}, and no head_dim is given")
        head_dim = model.get("head_dim") or hidden // heads
        require(parts.learned or head_dim % 2 == 0, f"heads of the odd width {head_dim} cannot be rotated")
        usual = -(-8 * hidden // (3 * 256)) * 256 if parts.gated else 4 * hidden
        return cls(name, model["num_layers"], hidden, heads, key_value_heads, head_dim,
                   model.get("ffn_hidden_size") or usual, model["seq_length"], model.get("vocab_size") or vocabulary,
                   model.get("tied_head", True), parts.biased or model.get("add_qkv_bias", False),
                   model.get("rope_theta", 1e4), model.get("norm_eps", 1e-5))

    @property
    def parts(self):
        return PARTS[self.name]

    @property
    def queries(self):
        """Rows of the queries of all heads."""
        return self.heads * self.head_dim

    @property
    def key_values(self):
        """Rows of all keys, and as many of all values."""
        return self.key_value_heads * self.head_dim

    @property
    def qkv(self):
        return self.queries + 2 * self.key_values

    @property
    def wide(self):
        """The first matrix of the MLP: its name in a block, and its rows."""
        return ("mlp.gate_up", 2 * self.ffn) if self.parts.gated else ("mlp.fc", self.ffn)

    def tensors(self):
        """All of them, in the order of units and of the numbers by which initial values are drawn."""
        return [*self.embedding(), *(tensor for block in range(self.layers) for tensor in self.block(f"h.{block}")),
                *self.head()]

    def embedding(self):
        sizes = {"wte": self.vocabulary} | ({"wpe": self.seq_length} if self.parts.learned else {})
        return [Tensor("embedding", f"{name}.weight", (rows, self.hidden), "spread") for name, rows in sizes.items()]

    def block(self, unit):
        biased = self.parts.biased
        return [*self.norm(unit, f"{unit}.ln_1"),
                *product(unit, f"{unit}.attn.qkv", self.qkv, self.hidden, "spread", self.qkv_bias),
                *product(unit, f"{unit}.attn.proj", self.hidden, self.queries, "residual", biased),
                *self.norm(unit, f"{unit}.ln_2"),
                *product(unit, f"{unit}.{self.wide[0]}", self.wide[1], self.hidden, "spread", biased),
                *product(unit, f"{unit}.mlp.proj", self.hidden, self.ffn, "residual", biased)]

    def head(self):
        untied = [] if self.tied_head else product("head", "lm_head", self.vocabulary, self.hidden, "spread", False)
        return [*self.norm("head", "ln_f"), *untied]

    def norm(self, unit, name):
        bias = [Tensor(unit, f"{name}.bias", (self.hidden,), "zero")] if self.parts.centred else []
        return [Tensor(unit, f"{name}.weight", (self.hidden,), "one"), *bias]


def product(unit, name, rows, columns, initial, biased):
    """Tensors of a product: a matrix [out, in], and its bias."""
    bias = [Tensor(unit, f"{name}.bias", (rows,), "zero")] if biased else []
    return [Tensor(unit, f"{name}.weight", (rows, columns), initial), *bias]
