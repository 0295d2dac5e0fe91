"""W2: 500 runs of 100 steps with 10 metrics and 20 parameters; the best ten, and a comparison.

A query is a fresh process over a store whose index, where there is one, is current; the first
question after filling, which builds expdb's index, is measured apart. Slow trackers hold fewer.
"""

from __future__ import annotations

from typing import Any, Final

from bench import check, data, table
from bench.environments import Failed, Place
from bench.measure import Load, folder_bytes
from bench.pairs import Figures, Options, Row, repeated
from bench.workloads.logging import checked

NAME: Final = "W2"
STEPS: Final = 100
METRICS: Final = 10
FEWER: Final = {
    "tensorboardX": 200, "mlflow-file": 200, "aim": 100, "wandb-offline": 50, "dvclive": 200,
}  # fmt: skip
QUESTIONS: Final = ("top last", "top min", "compare")


def measure(place: Place, peers: list[str], options: Options) -> list[Row]:
    """Return a row a tracker and question."""
    rows: list[Row] = []
    ours = _Filled(place, "expdb", options)
    for peer in peers:
        try:
            theirs = ours if peer == "expdb" else _Filled(place, peer, options)
            for question in QUESTIONS:
                rows.append(_row(ours, theirs, question, options))
        except Failed as error:
            rows.append(Row(workload=NAME, name=peer, error=str(error)))
    return rows


class _Filled:
    """A store that holds the runs of a tracker."""

    def __init__(self, place: Place, peer: str, options: Options) -> None:
        self.place, self.peer = place, peer
        full = FEWER.get(peer, 500)
        self.runs = data.run_names(options.size(full, max(30, full // 3), 20))
        store = place.store(peer)
        self.job: dict[str, Any] = {"store": store, "metrics": METRICS, "steps": STEPS}
        place.ask(peer, "prepare", self.job)
        load = Load()
        answer, spent = place.ask(peer, "fill", {**self.job, "runs": self.runs})
        filled, _ = place.ask(peer, "filled", self.job)
        size, files = folder_bytes(store)
        self.figures: dict[str, Any] = {
            "runs": len(self.runs),
            "run_ms": answer["run_ms"],
            "fill_cpu_s": spent.cpu_s,
            "filled_s": filled["filled_s"],
            "store_mb": size / 1e6,
            "files": files,
            "fill_others": load.others(spent.cpu_s),
        }

    def ask(self, question: str) -> Figures:
        """Ask in a new process, and check the answer."""
        metric, load = data.metric_names(METRICS)[0], Load()
        if question == "compare":
            first, second = self.runs[1], self.runs[-1]
            job = {**self.job, "first": first, "second": second}
            answer, spent = self.place.ask(self.peer, "compare", job)
        else:
            reading = question.split()[1]
            job = {**self.job, "metric": metric, "reading": reading, "num": 10}
            answer, spent = self.place.ask(self.peer, "top", job)
        if "unsupported" in answer:
            return {**self.figures, "unsupported": answer["unsupported"]}
        if question == "compare":
            names = data.metric_names(METRICS)
            verdict = check.compare(answer["answer"], first, second, names, STEPS)
        else:
            verdict = check.top(answer["answer"], self.runs, metric, STEPS, reading=reading, num=10)
        return {
            **self.figures,
            "wall_s": spent.wall_s,
            "cpu_s": spent.cpu_s,
            "query_s": answer["query_s"],
            "right": verdict.right,
            "exact": verdict.exact,
            "why": verdict.why,
            "others": load.others(spent.cpu_s),
        }


def _row(ours: _Filled, theirs: _Filled, question: str, options: Options) -> Row:
    name = f"{theirs.peer}: {question}"
    if theirs is ours:
        mine, _ = repeated(options, lambda: ours.ask(question), None)
        return Row(workload=NAME, name=name, reps=mine)
    first = theirs.ask(question)
    if "unsupported" in first:
        return Row(workload=NAME, name=name, reps=[first], error=str(first["unsupported"]))
    mine, others = repeated(options, lambda: ours.ask(question), lambda: theirs.ask(question))
    return Row(workload=NAME, name=name, reps=others, ours=mine)


def shown(rows: list[Row]) -> str:
    """Return the table."""
    head = [
        "tracker: question", "runs", "reps", "process s", "query ms", "CPU s", "right", "exact",
        "process / expdb", "CPU / expdb", "fill ms a run", "index ms", "store MB", "files",
        "other cores",
    ]  # fmt: skip
    lines = []
    for row in rows:
        query = row.median("query_s")
        is_answered = not row.error
        lines.append([
            row.name, row.shown("runs", 0), str(len(row.reps)), row.shown("wall_s", 2),
            table.number(None if query is None else query * 1e3, 0), row.shown("cpu_s", 2),
            *(checked(row) if is_answered else [row.error[:60], "-"]),
            table.number(row.ratio("wall_s")), table.number(row.ratio("cpu_s")),
            row.shown("run_ms", 1), table.number((row.median("filled_s") or 0) * 1e3, 0),
            row.shown("store_mb", 1), row.shown("files", 0), row.shown("others", 2),
        ])  # fmt: skip
    return table.table(head, lines)
