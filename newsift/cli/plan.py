"""`newsift plan`: what a stream needs."""

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import click
import msgspec

from newsift.cli.options import JSON, PATH
from newsift.cli.output import print_fields, print_json, table
from newsift.operations.capacity import BURST_S, TARGET_LOAD, Costs, LoadBurst, Plan, read_costs
from newsift.operations.capacity import plan_capacity as plan_for

HEADER = (
    "posts/s", "seeds", "partitions", "workers", "threads", "cores", "GB", "in MB/s", "out MB/s",
    "start CPU s", "lag", "drained in",
)  # fmt: skip


@click.command()
@click.option("--rate", "rates", metavar="POSTS_PER_S", type=float, multiple=True, required=True,
              help="Posts a second. May be repeated.")  # fmt: skip
@click.option("--seeds", "seeds", metavar="N", type=int, multiple=True, required=True,
              help="Seeds. May be repeated.")  # fmt: skip
@click.option("--share", type=float,
              help="Share of the posts that match; by default that of the costs.")  # fmt: skip
@click.option(
    "--burst", "factor", metavar="FACTOR", type=float,
    help=f"A burst of so many times the rate, for {BURST_S // 60} minutes.",
)  # fmt: skip
@click.option(
    "--drain",
    metavar="SECONDS",
    type=float,
    help="Plan for no waiting post this many seconds after the burst.",
)
@click.option(
    "--costs",
    "file",
    metavar="FILE",
    type=PATH,
    help="A file of `newsift bench costs --out`; by default the costs that ship.",
)
@JSON
def plan(
    rates: Sequence[float], seeds: Sequence[int], share: float | None, factor: float | None,
    drain: float | None, file: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Plan partitions, workers, cores, memory and network for a stream.

    Several rates or numbers of seeds give a table, a row for each combination.
    """
    if drain is not None and factor is None:
        raise click.UsageError("--drain: there is no burst to drain; give --burst FACTOR as well")
    costs = read_costs(file)
    if share is not None:
        costs = costs.with_share(share)
    burst = None if factor is None else LoadBurst(factor, drain)
    plans = [plan_for(costs, rate, count, burst) for rate, count in product(rates, seeds)]
    if as_json:
        print_json(msgspec.to_builtins(plan) for plan in plans)
    elif len(plans) == 1:
        print_plan(plans[0], costs, factor)
    else:
        table(HEADER, [table_row(plan) for plan in plans])


def print_plan(plan: Plan, costs: Costs, factor: float | None) -> None:
    lines = {
        "partitions": f"{plan.partitions:,} of the topic of posts",
        "workers": f"{plan.workers:,}, each with model.threads: {plan.threads} and up to "
        f"{plan.worker_rate:,.0f} posts/s, of which {TARGET_LOAD:.0%} are used",
        "cores": f"{plan.cores:,}; {plan.cpu_us:,.1f} µs a post under full load",
        "memory": f"{plan.memory_mb:,} MB a worker, {plan.memory_total_mb:,} MB together",
        "network": f"posts {plan.network_in_mb_s:,.2f} MB/s ({plan.network_in_unpacked_mb_s:,.2f} "
        f"unpacked), matches {plan.network_out_mb_s:,.2f} MB/s",
        "matches": f"{plan.matches_s:,.1f}/s, if {costs.share:.0%} of the posts match",
        "start": f"{plan.start_cpu_s:,.1f} CPU s of each worker",
    }
    if plan.burst is not None:
        lines["burst"] = (
            f"{factor:g} × the rate for {BURST_S // 60} min; at its end {plan.burst.lag:,.0f} "
            f"posts wait, at most {plan.burst.delay_s:,.0f} s; done {plan.burst.drain_s:,.0f} s "
            "later"
        )
    lines["costs"] = f"{costs.machine}; {costs.date}; {costs.posts}"
    print_fields(lines)


def table_row(plan: Plan) -> list[str]:
    burst = plan.burst
    return [
        f"{plan.rate:,g}" if plan.rate < 1 else f"{plan.rate:,.0f}",
        f"{plan.seeds:,}",
        f"{plan.partitions:,}",
        f"{plan.workers:,}",
        f"{plan.threads}",
        f"{plan.cores:,}",
        f"{plan.memory_total_mb / 1e3:,.1f}",
        f"{plan.network_in_mb_s:,.2f}",
        f"{plan.network_out_mb_s:,.2f}",
        f"{plan.start_cpu_s:,.0f}",
        f"{burst.lag:,.0f}" if burst else "",
        f"{burst.drain_s:,.0f} s" if burst else "",
    ]
