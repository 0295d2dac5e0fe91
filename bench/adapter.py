"""One process of one tracker: does one job with it and answers in one line of JSON on stdout.

    train.py bench.adapter PEER JOB '{"store": ..., ...}'

It runs in the tracker's own environment, so it imports the standard library and the peer's file
alone. What a tracker prints goes to stderr. Times are of `perf_counter`, in seconds.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench import check, data
from bench.peers import FILES
from bench.peers.peer import Peer, Unsupported

Job = dict[str, Any]


def main() -> None:
    """Do the job that the command line names."""
    name, verb, text = sys.argv[1:4]
    stdout = os.dup(1)
    os.dup2(2, 1)
    job = json.loads(text)
    peer = load(name)
    answer = JOBS[verb](peer, job)
    sys.stdout.flush()
    os.write(stdout, json.dumps(answer).encode() + b"\n")


def load(name: str) -> Peer:
    """Return the adapter of a peer; the peer itself is imported later."""
    module, _, kind = FILES[name].partition(":")
    peer: Peer = getattr(importlib.import_module(f"bench.peers.{module}"), kind)()
    return peer


def prepare(peer: Peer, job: Job) -> Job:
    """Make the store, as a user would have it before the first run."""
    store = Path(job["store"])
    store.mkdir(parents=True, exist_ok=True)
    peer.import_writer(store)
    peer.import_reader(store)
    peer.prepare(store)
    return {}


def filled(peer: Peer, job: Job) -> Job:
    """Do what must be done after filling before all can be read."""
    peer.import_reader(Path(job["store"]))
    before = time.perf_counter()
    peer.filled(Path(job["store"]))
    return {"filled_s": time.perf_counter() - before}


def log(peer: Peer, job: Job) -> Job:
    """Log one run, and time each step."""
    rows = data.rows(job["run"], data.metric_names(job["metrics"]), job["steps"])
    clock = time.perf_counter
    began, cpu = clock(), time.process_time()
    peer.import_writer(Path(job["store"]))
    imported, cpu_imported = clock(), time.process_time()
    writer = peer.start(Path(job["store"]), job["run"], data.params(job["run"]))
    started = clock()
    taken: list[float] = []
    note, put, pause_s = taken.append, writer.log, job.get("pause_s", 0.0)
    for step, row in enumerate(rows):
        before = clock()
        put(step, row)
        note(clock() - before)
        if pause_s:
            time.sleep(pause_s)
    logged, cpu_logged = clock(), time.process_time()
    writer.finish()
    finished = clock()
    taken.sort()
    return {
        "import_s": imported - began,
        "init_s": started - imported,
        "log_s": sum(taken),
        "finish_s": finished - logged,
        "after_import_s": finished - imported,
        "p50_us": taken[len(taken) // 2] * 1e6,
        "p99_us": taken[int(len(taken) * 0.99)] * 1e6,
        "max_ms": taken[-1] * 1e3,
        "import_cpu_s": cpu_imported - cpu,
        "log_cpu_s": cpu_logged - cpu_imported,
    }


def fill(peer: Peer, job: Job) -> Job:
    """Log many runs, one after the other."""
    metrics, store = data.metric_names(job["metrics"]), Path(job["store"])
    peer.import_writer(store)
    taken: list[float] = []
    for run in job["runs"]:
        rows = data.rows(run, metrics, job["steps"])
        before = time.perf_counter()
        peer.fill(store, run, data.params(run), rows)
        taken.append(time.perf_counter() - before)
    return {"fill_s": sum(taken), "run_ms": sum(taken) / len(taken) * 1e3}


def top(peer: Peer, job: Job) -> Job:
    """Name the best runs by a metric."""
    return _asked(
        peer, job, lambda store: peer.top(store, job["metric"], job["reading"], job["num"])
    )


def compare(peer: Peer, job: Job) -> Job:
    """Compare two runs."""
    metrics = data.metric_names(job["metrics"])
    return _asked(
        peer, job, lambda store: peer.compare(store, job["first"], job["second"], metrics)
    )


def series(peer: Peer, job: Job) -> Job:
    """Read one metric of several runs."""
    found = _asked(peer, job, lambda store: peer.series(store, job["metric"], job["runs"]))
    before = time.perf_counter()
    if "unsupported" in found:
        return found
    found["answer"] = {run: check.digest(*points) for run, points in found["answer"].items()}
    return {**found, "check_s": time.perf_counter() - before}


def pace(peer: Peer, job: Job) -> Job:
    """Log until killed, a step each `every_s`; the count of steps that returned is in a file."""
    metrics = data.metric_names(job["metrics"])
    rows = data.rows(job["run"], metrics, 2000)
    peer.import_writer(Path(job["store"]))
    counter = mmap.mmap(os.open(job["counter"], os.O_RDWR), 8)
    writer = peer.start(Path(job["store"]), job["run"], data.params(job["run"]))
    step, due, every = 0, time.monotonic(), job["every_s"]
    while True:
        writer.log(step, rows[step % len(rows)])
        step += 1
        struct.pack_into("<q", counter, 0, step)
        if every:
            due += every
            time.sleep(max(0.0, due - time.monotonic()))


def recovered(peer: Peer, job: Job) -> Job:
    """Count what a run has after a kill, and say what state the tracker gives it."""
    peer.import_reader(Path(job["store"]))
    points, state = peer.recovered(
        Path(job["store"]), job["run"], data.metric_names(job["metrics"])
    )
    return {"points": points, "state": state}


def _asked(peer: Peer, job: Job, ask: Callable[[Path], Any]) -> Job:
    store = Path(job["store"])
    began = time.perf_counter()
    peer.import_reader(store)
    imported = time.perf_counter()
    try:
        answer = ask(store)
    except Unsupported as missing:
        return {"unsupported": str(missing)}
    return {
        "import_s": imported - began,
        "query_s": time.perf_counter() - imported,
        "answer": answer,
    }


JOBS: dict[str, Callable[[Peer, Job], Job]] = {
    job.__name__: job for job in (prepare, log, fill, filled, top, compare, series, pace, recovered)
}
