"""The parser of a command: its --help begins with an example and says in one line what the command does."""

import argparse

from zpp_validate.commands import COMMANDS

IO = 5  # docs/reference/exit-codes.md


class Parser(argparse.ArgumentParser):
    example = None

    def format_help(self):
        return (f"example: {self.example}\n\n" if self.example else "") + super().format_help()


def positive(text):
    """Type of an option whose value is a whole number from 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def require_readable(asked, paths):
    """Ends the command of the parser `asked` with code 5, in one line, where one of its files cannot be opened: that is
    no verdict about a trace."""
    for path in paths:
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            asked.exit(IO, f"{asked.prog}: error: {path} cannot be read: {error.strerror}: check the path\n")


def details(description):
    """What a module says of itself, without its title and its usage, which the parser knows."""
    return "\n\n".join(part for part in description.strip().split("\n\n")[1:] if not part.startswith("usage:"))


def parser(name, description="", **options):
    """Of the command `name`; `description` is its module's."""
    command, program = COMMANDS[name], f"zpp-validate {name}"
    options = {"prog": program, "description": command.summary, "epilog": details(description),
               "formatter_class": argparse.RawDescriptionHelpFormatter} | options
    made = Parser(**options)
    made.example = f"{program} {command.example}"
    made.add_argument("--help-all", action="help", help=argparse.SUPPRESS)  # as programs have it: here --help is all
    return made
