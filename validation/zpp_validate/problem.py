"""Errors that end a command with one line on standard error and an exit code (docs/reference/exit-codes.md): cli.py
catches them for all commands."""

import contextlib
import json
import os
import re
import sys

CHECK_FAILED, USAGE, ENVIRONMENT, IO = 1, 2, 3, 5
# Exceptions that a reader throws at a file that another program wrote.
MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RuntimeError)
# A message of HDF5, such as "Unable to open object (bad object header version number)".
HDF5 = r"[A-Z][a-z']+ [^()]+ \(.+\)$"
USUAL_PYTHON = "/usr/bin/python3"
OF_DEBIAN = {"h5py", "jinja2", "matplotlib", "numpy", "prometheus_client", "scipy"}  # cmake/setup.sh installs these
COPY_AGAIN = "copy it again, or repeat the run"


class Problem(Exception):
    """One line: which file, what is wrong with it, and the remedy. `code`: USAGE where a file is not what the command
    reads, IO where it cannot be read or written, CHECK_FAILED where it is whole and says that a run failed."""

    def __init__(self, line, code=USAGE):
        super().__init__(" ".join(str(line).splitlines()))
        self.code = code


class Unfit(ValueError):
    """Why a file is of another kind, in words for the user."""


def require(condition, reason):
    if not condition:
        raise Unfit(reason)


def program(command):
    """Beginning of the messages of `command`: the name of the program that runs it, where that sets one."""
    return os.environ.get("ZEROPP_PROGRAM", "").partition(" ")[0] or f"zpp-validate {command}"


def of_os(error, path=None, done="read or written"):
    """The Problem of an OSError. `path`: where the error does not name the file."""
    reason = os.strerror(error.errno) if error.errno else error
    return Problem(f"{error.filename or path or 'a file'} cannot be {done}: {reason}: check the path", IO)


def lacks(missing, path=None):
    """The Problem of an ImportError: this Python has not all modules of a command. `path`: of the program."""
    module = (missing.name or "the module").partition(".")[0]
    what = (f"{sys.executable} has no module {module}" if isinstance(missing, ModuleNotFoundError) else
            f"{module} cannot be imported ({missing}) by {sys.executable}")
    debian = f" (Debian: python3-{module.replace('_', '-')})" if module in OF_DEBIAN else ""
    another = ("name another Python that has it in ZEROPP_PYTHON" if "ZEROPP_PROGRAM" in os.environ else
               "call the program with another Python that has it")
    usual = "" if path is None or sys.executable == USUAL_PYTHON else f", for example {USUAL_PYTHON} {path}"
    return Problem(f"{what}: install {module} there{debian}, or {another}{usual}", ENVIRONMENT)


def missing_in(text):
    """The name in what HDF5 says of one that is missing, or None."""
    found = re.search(r"\((?:object '(.+)' doesn't exist|can't locate attribute: '(.+)')\)$", text)
    return found and (found[1] or found[2])


def is_damage(error):
    """Whether HDF5 cannot read what is there, though the system can."""
    if not isinstance(error, (KeyError, OSError, RuntimeError)) or getattr(error, "errno", None) or not error.args:
        return False
    text = str(error.args[0])
    return bool(re.match(HDF5, text)) and not missing_in(text)


def unreadable(error, path):
    """The Problem of a file that the system or HDF5 cannot read; None where the error is another."""
    if is_damage(error):
        return Problem(f"{path} is damaged: {COPY_AGAIN}", IO)
    return of_os(error, path, "read") if isinstance(error, OSError) else None


def reason_of(error):
    """Text about a file of an error of MALFORMED, of the system or of HDF5, without the words of Python itself."""
    if is_damage(error):
        return "it is damaged"
    if isinstance(error, KeyError):
        name = str(error.args[0])
        return f"it has no {missing_in(name) or name}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON at line {error.lineno}, column {error.colno}" if error.doc.strip() else "it is empty"
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    if isinstance(error, OSError) and error.filename:
        return f"{os.path.basename(error.filename)}: {error.strerror}"
    if isinstance(error, (Unfit, OSError, RuntimeError)):
        return " ".join(str(error).split())
    return "a value in it is missing or of another kind"


@contextlib.contextmanager
def reading(path, kind, remedy):
    """Makes a Problem that names the file of what a reader throws at one of another kind, or that cannot be read."""
    try:
        yield
    except (OSError, *MALFORMED) as error:
        raise unreadable(error, path) or Problem(f"{path} is no {kind}: {reason_of(error)}: {remedy}") from None


@contextlib.contextmanager
def part(name):
    """Turns an error of a reader about the file `name` of a folder into Unfit, which names the file."""
    try:
        yield
    except MALFORMED as error:
        raise Unfit(f"{name}: {reason_of(error)}") from None


def nearest(name, known):
    """The nearest of the known names, as a hint; empty where none is near."""
    import difflib

    return "".join(f" (nearest: {each})" for each in difflib.get_close_matches(name, known, 1))
