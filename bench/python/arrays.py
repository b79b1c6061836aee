"""A NumPy array written to a blob and read back, beside the Rust client doing the same with its bytes.

Both take turns on one node with data on disk, on one thread each, pinned to the last core; the node is on core 0. In a round each writes its
array into a blob that is not there (`create`, then one write, which is seen as one), and the other reads it at once, while the node
has most of it in memory, into memory that is there already. What counts is the ratio of the rates within a round. Every byte that was read is checked, after its time was taken.
"""

import os
import platform
import statistics
import subprocess
import time

import numpy
import report
import zerohop

BYTES = 1 << 30
FACTOR = 0x9E3779B97F4A7C15
"""As in `array.rs`."""
GOAL = 0.8


class Python:
    name = "Python"

    def __init__(self, endpoint, size):
        self.blobs = zerohop.connect(endpoint).keyspace().blobs
        self.given = numpy.arange(size // 8, dtype=numpy.uint64) * numpy.uint64(FACTOR)
        self.into = numpy.zeros_like(self.given)

    def write(self, name):
        return self.timed(lambda: (self.blobs.create(name), self.blobs.write(name, self.given)))

    def read(self, name):
        measured = self.timed(lambda: self.blobs.readinto(name, self.into))
        if not numpy.array_equal(self.into, self.given):
            raise SystemExit(f"bench python: {name}: not all bytes are those that were written")
        self.into[:] = 0
        return measured

    def timed(self, act):
        begin, spent = time.perf_counter(), time.thread_time()
        act()
        return time.perf_counter() - begin, time.thread_time() - spent


class Rust:
    name = "Rust"

    def __init__(self, program, endpoint, size):
        words = [program, "array", endpoint, str(size)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def write(self, name):
        return self.request("write", name)

    def read(self, name):
        return self.request("read", name)

    def request(self, verb, name):
        self.process.stdin.write(f"{verb} {name}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("bench python: the Rust client has ended, with what is shown above")
        took, spent = map(float, line.split())
        return took, spent

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit("bench python: the Rust client has ended badly")


def compare(endpoint, program, rounds, size):
    load = os.getloadavg()[0]
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    size -= size % 8
    python, rust = Python(endpoint, size), Rust(program, endpoint, size)
    pair = [python, rust]
    figures = {(act, client.name): [] for act in ("write", "read") for client in pair}
    for number in range(rounds + 1):
        # The order alternates; the first round is not counted.
        order = pair if number % 2 else pair[::-1]
        for client in order:
            measured = client.write(client.name)
            figures["write", client.name].append(measured)
            other = pair[1 - pair.index(client)]
            figures["read", other.name].append(other.read(client.name))
        for client in pair:
            python.blobs.delete(client.name)
    rust.close()
    print("| test | Python, GB/s | Rust, GB/s | ratio: median (range) | goal | processor time of the client, s/GB: Python, Rust |")
    print("| --- | ---: | ---: | --- | ---: | --- |")
    for act in ("write", "read"):
        own, beside = (figures[act, client.name][1:] for client in pair)
        rates = [statistics.median(size / 1e9 / took for took, _ in measured) for measured in (own, beside)]
        ratios = [there[0] / here[0] for here, there in zip(own, beside)]
        spent = [statistics.median(spent / (size / 1e9) for _, spent in measured) for measured in (own, beside)]
        print(
            f"| {act} | {rates[0]:.2f} | {rates[1]:.2f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
            f"| {GOAL} | {spent[0]:.2f}, {spent[1]:.2f} |"
        )
    print(
        f"\n{rounds} rounds, arrays of {size} bytes, a node with data on disk on core 0, clients on the last core by turns; NumPy "
        f"{numpy.__version__}, Python {platform.python_version()}; load average {load:.1f} when it began, {os.cpu_count()} cores."
    )
    rates = {key: [size / 1e9 / took for took, _ in measured[1:]] for key, measured in figures.items()}
    return report.scenario(
        "arrays",
        f"An array of {size} bytes that Python and Rust write and read in turns, on a node with data on disk on core 0.",
        rounds,
        [(client.name, [(f"{act}, GB/s", rates[act, client.name]) for act in ("write", "read")]) for client in pair],
        [
            (f"{act}: Python over Rust", report.ratios(rates[act, python.name], rates[act, rust.name]), GOAL)
            for act in ("write", "read")
        ],
    )
