"""Communicators, plans, codecs and exact differences of the library as objects. Memory is given as addresses; nothing
here needs PyTorch."""

import ctypes
import functools
import weakref

from zeropp.library import (ALL_GATHER_BYTES, EXACT_WIDTHS, EXCHANGE, Callbacks, CommOptions, Device, ErrorFeedback,
                            ExactShape, PlanOptions, Traffic, Transport, check, load)


def _end(destroy, handle, _needed):
    destroy(handle)


class _Owner:
    """Has a handle of the library, until close(), or until it is collected as garbage."""

    def _own(self, destroy, collected, needed=None):
        """`needed` outlives the handle. Where `collected` is false, close() alone ends it."""
        self._handle = ctypes.c_void_p()
        call = (_end, destroy, self._handle, needed)
        self._destroy = weakref.finalize(self, *call) if collected else functools.partial(*call)
        self._destroy.atexit = False  # the end of the process frees everything

    def close(self):
        if self._handle:
            self._destroy()
            self._handle = ctypes.c_void_p()


class Communicator(_Owner):
    """One rank of a job. `bootstrap` has all_gather_bytes(part: bytes) -> list of bytes and, for Transport.CALLBACKS,
    exchange(sends, receives, stream), whose messages are (address, bytes, peer). The library's call that needed them
    raises their exceptions. Close all plans before the communicator."""

    def __init__(self, rank, size, node_size, bootstrap, device=Device.HOST, transport=Transport.CALLBACKS,
                 rail_lanes=0, copy_engines=-1):
        self.rank, self.size, self.node_size, self.device = rank, size, node_size, device
        self._raised = None

        def all_gather_bytes(_, part, parts, count):
            def call():
                gathered = bootstrap.all_gather_bytes(ctypes.string_at(part, count))
                ctypes.memmove(parts, b"".join(gathered), count * size)
            return self._guard(call)

        def exchange(_, sends, send_count, receives, receive_count, stream):
            messages = [[(each.data, each.bytes, each.peer) for each in list_[:count]]
                        for list_, count in ((sends, send_count), (receives, receive_count))]
            return self._guard(lambda: bootstrap.exchange(*messages, stream))

        self._callbacks = Callbacks(None, ALL_GATHER_BYTES(all_gather_bytes),
                                    EXCHANGE(exchange) if transport == Transport.CALLBACKS else EXCHANGE())
        options = CommOptions(ctypes.sizeof(CommOptions), rank, size, node_size, device, transport, rail_lanes,
                              copy_engines)
        # The end of NCCL's communicators waits for the other ranks, which do not collect garbage at the same time.
        self.collected = transport == Transport.CALLBACKS
        self._own(load().zpp_comm_destroy, self.collected)
        self.check(load().zpp_comm_create(options, self._callbacks, self._handle))

    def _guard(self, call):
        """Python's exceptions cannot pass through the library: they are kept, and raised after it."""
        try:
            call()
        except BaseException as error:  # pylint: disable=broad-exception-caught
            self._raised = error
            return 1
        return 0

    def check(self, status):
        raised, self._raised = self._raised, None
        if raised is not None:
            raise raised
        check(status)

    def plan_all_gather(self, count, dtype, codec, algorithm="auto", output=None, seed=0):
        return Plan(self, "all_gather", count=count, input=dtype, output=dtype if output is None else output,
                    codec=codec, algorithm=algorithm, seed=seed)

    def plan_reduce_scatter(self, count, dtype, codec, codec_between_nodes=None, algorithm="auto", output=None,
                            scale=1.0, seed=0, error_feedback=None):
        return Plan(self, "reduce_scatter", count=count, input=dtype, output=dtype if output is None else output,
                    codec=codec, codec_between_nodes=codec_between_nodes, algorithm=algorithm, scale=scale, seed=seed,
                    error_feedback=error_feedback)

    def plan_all_reduce(self, count, dtype, codec, codec_between_nodes=None, algorithm="auto", scale=1.0, seed=0,
                        error_feedback=None):
        return Plan(self, "all_reduce", count=count, input=dtype, output=dtype, codec=codec,
                    codec_between_nodes=codec_between_nodes, algorithm=algorithm, scale=scale, seed=seed,
                    error_feedback=error_feedback)

    def all_gather_bytes(self, parts, count, stream=None):
        """`count` bytes of each rank, whose own lie at their place in `parts`, an address. Returns the bytes that this
        rank sent inside nodes, and between them."""
        sent = ctypes.c_uint64(), ctypes.c_uint64()
        self.check(load().zpp_all_gather_bytes(self._handle, parts, count, stream, *sent))
        return tuple(each.value for each in sent)


