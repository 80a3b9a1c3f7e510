"""The one training loop: steps, judgements on dev, averages, checkpoints, and the way back."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from encoder.errors import InputError
from encoder.support.files import write_atomically
from train.loop.checkpoint import Checkpoint
from train.loop.progress import Pace, ProgressLog
from train.loop.steps import Step
from train.loop.token_rows import TABLES, TokenTable
from train.recipe import Recipe, Steps

LAST, BEST, LOG = "last.safetensors", "best.safetensors", "log.jsonl"
STAR = ("star.", "pooling.", "residual.gain")


Draw = Callable[[TokenTable, int], Step]
"""What draws the step of a number; the same number, the same step."""

Judge = Callable[[nn.Module], dict[str, float]]
"""The figures of a model on the dev split; `score` decides."""


@dataclass(slots=True)
class RunProgress:
    """How far a run is, and how well it has done."""

    step: int = 0
    best: float = float("-inf")
    best_step: int = 0
    worse: int = 0  # judgements since the best one
    averaged: int = 0
    stopped: bool = False
    losses: dict[str, list[float]] = field(default_factory=dict)  # since the last judgement
    log: list[dict[str, Any]] = field(default_factory=list)  # a line for each judgement


class Trainer:
    """Trains a model by a recipe in a folder of its own; called again, it goes on."""

    def __init__(
        self, model: nn.Module, recipe: Recipe, draw: Draw, judge: Judge, work: Path,
        progress_log: ProgressLog | None = None, data: str = "",
    ) -> None:  # fmt: skip
        self.model, self.recipe = model, recipe
        self._draw, self._judge, self._work = draw, judge, work
        self._progress_log = progress_log or ProgressLog()
        self._origin = {"recipe": recipe.digest, "data": data}
        self._table = TokenTable(model, in_halves=True)
        self._adam = torch.optim.Adam(groups(self._table, recipe.steps))
        self._rates = [group["lr"] for group in self._adam.param_groups]
        self._average: dict[str, Tensor] = {}
        self.progress = RunProgress()
        self._resume()

    def run(self) -> nn.Module:
        """Train to the end, and return the model as it was judged best."""
        steps = self.recipe.steps
        pace = Pace(self.progress.step, steps.count)
        while self.progress.step < steps.count and not self.progress.stopped:
            self._one()
            done = self.progress.step
            if done % steps.judge_every == 0 or done == steps.count:
                self._look(pace)
            if done % steps.keep_every == 0 or done == steps.count or self.progress.stopped:
                self._keep()
            self._progress_log.progress(pace.text(done))
        best = Checkpoint.read(self._work / BEST)
        if best is None:
            raise InputError(f"{self._work / BEST}: is missing; remove {self._work} to start again")
        self.model.load_state_dict(dict(best.tensors))
        return self.model

    def _one(self) -> None:
        steps = self.recipe.steps
        self._table.star = self.progress.step >= steps.joins
        step = self._draw(self._table, self.progress.step)
        self._refuse(step.kind, "loss", step.loss)
        self._adam.zero_grad()
        step.loss.backward()  # type: ignore[no-untyped-call]
        length = nn.utils.clip_grad_norm_(self._table.rest.values(), self.recipe.steps.clip)
        self._refuse(step.kind, "gradient", length + step.rows.gradient_sum())
        scale = schedule(steps, self.progress.step)
        late = schedule(steps, self.progress.step, steps.joins)
        for group, rate in zip(self._adam.param_groups, self._rates, strict=True):
            group["lr"] = rate * (late if group["star"] else scale)
        self._adam.step()
        step.rows.step(self.recipe.steps.table_rate * scale)
        self.progress.step += 1
        self.progress.losses.setdefault(step.kind, []).append(step.loss.item())
        self._take_in()

    def _refuse(self, kind: str, what: str, value: Tensor) -> None:
        """End the run before a number that is none reaches the model."""
        if not torch.isfinite(value):
            raise InputError(
                f"step {self.progress.step}: the {what} of {kind} is {value.item()}; lower "
                f"`steps.rate` (the last good state is in {self._work})"
            )

    def _take_in(self) -> None:
        """Add the state of the model to its average, late in the run."""
        steps, done = self.recipe.steps, self.progress.step
        if done <= steps.average_from * steps.count or done % steps.average_every:
            return
        self.progress.averaged += 1
        for name, value in self.model.named_parameters():
            if name in self._table.rest or name in TABLES:
                mean = self._average.setdefault(name, torch.zeros_like(value))
                mean += (value.detach() - mean) / self.progress.averaged

    def _look(self, pace: Pace) -> None:
        """Judge the model, or its average once there is one, and keep the best."""
        own = {name: value.clone() for name, value in self.model.state_dict().items()}
        judged = own | self._average
        self.model.load_state_dict(judged)
        figures = self._judge(self.model.eval())
        self.model.train().load_state_dict(own)
        progress, steps = self.progress, self.recipe.steps
        if progress.step <= steps.joins < steps.count:
            pass  # without its star it is not the model that was asked for
        elif figures["score"] >= progress.best:  # where nothing is judged the last is the best
            progress.best, progress.best_step, progress.worse = figures["score"], progress.step, 0
            Checkpoint(judged, {"step": progress.step} | figures).write(self._work / BEST)
        else:
            progress.worse += 1
        patience = steps.patience
        progress.stopped = bool(patience) and progress.worse >= patience
        self._log(figures)
        listed = ", ".join(f"{name} {value:.4g}" for name, value in figures.items())
        self._progress_log.line(f"{pace.text(progress.step)}: {listed}")

    def _log(self, figures: dict[str, float]) -> None:
        losses = {kind: sum(x) / len(x) for kind, x in sorted(self.progress.losses.items())}
        self.progress.losses.clear()
        self.progress.log.append({"step": self.progress.step, "losses": losses, "dev": figures})
        lines = (json.dumps(line) + "\n" for line in self.progress.log)
        write_atomically(self._work / LOG, "".join(lines).encode())

    def _keep(self) -> None:
        """Write all that the run needs to go on."""
        tensors = {f"model/{name}": value for name, value in self.model.state_dict().items()}
        for i, state in self._adam.state_dict()["state"].items():
            tensors |= {f"adam/{i}/{key}": value for key, value in state.items()}
        tensors |= {f"average/{name}": value for name, value in self._average.items()}
        for name, rows in self._table.adams.items():
            tensors |= {f"{name}/first": rows.first, f"{name}/second": rows.second}
        counts = {name: rows.steps for name, rows in self._table.adams.items()}
        values = self._origin | {"progress": asdict(self.progress), "row steps": counts}
        Checkpoint(tensors, values).write(self._work / LAST)

    def _resume(self) -> None:
        """Go on from the last state that was kept, if there is one."""
        try:
            self._work.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self._work}: cannot be made ({error.strerror})") from error
        last = Checkpoint.read(self._work / LAST)
        if last is None:
            return
        for what, mine in self._origin.items():
            if last.values.get(what) != mine:
                raise InputError(
                    f"{self._work}: holds a run with other {what}; name another place with --work, "
                    "or remove it to start again"
                )
        try:
            self._restore(last)
        except (KeyError, TypeError, RuntimeError) as error:
            raise InputError(
                f"{self._work / LAST}: is no state of this model; remove it to start again"
            ) from error
        self._progress_log.line(f"going on from step {self.progress.step:,}")

    def _restore(self, last: Checkpoint) -> None:
        """Put everything back as it was kept."""
        self.progress = RunProgress(**last.values["progress"])
        self.model.load_state_dict(under(last.tensors, "model/"))
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in under(last.tensors, "adam/").items():
            number, _, key = name.partition("/")
            state.setdefault(int(number), {})[key] = value
        self._adam.load_state_dict(self._adam.state_dict() | {"state": state})
        average = under(last.tensors, "average/")
        self._average = {name: value.to(self._table.device) for name, value in average.items()}
        for name, rows in self._table.adams.items():
            rows.first.copy_(last.tensors[f"{name}/first"])
            rows.second.copy_(last.tensors[f"{name}/second"])
            rows.steps = last.values["row steps"][name]


def groups(table: TokenTable, steps: Steps) -> list[dict[str, Any]]:
    """The parameters that are trained whole, in their order, each with its rate."""
    rest = table.rest or {"": nn.Parameter(torch.zeros(0))}  # an encoder may be its table alone
    rates = {True: steps.star_rate or steps.rate, False: steps.rate}
    return [
        {"params": [parameter], "lr": rates[star], "star": star}
        for name, parameter in rest.items()
        for star in (name.startswith(STAR),)
    ]


def schedule(steps: Steps, number: int, since: int = 0) -> float:
    """The share of the rate at a step: a rise since a step, then a straight line down to zero."""
    rise = min(1.0, max(0, number - since + 1) / steps.warm_up) if steps.warm_up else 1.0
    return rise * (1 - number / steps.count if steps.decay else 1.0)


def under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names begin so, by the rest of their names."""
    return {name[len(prefix) :]: x for name, x in tensors.items() if name.startswith(prefix)}
