"""The verb about experiments: a table of the paper, or one of ours, from its name; or a comparison of one's own."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro import conf

from mixseg.cli.flags import AS_FOUND, Device, File, Labels, Settings
from mixseg.core.errors import SOME_FAILED, UsageError
from mixseg.core.messages import result, say

if TYPE_CHECKING:
    from mixseg.experiments.comparison import Comparison
    from mixseg.experiments.executors.base import Resources
    from mixseg.experiments.plan import Plan
    from mixseg.experiments.planner import Request
    from mixseg.experiments.scheduler import Status

MANY = 100
"""Runs that are started without a question; the largest table of the paper has 72."""

Numbers = Annotated[tuple[int, ...] | None, conf.arg(metavar="N [N ...]", help_behavior_hint="")]
Names = Annotated[tuple[str, ...] | None, conf.arg(metavar="NAME [NAME ...]", help_behavior_hint="")]


@dataclass(frozen=True)
class PartFlags:
    """Which part of an experiment, and how its runs are trained.

    Attributes:
        quick: Try it: the preset quick, Set-3, one seed, few steps.
        seeds: If not given, 0 1 2.
        sets: The N of Set-N, in place of the experiment's own; 3 for a comparison of your own.
        methods: Of a named experiment only these rows, by their names or those of their methods; without a name, the
            methods to compare.
        preset: Where settings come from; if not given, paper, and quick for the built-in data.
        settings: One config key for all runs, with a value in JSON; may be repeated. What the experiment varies wins.
            Without a name, several values after commas are compared: lr=1e-3,3e-4.
        split: Who is train, val and test, if that is not beside the scans.
        test: Score the test scans, once, and report them; else validation scans. The built-in ones are always scored.
        yes: Do not ask whether so many runs are meant.
        verify: A file of published runs, such as docs/results/runs.jsonl: say of every run whether it lies where
            another training of the same settings would.
    """

    quick: bool = False
    seeds: Numbers = None
    sets: Numbers = None
    methods: Names = None
    preset: Annotated[str | None, conf.arg(metavar="NAME", help_behavior_hint="")] = None
    settings: Annotated[Settings, conf.arg(name="set", metavar="KEY=VALUE")] = ()
    split: File = None
    test: bool = False
    yes: bool = False
    verify: File = None

    def request(self, own: Comparison | None = None) -> Request:
        """The same for the planner; of a comparison of one's own, the flags win over its file."""
        from mixseg.cli.flags import config_settings, split_grid
        from mixseg.experiments.planner import Request
        from mixseg.runs.typed_json import merged

        for flag, values in (("--seeds", self.seeds), ("--sets", self.sets), ("--methods", self.methods)):
            if values == ():
                raise UsageError(
                    f"{flag} has no value: give at least one, or leave {flag} out.", "flag-without-value", flag=flag
                )
        single, grid = split_grid(self.settings)
        if grid and (own is None or own.grid != grid):
            key = next(iter(grid))
            raise UsageError(
                f"--set {key} has several values: leave the name of the experiment out to compare them.",
                "several-values",
                flag="--set",
                key=key,
            )
        settings = config_settings(single)
        if self.split is not None:
            settings["split"] = str(self.split.resolve())
        given = Request(self.quick, self.preset, self.seeds, self.sets, self.methods or (), settings, self.test)
        if own is None:
            return given
        return replace(
            given,
            preset=given.preset or own.preset,
            seeds=given.seeds or own.seeds,
            sets=given.sets or own.sets,
            settings=merged(own.settings, given.settings),
        )

    def comparison(self) -> Comparison | None:
        """What is compared without a name, or None if nothing is."""
        from mixseg.cli.flags import split_grid

        _, grid = split_grid(self.settings)
        if not self.methods and not grid:
            return None
        from mixseg.experiments.comparison import from_grid

        words = ["--methods", *self.methods] if self.methods else []
        for assignment in self.settings:
            words += ["--set", assignment] if assignment.partition("=")[0] in grid else []
        return from_grid(self.methods or ("kl-ent",), grid, words)


