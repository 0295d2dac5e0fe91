"""D3, `log_spike`: a value far above the last ones on a log scale, as gradient norms are."""

from __future__ import annotations

from expdb.monitor.spike import Spike


class LogSpike(Spike):
    """A spike of the logarithm; one high step is enough unless `need` says more.

    What confirms it is looked at on a log scale too: a loss that rises by 8 %, and by 4 spreads.
    """

    def __init__(
        self,
        key: str,
        *,
        window: int = 128,
        k: float = 6.0,
        floor: float = 0.1,
        start: int = 100,
        least: int = 50,
        need: int = 1,
        of: int = 3,
        sure: float = 8.0,
        worse_after: int = 1_000_000_000,
        back: float = 2.0,
        confirm: str = "",
        confirm_k: float = 4.0,
        confirm_floor: float = 0.02,
        confirm_within: int = 3,
    ) -> None:
        super().__init__(
            key, window=window, k=k, floor=floor, start=start, least=least, need=need, of=of,
            sure=sure, worse_after=worse_after, back=back, log=True, confirm=confirm,
            confirm_k=confirm_k, confirm_floor=confirm_floor, confirm_within=confirm_within,
        )  # fmt: skip
