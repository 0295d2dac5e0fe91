"""Train the small byte-level language model: `python train.py +exp=exp01`.

Hydra composes conf/train.yaml; `expdb.start` pins the run; `expdb.Loop` trains, evaluates, saves
and resumes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

import hydra
from omegaconf import DictConfig

import expdb


@hydra.main(version_base="1.3", config_path="conf", config_name="train")
def main(cfg: DictConfig) -> float:
    """Train one run; an error of expdb's is one line and its exit code."""
    try:
        return train(cfg)
    except expdb.ExpdbError as error:
        for line in (
            f"error: {error.message}",
            *error.details,
            *(f"hint: {h}" for h in error.hints),
        ):
            sys.stderr.write(f"{line}\n")
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)


def train(cfg: DictConfig) -> float:
    """Build everything from the config, train, and return the objective for a sweeper."""
    try:
        import torch
    except ModuleNotFoundError:
        raise expdb.BadInput(
            "torch is not installed in this environment",
            hint="pip install 'expdb-ml[train]', or: make train",
        ) from None
    from expdb.demo import build, cloze, evaluate, moe
    from expdb.demo.loss import lm_loss

    torch.set_num_threads(cfg.loop.num_threads)
    torch.manual_seed(cfg.seed)
    with expdb.start(cfg) as run:
        loop_cfg, seq_len, device = cfg.loop, cfg.model.seq_len, cfg.loop.device
        data, loader = build.build_data(cfg.data, seq_len=seq_len, seed=cfg.seed, device=device)
        run.use_data("train", data.name, digest=data.digest_train, num_bytes=data.num_train_bytes)
        run.use_data("val", data.name, digest=data.digest_val, num_bytes=data.num_val_bytes)
        model = build.build_model(cfg.model, seed=cfg.seed, device=device)
        optim = build.build_optim(cfg.optim, model)
        tokens = loop_cfg.max_steps * loop_cfg.accum * cfg.data.batch_size * seq_len
        sched = build.build_schedule(
            cfg.schedule, optim, total_tokens=tokens, total_steps=loop_cfg.max_steps
        )
        items = cloze.make_items(data.val, num_items=loop_cfg.cloze_items)

        def validate(step: int) -> Mapping[str, Any]:
            found = cloze.score_cloze(model, items)
            run.log_eval(
                "cloze",
                {"acc": found.acc, "acc_stderr": found.acc_stderr},
                step=step,
                n=found.n,
                shots=0,
                scorer="likelihood of 24 bytes after 64",
                items=found.items_digest,
            )
            drawn = {f"train/num_sequences/{name}": n for name, n in loader.counts.items()}
            return evaluate.evaluate_sources(model, data.held_out, seq_len=seq_len) | drawn

        loop = expdb.Loop(
            run,
            expdb.State(model=model, optim=optim, sched=sched, loader=loader),
            max_steps=loop_cfg.max_steps,
            accum=loop_cfg.accum,
            precision=loop_cfg.precision,
            clip=loop_cfg.clip,
            eval_every=loop_cfg.eval_every,
            evaluate=validate,
            save_every=loop_cfg.save_every,
            print_every=loop_cfg.get("print_every"),
        )
        for update in loop:
            for batch in update:
                with update.autocast():
                    nll, num_tokens = lm_loss(model, batch, update.observe)
                update.backward(nll, num_tokens)
            update.step()
            run.log(moe.balance(model), step=update.step_number)
    if run.store is not None:
        report(run.store.root, run.id, quiet=cfg.expdb.get("print") == "quiet")
    return run.result()


def report(store: os.PathLike[str], run: str, *, quiet: bool) -> None:
    """Print how the run stands against the one it is measured against; only its id when quiet."""
    if not quiet:
        sys.stderr.write("\n")
    for line in [run] if quiet else expdb.open(store).closing_table(run, stream=sys.stdout):
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