@dataclass(frozen=True)
class ResourceFlags:
    """Where an experiment is computed.

    Attributes:
        on: Where: processes on this machine, one per GPU or sharing the cores; tasks of Ray; SLURM job arrays; or what
            SLURM would get, on this machine.
        workers: Runs at once, in place of what the executor suggests.
        device: auto takes the GPU if there is one.
        ray_address: With --on ray, of a cluster to join; if not given, Ray is started here.
        slurm: With --on slurm, one option of sbatch as key=value, such as partition=gpu; may be repeated.
    """

    on: Literal["local", "ray", "slurm", "submitit-local"] = "local"
    workers: Annotated[int | None, conf.arg(metavar="N", help_behavior_hint="")] = None
    device: Device = "auto"
    ray_address: Annotated[str, conf.arg(metavar="ADDRESS", help_behavior_hint="")] = ""
    slurm: Settings = ()

    def resources(self, out: Path) -> Resources:
        """The same for the executor."""
        from mixseg.cli.flags import parse
        from mixseg.experiments.executors.base import Resources

        if self.workers is not None and self.workers < 1:
            raise UsageError(
                f"--workers is {self.workers}: give at least one.",
                "invalid-value",
                flag="--workers",
                value=self.workers,
            )
        # submitit-local tries what SLURM would get, whatever its options.
        if self.slurm and self.on not in ("slurm", "submitit-local"):
            raise UsageError(
                f"--slurm says nothing to --on {self.on}: add --on slurm, or leave --slurm out.",
                "flag-not-applicable",
                flag="--slurm",
            )
        if self.ray_address and self.on != "ray":
            raise UsageError(
                f"--ray-address says nothing to --on {self.on}: add --on ray, or leave it out.",
                "flag-not-applicable",
                flag="--ray-address",
            )
        slurm = parse(self.slurm, "--slurm", such_as="partition=gpu")
        return Resources(out.resolve(), self.device, self.workers, self.ray_address, slurm)


Part = Annotated[PartFlags, conf.OmitArgPrefixes, conf.arg(help="Which part of it, and how its runs are trained.")]
Where = Annotated[ResourceFlags, conf.OmitArgPrefixes, conf.arg(help="Where it is computed.")]
WHOLE, HERE = PartFlags(), ResourceFlags()


def experiment(
    name: Annotated[str, conf.Positional, conf.arg(metavar="NAME|FILE.toml", help_behavior_hint="")] = "",
    *,
    dataset: Annotated[str, conf.arg(metavar="phantom|FOLDER")] = "phantom",
    out: Annotated[Path | None, conf.arg(aliases=["-o", "--output"], metavar="FOLDER", help_behavior_hint="")] = None,
    list: bool = False,  # noqa: A002 - the flag
    part: Part = WHOLE,
    where: Where = HERE,
    labels: Labels = AS_FOUND,
) -> int:
    """Run a table of runs: one of the paper, or a comparison of your own.

    $ mixseg experiment --methods lower-bound kl-ent --set lr=1e-3,3e-4 --seeds 0 1 2 --dataset SCANS

    compares every method at every value, with tests, and tables in LaTeX, CSV, Markdown and HTML.

    $ mixseg experiment mine.toml --dataset SCANS

    does so for what a file describes.

    $ mixseg experiment --list

    names the tables of the paper, and some of ours.

    $ mixseg experiment main --dataset phantom --quick

    tries one on built-in data, with small networks, in minutes on a CPU.

    $ mixseg experiment main --dataset ACDC --split splits.json --test --out acdc

    is the paper's main table. Stopped or killed, the same command goes on: what is finished is not repeated, also not
    what another experiment in the same --out has trained.

    Args:
        name: Of the experiment, or a TOML file; without one, --methods and --set say what is compared.
        dataset: A folder of scans in any known layout, in which those of ACDC and of the 2018 atrium challenge get the
            paper's protocol; or phantom, the built-in data.
        out: For the experiment, its runs and their data; experiments/DATASET if not given.
        list: Name the experiments.
        part: Which part of it, and how its runs are trained.
        where: Where it is computed.
        labels: What the ids of label maps mean.
    """
    own = None if list else _own(name, part)
    if list or not (name or own):
        _print_names()
        return 0
    from mixseg.cli.live_table import LiveTable
    from mixseg.experiments.run_experiment import run_experiment

    out = out or Path("experiments") / Path(dataset).resolve().name
    request, resources = part.request(own), where.resources(out)
    if own and not part.yes:
        _check_meant(own, request)
    before = _plan_in(out / (own.name if own else name))
    with LiveTable() as table:
        folder, status = run_experiment(
            own.experiment() if own else name,
            dataset,
            out,
            request,
            on=where.on,
            resources=resources,
            flags=labels,
            show=table.show,
        )
    _print_results(folder)
    _say_hidden(before, folder)
    strange = _verify(folder, part.verify) if part.verify else 0
    return _failures(status) or strange


