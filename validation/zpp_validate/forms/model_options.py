"""The flags of a transformer, with the names that they have in zpp_train, and the shape that they give."""

import argparse

from zpp_validate import command_line
from zpp_validate.forms.transformer import PARTS, Shape


def add(parser, **defaults):
    """Adds them to a parser or a group. `defaults`: by name of the option, where they are not zpp_train's."""
    for flag, default, text in (
            ("num-layers", 2, "blocks"), ("hidden-size", 64, "width of the residual stream"),
            ("num-attention-heads", 4, "heads of the queries"), ("seq-length", 64, "tokens a sequence"),
            ("vocab-size", 256, "tokens that the model knows")):
        default = defaults.get(flag.replace("-", "_"), default)
        parser.add_argument(f"--{flag}", type=command_line.positive, default=default, help=f"{text} [{default}]")
    parser.add_argument("--model", choices=tuple(PARTS), default="gpt", help="[gpt]")
    for flag, text in (("num-key-value-heads", "heads of keys and values [as many as of queries]"),
                       ("head-dim", "width of a head [hidden size / heads]"),
                       ("ffn-hidden-size", "width of the MLP [gpt: 4 C; llama: 8 C / 3, up to a multiple of 256]")):
        parser.add_argument(f"--{flag}", type=command_line.natural, default=0, help=text)
    parser.add_argument("--add-qkv-bias", action="store_true", help="of llama: queries, keys and values have biases")
    parser.add_argument("--rope-theta", type=command_line.positive_number, default=1e4, help="of llama [10000]")
    parser.add_argument("--norm-eps", type=command_line.positive_number, default=1e-5, help="of norms [1e-5]")
    parser.add_argument("--tied-head", action=argparse.BooleanOptionalAction, default=False,
                        help="the head reads the token embedding again")


def shape(options):
    """The Shape of parsed flags, or of their names and values; in files of earlier versions all were of the model gpt.
    Throws ValueError for sizes that fit no model."""
    return Shape.of({**options, "name": options.get("model", "gpt")})
