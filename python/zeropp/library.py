"""The C library of zeropp (lib/c/zeropp.h) through ctypes: loading it, its structures, and its errors as exceptions.

The library lies beside this file. ZEROPP_LIBRARY names another one, of a build folder for example.
"""

import ctypes
import enum
import functools
import os
import pathlib

ABI_VERSION = 1


class ZeroppError(RuntimeError):
    """A call of the library failed. The message is one line with the fault, its place and the remedy."""


class UsageError(ZeroppError, ValueError):
    """An argument that cannot be, such as an unknown codec or a size that does not fit."""


class EnvironmentLacks(ZeroppError):
    """The machine lacks something: a GPU, memory, NCCL, or the library itself."""


ERRORS = {1: ZeroppError, 2: UsageError, 3: EnvironmentLacks}


class Dtype(enum.IntEnum):
    FP32 = 0
    BF16 = 1
    FP16 = 2


class Device(enum.IntEnum):
    HOST = 0
    CUDA = 1


class Transport(enum.IntEnum):
    CALLBACKS = 0
    NCCL = 1


class Message(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("peer", ctypes.c_int)]


ALL_GATHER_BYTES = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
EXCHANGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Message), ctypes.c_size_t,
                            ctypes.POINTER(Message), ctypes.c_size_t, ctypes.c_void_p)


class Callbacks(ctypes.Structure):
    _fields_ = [("context", ctypes.c_void_p), ("all_gather_bytes", ALL_GATHER_BYTES), ("exchange", EXCHANGE)]


class CommOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_int), ("size", ctypes.c_int),
                ("node_size", ctypes.c_int), ("device", ctypes.c_int), ("transport", ctypes.c_int),
                ("rail_lanes", ctypes.c_int), ("copy_engines", ctypes.c_int)]


class ErrorFeedback(ctypes.Structure):
    _fields_ = [("beta", ctypes.c_double), ("reset_period", ctypes.c_size_t), ("store_int8", ctypes.c_int)]


class PlanOptions(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("count", ctypes.c_size_t), ("input", ctypes.c_int),
                ("output", ctypes.c_int), ("codec", ctypes.c_char_p), ("codec_between_nodes", ctypes.c_char_p),
                ("algorithm", ctypes.c_char_p), ("scale", ctypes.c_double), ("seed", ctypes.c_uint64),
                ("error_feedback", ctypes.POINTER(ErrorFeedback))]


class Traffic(ctypes.Structure):
    _fields_ = [("runs", ctypes.c_uint64), ("sent_inside_nodes", ctypes.c_uint64),
                ("sent_between_nodes", ctypes.c_uint64), ("predicted_inside_nodes", ctypes.c_uint64),
                ("predicted_between_nodes", ctypes.c_uint64), ("workspace_bytes", ctypes.c_uint64),
                ("algorithm", ctypes.c_char_p)]


class ExactShape(ctypes.Structure):
    _fields_ = [("width", ctypes.c_int), ("escapes", ctypes.c_uint64), ("bytes", ctypes.c_size_t)]


EXACT_WIDTHS = 8
HANDLE = ctypes.c_void_p
SIGNATURES = {
    "zpp_comm_create": (ctypes.c_int, [ctypes.POINTER(CommOptions), ctypes.POINTER(Callbacks), ctypes.POINTER(HANDLE)]),
    "zpp_comm_destroy": (None, [HANDLE]),
    "zpp_plan_all_gather": (ctypes.c_int, [HANDLE, ctypes.POINTER(PlanOptions), ctypes.POINTER(HANDLE)]),
    "zpp_plan_reduce_scatter": (ctypes.c_int, [HANDLE, ctypes.POINTER(PlanOptions), ctypes.POINTER(HANDLE)]),
    "zpp_plan_all_reduce": (ctypes.c_int, [HANDLE, ctypes.POINTER(PlanOptions), ctypes.POINTER(HANDLE)]),
    "zpp_plan_destroy": (None, [HANDLE]),
    "zpp_run": (ctypes.c_int, [HANDLE, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "zpp_plan_forget_errors": (ctypes.c_int, [HANDLE, ctypes.c_void_p]),
    "zpp_plan_traffic": (ctypes.c_int, [HANDLE, ctypes.POINTER(Traffic)]),
    "zpp_all_gather_bytes": (ctypes.c_int, [HANDLE, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
                                            ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64)]),
    "zpp_image_bytes": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]),
    "zpp_encode": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t,
                                  ctypes.c_void_p, ctypes.c_void_p]),
    "zpp_decode": (ctypes.c_int, [ctypes.c_char_p, ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t,
                                  ctypes.c_void_p, ctypes.c_void_p]),
    "zpp_exact_count_bytes": (ctypes.c_int, [ctypes.c_size_t, ctypes.POINTER(ctypes.c_size_t)]),
    "zpp_exact_count": (ctypes.c_int, [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                       ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]),
    "zpp_exact_shape_of": (ctypes.c_int, [ctypes.c_size_t, ctypes.POINTER(ctypes.c_uint64),
                                          ctypes.POINTER(ExactShape)]),
    "zpp_exact_encode": (ctypes.c_int, [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t,
                                        ctypes.c_void_p, ctypes.POINTER(ExactShape), ctypes.c_void_p, ctypes.c_void_p]),
    "zpp_exact_decode": (ctypes.c_int, [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t,
                                        ctypes.POINTER(ExactShape), ctypes.c_void_p, ctypes.c_void_p]),
    "zpp_names": (ctypes.c_char_p, [ctypes.c_char_p]),
    "zpp_abi_version": (ctypes.c_int, []),
    "zpp_version": (ctypes.c_char_p, []),
    "zpp_last_error": (ctypes.c_char_p, []),
}


def path():
    return pathlib.Path(os.environ.get("ZEROPP_LIBRARY") or pathlib.Path(__file__).with_name("libzeropp_c.so"))


@functools.cache
def load():
    """The library, its functions declared. Raises EnvironmentLacks where it cannot be had."""
    try:
        loaded = ctypes.CDLL(str(path()))
    except OSError as error:
        remedy = ("install PyTorch for CUDA, or nvidia-nccl-cu13" if "libnccl" in str(error) else
                  "install the package again, or set ZEROPP_LIBRARY to the libzeropp_c.so of a build")
        raise EnvironmentLacks(f"cannot load the library of zeropp: {error}: {remedy}") from None
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    if loaded.zpp_abi_version() != ABI_VERSION:
        raise EnvironmentLacks(f"{path()} has interface {loaded.zpp_abi_version()}, this package needs {ABI_VERSION}: "
                               "install the package again")
    return loaded


def check(status):
    """Raises what a failed call says."""
    if status != 0:
        raise ERRORS.get(status, ZeroppError)(load().zpp_last_error().decode())


def names(kind):
    """The names that the library knows: of "codecs", "all_gather", "reduce_scatter" or "devices"."""
    found = load().zpp_names(kind.encode())
    if found is None:
        raise UsageError(f"no list of '{kind}': codecs, all_gather, reduce_scatter or devices")
    return found.decode().split()


def version():
    return load().zpp_version().decode()
