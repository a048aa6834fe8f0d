"""Prints the nanoseconds of the best of 100 turns in which psutil answers a
question about a live process.

    ask_psutil.py is_running|pid_exists PID CALLS
"""

import sys
import time

import psutil

question, pid, calls = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
process = psutil.Process(pid)
ask = {"is_running": process.is_running, "pid_exists": lambda: psutil.pid_exists(pid)}[question]


def turn():
    began = time.perf_counter_ns()
    for _ in range(calls):
        if not ask():
            sys.exit("the process is alive")
    return time.perf_counter_ns() - began


print(min(turn() for _ in range(100)))
