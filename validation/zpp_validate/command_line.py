"""The parser of a command: its --help begins with an example and says in one line what the command does; what it
refuses is one line; and what the command reads is there."""

import argparse
import contextlib
import math
import os
import re
import stat
from pathlib import Path

from zpp_validate import problem
from zpp_validate.commands import COMMANDS


OUTPUTS = {"json", "output"}  # options that name what a command writes


class InputFile(type(Path())):
    """Type of an argument that names a file which the command reads. The parser raises Problem where an input cannot be
    opened."""

    def open_once(self):
        if stat.S_ISDIR(mode := self.stat().st_mode):
            traces = sorted(path.name for path in self.glob("*.h5"))
            remedy = f"name {traces[0]} in it" if traces else "check the path"
            raise problem.Problem(f"{self} cannot be read: Is a directory: {remedy}", problem.IO)
        if not stat.S_ISREG(mode):  # a pipe may wait without end
            raise problem.Problem(f"{self} cannot be read: it is no regular file: check the path", problem.IO)
        with open(self, "rb"):
            pass


class InputFolder(type(Path())):
    """Type of an argument that names a folder which the command reads."""

    def open_once(self):
        os.scandir(self).close()


class Input(type(Path())):
    """Type of an argument that names a file or a folder which the command reads."""

    def open_once(self):
        (InputFolder if self.is_dir() else InputFile).open_once(self)


def open_input(path):
    """Raises Problem where an input cannot be opened."""
    try:
        path.open_once()
    except OSError as error:
        raise problem.of_os(error, path, "read") from None


class Parser(argparse.ArgumentParser):
    example = None
    words = ()

    def format_help(self):
        return (f"example: {self.example}\n\n" if self.example else "") + super().format_help()

    def _get_value(self, action, arg_string):
        if not arg_string and isinstance(action.type, type) and issubclass(action.type, Path):
            raise argparse.ArgumentError(action, "the name is empty")
        return super()._get_value(action, arg_string)

    def parse_args(self, args=None, namespace=None):
        self.words = args
        return self.opened(super().parse_args(args, namespace))

    def parse_intermixed_args(self, args=None, namespace=None):
        self.words = args
        return self.opened(super().parse_intermixed_args(args, namespace))

    def opened(self, arguments):
        """Raises Problem where an input cannot be opened, which is no verdict about it, or would be overwritten."""
        inputs, outputs = [], []
        for name, value in vars(arguments).items():
            paths = [path for path in (value if isinstance(value, list) else [value]) if isinstance(path, Path)]
            (outputs if name in OUTPUTS else inputs).extend(paths)
        for path in inputs:
            if isinstance(path, (Input, InputFile, InputFolder)):
                open_input(path)
            if any(path.is_file() and output.is_file() and path.samefile(output) for output in outputs):
                raise problem.Problem(f"{path} is read and would be overwritten: write to another file")
        return arguments

    def options(self):
        """Options of the command and of its own commands."""
        commands = [command for action in self._actions if isinstance(action.choices, dict)
                    for command in action.choices.values() if isinstance(command, Parser)]
        return [*self._option_string_actions, *(option for command in commands for option in command.options())]

    def unknown_option(self):
        """The first word that looks like an option and is none, with the nearest option; empty: all are known."""
        known = self.options()
        for word in self.words:
            name = word.partition("=")[0]
            if name.startswith("--") and not any(option.startswith(name) for option in known):
                return f"there is no option {name}{problem.nearest(name, known)}"
        return ""

    def error(self, message):
        """Ends the command with code USAGE and one line, where argparse has several. An unknown option is told before
        what is missing without it."""
        if re.match(r"unrecognized|(the following|one of the) arguments", message):
            message = self.unknown_option() or message
        if choice := re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message):
            message += problem.nearest(choice[1], re.findall(r"[^ ,']+", choice[2]))
        self.exit(problem.USAGE, f"{self.prog}: error: {message}: try --help\n")


def whole(least):
    """The type of an option whose value is a whole number from `least`."""
    def parsed(text):
        with contextlib.suppress(ValueError):
            if int(text) >= least:
                return int(text)
        raise argparse.ArgumentTypeError(f"{text} is no whole number from {least}")
    return parsed


def real(low, high=math.inf):
    """The type of an option whose value is a number between both, which are excluded."""
    def parsed(text):
        with contextlib.suppress(ValueError):
            if low < float(text) < high:
                return float(text)
        raise argparse.ArgumentTypeError(f"{text} is not " + (f"between {low:g} and {high:g}" if high < math.inf else
                                                             f"a number above {low:g}"))
    return parsed


positive, natural, positive_number = whole(1), whole(0), real(0)
share = real(0, 1)  # with more, a limit could not be exceeded


def details(description):
    """The docstring of a module, without its title and its usage, which the parser has."""
    return "\n\n".join(part for part in description.strip().split("\n\n")[1:] if not part.startswith("usage:"))


def parser(name, description="", **options):
    """Parser of the command `name`; `description` is the docstring of its module."""
    command = COMMANDS[name]
    options = {"prog": problem.program(name), "description": command.summary, "epilog": details(description),
               "formatter_class": argparse.RawDescriptionHelpFormatter} | options
    made = Parser(**options)
    made.example = f"zpp-validate {name} {command.example}"
    made.add_argument("--help-all", action="help", help=argparse.SUPPRESS)  # as programs have it: here --help is all
    return made
