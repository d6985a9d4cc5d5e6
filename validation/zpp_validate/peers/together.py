"""Processes that begin at once: how raw-disk and raw-write measure. Standard library alone."""

import multiprocessing
import threading
import time

from zpp_validate.problem import ENVIRONMENT, Problem, of_os


def work_of(index, work, arguments, barrier, results):
    try:
        results[index] = work(index, barrier, *arguments)
    except threading.BrokenBarrierError:  # another failed
        pass
    except OSError as error:
        results[index] = error
        barrier.abort()  # the others do not wait for it


def run(count, folder, work, *arguments):
    """[work(index, barrier, *arguments)] of `count` processes. Raises Problem where one cannot use `folder`."""
    context = multiprocessing.get_context("fork")  # arguments are shared, not copied
    with context.Manager() as manager:
        results, barrier = manager.dict(), context.Barrier(count)
        processes = [context.Process(target=work_of, args=(index, work, arguments, barrier, results))
                     for index in range(count)]
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            if any(process.exitcode not in (None, 0) for process in processes):
                barrier.abort()
            time.sleep(0.05)
        found = dict(results)
    for error in found.values():
        if isinstance(error, OSError):
            raise of_os(error, folder)
    if len(found) != count:
        raise Problem(f"a process that used {folder} was ended: see whether memory ran out, or give fewer --processes",
                      ENVIRONMENT)
    return list(found.values())
