"""Which codecs train as well as none: the judgement of zpp_converge's matrices."""
