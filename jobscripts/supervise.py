"""Runs one command under a time limit, in a session of its own, and passes signals on to it: TERM, INT, USR1 and USR2
reach the command, which decides how it ends. After the limit it gets TERM, and KILL where that does not help; a command
that can save gets USR1 first. If this process is killed, the kernel (Linux) sends the command TERM: launchers then end
their ranks.
"""

import ctypes
import os
import signal
import subprocess
import time

GRACE = 30  # seconds from TERM to KILL
SAVING = 120  # seconds from USR1 to TERM, as Slurm's warning gives
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)
TIMED_OUT = 124
ASKED = 85  # the command ended where it can resume
PR_SET_PDEATHSIG = 1  # of prctl(2)
libc = ctypes.CDLL(None)


def supervise(words, cwd, output, limit, saves=False):
    """Runs `words` with its output appended to the file `output`; returns (exit code, seconds, whether it ran into the limit). A
    command that a signal ended has 128 + its number, one that ran into the limit TIMED_OUT; one that `saves` is asked to, and may
    end with 0 or ASKED."""
    pending = []
    child = None

    def forward(number, _):
        if child is None:
            pending.append(number)
        elif child.poll() is None:
            child.send_signal(number)

    before = {number: signal.signal(number, forward) for number in FORWARDED}
    begin = time.monotonic()
    try:
        with open(output, "ab") as stream:
            child = subprocess.Popen(words, cwd=cwd, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                                     start_new_session=True, preexec_fn=end_with(os.getpid()))
            for number in pending:
                child.send_signal(number)
            code, late = wait(child, limit, saves)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if child is not None:
            end_group(child)
    return code, time.monotonic() - begin, late


def end_with(parent):
    """Function that a child calls between fork and exec: the child gets TERM when `parent` dies, and ends at once where
    it has died already."""
    def bind():
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(128 + signal.SIGTERM)
    return bind


def wait(child, limit, saves=False):
    """(exit code, whether the limit came first)."""
    try:
        code = child.wait(limit)
        return (code if code >= 0 else 128 - code), False
    except subprocess.TimeoutExpired:
        pass
    if saves:
        child.send_signal(signal.SIGUSR1)
        try:
            code = child.wait(SAVING)
            return (code if code in (0, ASKED) else TIMED_OUT), True
        except subprocess.TimeoutExpired:
            pass
    child.terminate()
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    return TIMED_OUT, True


def end_group(child):
    """Kills the processes of the command's group that are left, also when an exception ended the wait."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
