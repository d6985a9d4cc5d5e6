"""What ends a command with one line on standard error, and its exit code (docs/reference/exit-codes.md): cli.py catches
it for all commands."""

import contextlib
import json
import os
import re

CHECK_FAILED, USAGE, ENVIRONMENT, IO = 1, 2, 3, 5
# What a reader throws at a file that another program wrote.
MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError)


class Problem(Exception):
    """One line: which file, what is wrong with it, and the remedy. `code`: USAGE where a file is not what the command
    reads, IO where it cannot be read or written, CHECK_FAILED where it is whole and says that a run failed."""

    def __init__(self, line, code=USAGE):
        super().__init__(" ".join(str(line).splitlines()))
        self.code = code


class Unfit(ValueError):
    """Why a file is of another kind, in words for the user."""


def program(command):
    """What begins messages of `command`: the name of the program that runs it, where that says so."""
    return os.environ.get("ZEROPP_PROGRAM", "").partition(" ")[0] or f"zpp-validate {command}"


def of_os(error, path=None, done="read or written"):
    """The Problem of an OSError. `path`: where the error does not name the file."""
    return Problem(f"{error.filename or path or 'a file'} cannot be {done}: {error.strerror or error}: check the path",
                   IO)


def reason_of(error):
    """What an error of MALFORMED, of the system or of HDF5 says of a file; words of Python itself are left out."""
    if isinstance(error, KeyError):
        name = str(error.args[0])
        quoted = re.search(r"(?<!\w)'([^']+)'", name)  # h5py: "Unable to open object (object 'steps' doesn't exist)"
        return f"it has no {quoted[1] if quoted else name}"
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON at line {error.lineno}, column {error.colno}" if error.doc.strip() else "it is empty"
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    if isinstance(error, (Unfit, OSError, RuntimeError)):
        return " ".join(str(getattr(error, "strerror", None) or error).split())
    return "a value in it is missing or of another kind"


@contextlib.contextmanager
def reading(path, kind, remedy):
    """Makes a Problem that names the file of what a reader throws at one of another kind, or that cannot be read."""
    try:
        yield
    except MALFORMED as error:
        raise Problem(f"{path} is no {kind}: {reason_of(error)}: {remedy}") from None
    except OSError as error:
        raise of_os(error, path, "read") from None


def nearest(name, known):
    """Of the known names, as a hint; empty where none is near."""
    import difflib

    return "".join(f" (nearest: {each})" for each in difflib.get_close_matches(name, known, 1))