def _verify(folder: Path, published: Path) -> int:
    """Print how the runs stand beside published ones; the exit code says whether any lies outside."""
    from mixseg.cli.printing import emit_table, print_table
    from mixseg.report.experiment.results import read_results
    from mixseg.report.experiment.verify import OUTSIDE, verified_table, verify

    found = verify(read_results(folder), published)
    table = verified_table(found)
    for group in table.groups:
        print_table(group.lines, table.head, title=f"\n{table.title}: {published}")
        emit_table(group.lines, table.head, table=table.title)
    say(f"\n{table.reading}")
    return SOME_FAILED if any(each.standing == OUTSIDE for each in found) else 0


def _own(name: str, part: PartFlags) -> Comparison | None:
    """The comparison of one's own that a command line asks for, or None."""
    if not name.endswith(".toml"):
        return None if name else part.comparison()
    from mixseg.experiments.comparison import read_comparison

    return read_comparison(Path(name))


def _plan_in(folder: Path) -> Plan | None:
    """The plan of the table that was here before, if there was one."""
    from mixseg.experiments.plan import is_experiment, read_plan

    return read_plan(folder) if is_experiment(folder) else None


def _say_hidden(before: Plan | None, folder: Path) -> None:
    """Which runs of the table that was here before the new one does not show."""
    from mixseg.experiments.plan import RUNS, left_out, read_plan

    if before and (hidden := left_out(before, read_plan(folder))):
        what = "1 run" if hidden == 1 else f"{hidden} runs"
        verbs = "is not in this one and stays" if hidden == 1 else "are not in this one and stay"
        where = folder.parent / RUNS
        say(f"\n{what} of the table that was here before {verbs} in {where}: ask for all to see them together.")


def _failures(status: Status | None) -> int:
    """The exit code; what failed is told."""
    from mixseg.cli.printing import print_list

    if status is None or not status.sentences:
        return 0
    print_list([f"{run}: {sentence}" for run, sentence in status.sentences.items()], "Failed:")
    return SOME_FAILED


def _check_meant(own: Comparison, request: Request) -> None:
    """Nothing, or a question, and where nobody can answer an error, about more runs than a table has rows for."""
    from mixseg.experiments.comparison import SETS
    from mixseg.experiments.planner import seeds_of

    runs = own.count * len(seeds_of(request)) * len(request.sets or SETS)
    if runs <= MANY:
        return
    if sys.stdin.isatty():
        sys.stderr.write(f"These are {runs:,} runs ({own.count:,} rows). Start them? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() in ("y", "yes"):
            return
    raise UsageError(
        f"These are {runs:,} runs ({own.count:,} rows), none of which was started: add --yes if all are meant, or "
        "name fewer values, seeds or methods.",
        "many-runs",
        count=runs,
    )


def _print_names() -> None:
    """The experiments, a line each."""
    from mixseg.cli.printing import print_table
    from mixseg.experiments.paper import EXPERIMENTS

    say("mixseg experiment NAME --dataset phantom|FOLDER, where NAME is a TOML file of your own, or one of\n")
    print_table([(each.name, f"{each.title}: {each.about}") for each in EXPERIMENTS.values()])
    for each in EXPERIMENTS.values():
        result({"name": each.name, "title": each.title, "about": each.about})


def _print_results(folder: Path) -> None:
    """The table of what was found; the page about it."""
    from mixseg.cli.printing import emit_table, print_table
    from mixseg.report.experiment.page import lead
    from mixseg.report.experiment.report import write_experiment
    from mixseg.report.experiment.results import read_results
    from mixseg.report.experiment.tables import score_table
    from mixseg.report.experiment.tables_complexity import complexity_table
    from mixseg.report.experiment.tables_tests import paired_tests

    results = read_results(folder)
    table = complexity_table(results) if results.plan.measured else score_table(results)
    for group in table.groups:
        say("")
        print_table(group.lines, table.head, title=group.heading)
        emit_table(group.lines, table.head, group=group.heading)
    say(f"\n{table.reading}")
    if not results.plan.measured:
        say(f"\n{lead(results, paired_tests(results))}")
    say(f"\nWith figures and tests: {write_experiment(folder)}")