class Plan(_Owner):
    """One collective of a fixed size and codec; Communicator.plan_*() make it. Its workspace is its own, so that runs
    of one plan must follow each other on the device. Codecs are names; `error_feedback` is (beta, reset period, whether
    errors are kept in int8) or None."""

    def __init__(self, communicator, kind, count, input, output, codec, codec_between_nodes=None, algorithm="auto",
                 scale=1.0, seed=0, error_feedback=None):
        self.communicator, self.kind, self.count, self.codec = communicator, kind, count, codec
        feedback = ErrorFeedback(*error_feedback) if error_feedback else None
        options = PlanOptions(ctypes.sizeof(PlanOptions), count, input, output, codec.encode(),
                              codec_between_nodes.encode() if codec_between_nodes else None, algorithm.encode(), scale,
                              seed, ctypes.pointer(feedback) if feedback else None)
        self._own(load().zpp_plan_destroy, communicator.collected, needed=communicator)
        self._run = load().zpp_run
        communicator.check(getattr(load(), f"zpp_plan_{kind}")(communicator._handle, options, self._handle))

    def run(self, source, target, stream=None):
        """`source` and `target` are addresses; what they hold, zpp_run() in lib/c/zeropp.h says."""
        status = self._run(self._handle, source, target, stream)
        if status != 0:
            self.communicator.check(status)

    def traffic(self):
        """The bytes that this rank sent so far, and their closed form."""
        traffic = Traffic()
        check(load().zpp_plan_traffic(self._handle, traffic))
        return traffic

    def forget_errors(self, stream=None):
        """Drops the errors that error feedback keeps for the next run."""
        check(load().zpp_plan_forget_errors(self._handle, stream))


def image_bytes(codec, dtype, count):
    """Bytes of the image of `count` elements."""
    size = ctypes.c_size_t()
    check(load().zpp_image_bytes(codec.encode(), dtype, count, size))
    return size.value


def encode(codec, dtype, device, values, count, image, stream=None):
    """`values` and `image` are addresses; an image begins at a multiple of 16."""
    check(load().zpp_encode(codec.encode(), dtype, device, values, count, image, stream))


def decode(codec, dtype, device, image, count, values, stream=None):
    check(load().zpp_decode(codec.encode(), dtype, device, image, count, values, stream))


class ExactDifferences:
    """Exact differences of `count` 16-bit values from a copy (lib/c/zeropp.h has the steps). `escapes`, EXACT_WIDTHS
    numbers of 8 bytes, are the maxima over all ranks whose images are sent together."""

    def __init__(self, dtype, device, count):
        self.dtype, self.device, self.size = dtype, device, count
        size = ctypes.c_size_t()
        check(load().zpp_exact_count_bytes(count, size))
        self.count_bytes = size.value

    def count(self, values, copy, counts, escapes, stream=None):
        check(load().zpp_exact_count(self.dtype, self.device, values, copy, self.size, counts, escapes, stream))

    def shape(self, escapes):
        shape = ExactShape()
        check(load().zpp_exact_shape_of(self.size, (ctypes.c_uint64 * EXACT_WIDTHS)(*escapes), shape))
        return shape

    def encode(self, values, copy, counts, shape, image, stream=None):
        check(load().zpp_exact_encode(self.dtype, self.device, values, copy, self.size, counts, shape, image, stream))

    def decode(self, images, number, shape, copies, stream=None):
        check(load().zpp_exact_decode(self.dtype, self.device, images, number, self.size, shape, copies, stream))
