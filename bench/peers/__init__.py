"""One file a tracker; `FILES` says which class is whose."""

from __future__ import annotations

from typing import Final

FILES: Final = {
    "expdb": "expdb_:Expdb",
    "jsonl-flush": "jsonl:Jsonl",
    "parquet-wide": "parquet:Wide",
    "parquet-long": "parquet:Long",
    "tensorboardX": "tensorboardx_:TensorboardX",
    "wandb-offline": "wandb_:Wandb",
    "trackio": "trackio_:Trackio",
    "aim": "aim_:Aim",
    "mlflow-sqlite": "mlflow_:MlflowSqlite",
    "mlflow-sqlite-async": "mlflow_:MlflowAsync",
    "mlflow-file": "mlflow_:MlflowFile",
    "dvclive": "dvclive_:Dvclive",
}
"""Name of a tracker -> its file and class here."""
REFERENCES: Final = ("jsonl-flush", "parquet-wide", "parquet-long")
"""Not trackers: what a few lines of one's own would do."""
