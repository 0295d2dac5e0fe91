"""`hydra/callbacks=expdb`: makes a run of each job of a Hydra script that knows nothing of expdb.

The run starts before the job's function and ends with it: finished when it returned, failed when
it raised or left by `sys.exit`. In a sweep each job is a run of its own.

Invariant: no job is trained untracked in silence. Hydra turns what a callback raises into a
warning, so everything that goes wrong here leaves through SystemExit, which it lets pass.
"""

from __future__ import annotations

import atexit
import copy
import math
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, NoReturn

from hydra.core.utils import JobReturn, JobStatus
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, open_dict, read_write

from expdb.errors import ExpdbError
from expdb.track import held

if TYPE_CHECKING:
    from expdb.track.quiet import QuietRun
    from expdb.track.run import Run


class _Left(SystemExit):
    """A `sys.exit` of a job. A worker of a launcher lives on then, and sends it to its parent as a
    pickle: by that the job is surely left, and its run ends.
    """

    def __init__(self, code: Any, end: Callable[[], None]) -> None:
        super().__init__(*(() if code is None else (code,)))
        self._end = end

    def __reduce__(self) -> tuple[type[SystemExit], tuple[Any, ...]]:
        self._end()
        return SystemExit, self.args


class ExpdbCallback(Callback):
    """What `conf/hydra/callbacks/expdb.yaml` names; its keys are the arguments."""

    def __init__(
        self, name: str | None = None, objective: Mapping[str, Any] | str | None = None
    ) -> None:
        self._name = name
        self._objective = objective
        self._run: Run | QuietRun | None = None
        self._left: SystemExit | None = None
        self._exit: Callable[[Any], NoReturn] | None = None

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """Start the run of this job, with the config that its function gets.

        Raises:
            SystemExit: it could not be started; why is said on stderr.
        """
        if self._run is not None:  # the job before left a worker that lives on
            self._end_at_exit()
        self._run = _or_exit(lambda: self._start(config))
        held.hold(self._run)
        self._left, self._exit = None, sys.exit
        # Hydra calls nobody when a job leaves by sys.exit, and the interpreter keeps no code.
        sys.exit = self._leave
        # After the run's own exit handler, so it is called before that one.
        atexit.register(self._end_at_exit)

    def on_job_end(self, config: DictConfig, job_return: JobReturn, **_: Any) -> None:
        """End the run as the job ended; a number that it returned is the objective, if nothing was
        logged for that.

        Raises:
            SystemExit: the run could not be ended; why is said on stderr.
        """
        run = self._let_go()
        if run is None or not held.is_open(run):
            return  # the script ended it
        if job_return.status is JobStatus.FAILED:
            # The property would raise the error, and say it a first time.
            error = job_return._return_value
            _or_exit(lambda: run.__exit__(type(error), error, None))
        else:
            _or_exit(lambda: _finish(run, job_return.return_value))

    def _start(self, config: DictConfig) -> Run | QuietRun:
        from expdb.track.start import start

        task = copy.deepcopy(config)
        with read_write(task), open_dict(task):
            del task["hydra"]
        return start(task, name=self._name, objective=self._objective)

    def _leave(self, code: Any = None) -> NoReturn:
        left = _Left(code, self._end_at_exit)
        if threading.current_thread() is threading.main_thread():
            self._left = left
        raise left

    def _let_go(self) -> Run | QuietRun | None:
        """Put back what `on_job_start` changed in this process, and return the run."""
        if self._exit is not None:
            sys.exit = self._exit  # type: ignore[assignment]
        atexit.unregister(self._end_at_exit)
        held.release()
        run, self._run, self._exit = self._run, None, None
        return run

    def _end_at_exit(self) -> None:
        """End the run of a job that neither returned nor raised an Exception."""
        run = self._let_go()
        if run is None or not held.is_open(run):
            return
        error = getattr(sys, "last_value", None) or self._left
        if error is not None:
            run.__exit__(type(error), error, None)
        else:
            run.fail("the script ended before its job returned")


def _finish(run: Run | QuietRun, returned: Any) -> None:
    objective = run.objective
    is_number = isinstance(returned, Real) and not isinstance(returned, bool)
    # NaN: nor did an earlier attempt log it.
    if (
        objective is not None
        and is_number
        and objective.metric not in run.latest
        and math.isnan(run.result())
    ):
        last = max((step for step, _ in run.latest.values()), default=run.step)
        run.log({objective.metric: float(returned)}, step=last)
    run.finish()


def _or_exit(act: Callable[[], Any]) -> Any:
    """Return what `act` returns; an error is said, and leaves with its exit code."""
    try:
        return act()
    except ExpdbError as error:
        hints = (f"hint: {hint}" for hint in error.hints)
        for line in (f"error: {error.message}", *error.details, *hints):
            sys.stderr.write(f"{line}\n")
        raise SystemExit(error.exit_code) from error
    except Exception as error:
        # Hydra would make a warning of it and go on without a run.
        traceback.print_exception(error)
        raise SystemExit(1) from error
