"""The training loop: steps, evaluation on dev, averaging, checkpoints and resuming."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from encoder.errors import InputError
from encoder.support.files import write_atomically
from train.loop.checkpoint import (
    Checkpoint,
    optimizer_tensors,
    restore_optimizer,
    select_prefix,
)
from train.loop.progress import Pace, ProgressLog
from train.loop.steps import Step
from train.loop.token_rows import TABLES, TokenTable
from train.recipe import Recipe, Steps

LAST, BEST, LOG = "last.safetensors", "best.safetensors", "log.jsonl"
STAR_PREFIXES = ("star.", "residual.gain")  # of parameter names

MakeStep = Callable[[TokenTable, int], Step]
"""Makes the step of this number; deterministic."""

Evaluate = Callable[[nn.Module], dict[str, float]]
"""Returns the figures of a model on the dev split; `score` is the criterion."""


@dataclass(slots=True)
class RunProgress:
    """The progress of a run, as stored in a checkpoint."""

    step: int = 0
    best: float = float("-inf")
    best_step: int = 0
    since_best: int = 0  # evaluations
    average_count: int = 0  # models in the average
    is_over: bool = False  # for lack of progress
    losses: dict[str, list[float]] = field(default_factory=dict)  # since the last evaluation
    log: list[dict[str, Any]] = field(default_factory=list)  # a line for each evaluation


@dataclass(frozen=True, slots=True)
class RunFolder:
    """Where a run is kept, and what it trains on: only the same run is resumed there."""

    path: Path
    data: str = ""  # a digest


class Trainer:
    """Trains a model by a recipe; a run in the same folder is resumed."""

    def __init__(
        self, model: nn.Module, recipe: Recipe, make_step: MakeStep, evaluate: Evaluate,
        folder: RunFolder, progress_log: ProgressLog | None = None,
    ) -> None:  # fmt: skip
        self.model, self.recipe = model, recipe
        self._make_step, self._evaluate_model, self._work = make_step, evaluate, folder.path
        self._progress_log = progress_log or ProgressLog()
        self._origin = {"recipe": recipe.digest, "data": folder.data}
        self._table = TokenTable(model, in_bf16=True)
        self._adam = torch.optim.Adam(parameter_groups(self._table, recipe.steps))
        self._rates = [group["lr"] for group in self._adam.param_groups]
        self._average: dict[str, Tensor] = {}
        self.progress = RunProgress()
        self._resume()

    def run(self) -> nn.Module:
        """Train to the end and return the best model."""
        steps = self.recipe.steps
        pace = Pace(self.progress.step, steps.count)
        while self.progress.step < steps.count and not self.progress.is_over:
            self._step()
            step = self.progress.step
            if step % steps.judge_every == 0 or step == steps.count:
                self._evaluate(pace)
            if step % steps.keep_every == 0 or step == steps.count or self.progress.is_over:
                self._save()
            self._progress_log.progress(pace.text(step))
        best = Checkpoint.read(self._work / BEST)
        if best is None:
            raise InputError(f"{self._work / BEST}: is missing; remove {self._work} to start again")
        self.model.load_state_dict(dict(best.tensors))
        return self.model

    def _step(self) -> None:
        steps = self.recipe.steps
        step = self._make_step(self._table, self.progress.step)
        self._refuse(step.kind, "loss", step.loss)
        self._adam.zero_grad()
        step.loss.backward()  # type: ignore[no-untyped-call]
        length = nn.utils.clip_grad_norm_(self._table.other_parameters.values(), steps.clip)
        self._refuse(step.kind, "gradient", length + step.rows.gradient_sum())
        scale = schedule(steps, self.progress.step)
        for group, rate in zip(self._adam.param_groups, self._rates, strict=True):
            group["lr"] = rate * scale
        self._adam.step()
        step.rows.step(steps.table_rate * scale)
        self.progress.step += 1
        self.progress.losses.setdefault(step.kind, []).append(step.loss.item())
        self._update_average()

    def _refuse(self, kind: str, what: str, value: Tensor) -> None:
        """Raise InputError before a NaN or infinity reaches the model."""
        if not torch.isfinite(value):
            raise InputError(
                f"step {self.progress.step}: the {what} of {kind} is {value.item()}; lower "
                f"`steps.rate` (the last good state is in {self._work})"
            )

    def _update_average(self) -> None:
        """Update the average of the parameters, late in the run."""
        steps, step = self.recipe.steps, self.progress.step
        if step <= steps.average_from * steps.count or step % steps.average_every:
            return
        self.progress.average_count += 1
        for name, value in self.model.named_parameters():
            if name in self._table.other_parameters or name in TABLES:
                mean = self._average.setdefault(name, torch.zeros_like(value))
                mean += (value.detach() - mean) / self.progress.average_count

    def _evaluate(self, pace: Pace) -> None:
        """Evaluate the model, or its average if there is one, and save the best."""
        current = {name: value.clone() for name, value in self.model.state_dict().items()}
        candidate = current | self._average
        self.model.load_state_dict(candidate)
        figures = self._evaluate_model(self.model.eval())
        self.model.train().load_state_dict(current)
        progress, steps = self.progress, self.recipe.steps
        if figures["score"] >= progress.best:  # without dev data the last is the best
            progress.best, progress.best_step = figures["score"], progress.step
            progress.since_best = 0
            Checkpoint(candidate, {"step": progress.step} | figures).write(self._work / BEST)
        else:
            progress.since_best += 1
        patience = steps.patience
        progress.is_over = bool(patience) and progress.since_best >= patience
        self._log(figures)
        summary = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        self._progress_log.line(f"{pace.text(progress.step)}: {summary}")

    def _log(self, figures: dict[str, float]) -> None:
        losses = {kind: sum(x) / len(x) for kind, x in sorted(self.progress.losses.items())}
        self.progress.losses.clear()
        self.progress.log.append({"step": self.progress.step, "losses": losses, "dev": figures})
        lines = (json.dumps(line) + "\n" for line in self.progress.log)
        write_atomically(self._work / LOG, "".join(lines).encode())

    def _save(self) -> None:
        """Write a checkpoint."""
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        tensors |= optimizer_tensors(self._adam)
        tensors |= {f"average/{name}": value for name, value in self._average.items()}
        for name, rows in self._table.optimizers.items():
            tensors |= {f"{name}/first": rows.first, f"{name}/second": rows.second}
        counts = {name: rows.steps for name, rows in self._table.optimizers.items()}
        values = self._origin | {"progress": asdict(self.progress), "row steps": counts}
        Checkpoint(tensors, values).write(self._work / LAST)

    def _resume(self) -> None:
        """Load the last checkpoint, if there is one."""
        try:
            self._work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self._work}: cannot be made ({error.strerror})") from error
        last = Checkpoint.read(self._work / LAST)
        if last is None:
            return
        for key, value in self._origin.items():
            if last.values.get(key) != value:
                raise InputError(
                    f"{self._work}: holds a run with another {key}; name another folder with "
                    "--work, or remove it to start again"
                )
        try:
            self._restore(last)
        except (KeyError, TypeError, RuntimeError) as error:
            raise InputError(
                f"{self._work / LAST}: is not a state of this model; remove it to start again"
            ) from error
        self._progress_log.line(f"resuming from step {self.progress.step:,}")

    def _restore(self, last: Checkpoint) -> None:
        self.progress = RunProgress(**last.values["progress"])
        self.model.load_state_dict(select_prefix(last.tensors, "model/"))
        restore_optimizer(self._adam, last.tensors)
        average = select_prefix(last.tensors, "average/")
        self._average = {name: value.to(self._table.device) for name, value in average.items()}
        for name, rows in self._table.optimizers.items():
            rows.first.copy_(last.tensors[f"{name}/first"])
            rows.second.copy_(last.tensors[f"{name}/second"])
            rows.steps = last.values["row steps"][name]


def parameter_groups(table: TokenTable, steps: Steps) -> list[dict[str, Any]]:
    """Return the parameters except the tables, each with its rate."""
    nothing = {"": nn.Parameter(torch.zeros(0))}  # an encoder may have only tables
    groups = []
    for name, parameter in (table.other_parameters or nothing).items():
        of_star = name.startswith(STAR_PREFIXES)
        rate = (steps.star_rate or steps.rate) if of_star else steps.rate
        groups.append({"params": [parameter], "lr": rate})
    return groups


def schedule(steps: Steps, number: int) -> float:
    """The factor of the rate: warm-up, and linear decay to zero."""
    rise = min(1.0, (number + 1) / steps.warm_up) if steps.warm_up else 1.0
    return rise * (1 - number / steps.count if steps.decay else 1.0)
