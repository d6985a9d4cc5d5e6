"""What ends a command with one line on standard error, and its exit code (docs/reference/exit-codes.md): cli.py catches
it for all commands."""

import contextlib

USAGE, ENVIRONMENT, IO = 2, 3, 5
# What a reader throws at a file that another program wrote.
MALFORMED = (KeyError, TypeError, ValueError, IndexError, AttributeError)


class Problem(Exception):
    """One line: which file, what is wrong with it, and the remedy. `code`: USAGE where a file is not what the command
    reads, IO where it cannot be read or written."""

    def __init__(self, line, code=USAGE):
        super().__init__(" ".join(str(line).splitlines()))
        self.code = code


def of_os(error, path=None, done="read or written"):
    """The Problem of an OSError. `path`: where the error does not name the file."""
    return Problem(f"{path or error.filename or 'a file'} cannot be {done}: {error.strerror or error}: check the path",
                   IO)


@contextlib.contextmanager
def reading(path, kind, remedy):
    """Makes a Problem that names the file of what a reader throws at one of another kind."""
    try:
        yield
    except MALFORMED as error:
        said = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        reason = f"it has no {said}" if isinstance(error, KeyError) and " " not in said else said
        raise Problem(f"{path} is no {kind}: {reason}: {remedy}") from None


def nearest(name, known):
    """Of the known names, as a hint; empty where none is near."""
    import difflib

    return "".join(f" (nearest: {each})" for each in difflib.get_close_matches(name, known, 1))
