"""The command zpp-validate: finds the module of a command, imports that alone, and calls its main(words)."""

import ast
import importlib
import io
import pathlib
import sys

from zpp_validate import problem
from zpp_validate.commands import COMMANDS, GROUPS

PROGRAM = "zpp-validate"


def overview():
    lines = [f"example: {PROGRAM} check {COMMANDS['check'].example}", "",
             f"{PROGRAM}: Judges, compares and draws what the programs write.",
             f"usage: {PROGRAM} COMMAND ...    ({PROGRAM} COMMAND --help says more)"]
    width = max(map(len, COMMANDS)) + 2
    for title, group in GROUPS.items():
        lines += ["", title] + [f"  {name:{width}}{command.summary}" for name, command in group.items()]
    return "\n".join(lines)


def refuse(found, program=PROGRAM):
    """The exit code of a Problem, after its line."""
    print(f"{program}: error: {found}", file=sys.stderr)
    return found.code


def help_without(name, module):
    """The docstring of a command's module, read but not imported: this Python lacks `module`, which the import
    needs."""
    command = COMMANDS[name]
    source = pathlib.Path(__file__).parent / f"{command.module.replace('.', '/')}.py"
    return "\n\n".join((f"example: {PROGRAM} {name} {command.example}", command.summary,
                        ast.get_docstring(ast.parse(source.read_text())),
                        f"The list of flags needs the module {module}, which {sys.executable} has not."))


def lost_output(reason):
    return problem.Problem(f"cannot write to standard output: {reason}; what is missing there is lost: free space, or "
                           "send it elsewhere, and start again", problem.IO)


class Printed(io.FileIO):
    """Standard output whose failure is a Problem, once: an OSError of it would name no file."""

    is_lost = False

    def write(self, data):
        if self.is_lost:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self.is_lost = True
            raise lost_output(error.strerror) from None


def main(called):
    """Exit code. `called`: the path of the program, and its words. Text that cannot be printed is an error."""
    if sys.stdout is not None and sys.stdout is sys.__stdout__:
        printed = Printed(sys.stdout.fileno(), "w", closefd=False)
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(printed), sys.stdout.encoding, sys.stdout.errors,
                                      line_buffering=sys.stdout.line_buffering)
    try:
        code = run(called)
    except SystemExit as end:  # of the parser of a command line
        code = end.code
    except problem.Problem as lost:
        code = refuse(lost)
    try:
        if sys.stdout is None:
            raise lost_output("it is closed")
        sys.stdout.flush()
    except problem.Problem as lost:
        return refuse(lost) if code in (0, None) else code
    return code


def run(called):
    """Exit code. `called`: the path of the program, and its words."""
    path, *words = called
    if not words:
        print(overview(), file=sys.stderr)
        return problem.USAGE
    name, *words = words
    if name in ("-h", "--help"):
        print(overview())
        return 0
    if name not in COMMANDS:
        hint = problem.nearest(name, COMMANDS)
        return refuse(problem.Problem(f'there is no command "{name}"{hint}: {PROGRAM} --help lists them'))
    try:
        return importlib.import_module(f"zpp_validate.{COMMANDS[name].module}").main(words)
    except ImportError as missing:
        if (missing.name or "").startswith("zpp_validate"):
            raise
        if missing.name and {"-h", "--help", "--help-all"} & set(words):
            print(help_without(name, missing.name))
            return 0
        return refuse(problem.lacks(missing, path), problem.program(name))
    except problem.Problem as found:
        return refuse(found, problem.program(name))
    except OSError as error:
        return refuse(problem.of_os(error), problem.program(name))
