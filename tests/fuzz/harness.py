"""Damage files by a seed and read them in worker processes that may die: `make fuzz N=10000`.

A process that has imported everything forks a worker, which does case after case within limits of memory and time; when
one ends it, the next worker goes on behind it. Counts are printed by entry point and kind of outcome.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import entry_points  # noqa: E402
import material  # noqa: E402
import mutations  # noqa: E402

from mixseg.core.errors import NO_LETTER, MixsegError  # noqa: E402

SECONDS = 10
VERB_SECONDS = 60
"""For verbs, which train or draw."""
MEMORY = 1 << 31
"""Bytes that a worker may have beyond what it has when it begins."""
FOUND = HERE / "found.jsonl"
"""Cases that once failed: each is a test from then on."""
TABLES = ("labels-unsure",)
"""Refusals that list scans, a line each."""
GOOD = ("refused", "the same", "read", "elsewhere")


class Case(NamedTuple):
    """What is damaged, how, and the seed of it."""

    entry: str
    mutation: str
    file: str
    seed: int


class Outcome(NamedTuple):
    """What came of a case: one of ``GOOD``, or why it failed."""

    kind: str
    detail: str = ""


def cases(root, count, seed, only="", *, verbs=True):
    """The first ``count`` cases of a seed."""
    rng = Random(seed)
    names = [name for name, each in entry_points.ENTRIES.items() if only in name and (verbs or each.weight > 1)]
    weights = [entry_points.ENTRIES[name].weight for name in names]
    files = {name: files_of(root, name) for name in names}
    for number in range(count):
        name = rng.choices(names, weights)[0]
        file = rng.choice(files[name])
        yield Case(name, rng.choice(mutations.fitting(file)), file, number)


def files_of(root, name):
    entry = entry_points.ENTRIES[name]
    if (root / entry.needs).is_file():
        return list(entry.files)
    there = root / entry.needs
    found = {str(path.relative_to(there)) for pattern in entry.files for path in there.glob(pattern) if path.is_file()}
    return sorted(path for path in found if not Path(path).name.startswith("."))


def prepared(root, folder, name):
    """The files of an entry, to be damaged."""
    source = root / entry_points.ENTRIES[name].needs
    if source.is_file():
        folder.mkdir()
        shutil.copy(source, folder)
    else:
        shutil.copytree(
            source, folder, ignore=shutil.ignore_patterns("images", "store", "own") if source == root else None
        )
    return folder


def digests(root, scratch):
    """What each entry with a checksum says of its files as they are."""
    return {
        name: entry.read(prepared(root, scratch / f"whole {name}", name))
        for name, entry in entry_points.ENTRIES.items()
        if entry.checksum
    }


def one(case, root, scratch, whole):
    """Damage and read, in this process."""
    entry, mutation = entry_points.ENTRIES[case.entry], mutations.MUTATIONS[case.mutation]
    folder = prepared(root, scratch / "case", case.entry)
    path = folder / case.file
    if not path.is_file():  # of a layout that nobody writes any more
        return Outcome("elsewhere")
    before = path.read_bytes()
    path.unlink()
    after = mutation.change(before, Random(f"{case}"))
    path.write_bytes(after)
    try:
        found = entry.read(folder)
    except MixsegError as error:
        return judged(error, folder)
    except entry_points.FailedVerbError as error:
        return Outcome("verb failed", str(error))
    except MemoryError:
        return Outcome("memory error", traceback.format_exc())
    except BaseException:
        return Outcome("traceback", traceback.format_exc())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if found is None or after == before:
        return Outcome("read")
    if found == whole.get(case.entry):
        return Outcome("the same")
    if entry.checksum and not mutation.keeps_checksum and not in_the_header(case, before, after):
        return Outcome("silently wrong", f"{found}")
    return Outcome("read")


def in_the_header(case, before, after):
    """Whether damage is in the plain text before the voxels, which no format gives a checksum."""
    for suffix, end in ((".nrrd", b"\n\n"), (".mha", b"LOCAL\n")):
        if case.file.endswith(suffix):
            head, _, rest = before.partition(end)
            changed, _, others = after.partition(end)
            return head != changed or (len(others) >= len(rest) and others.startswith(rest))
    return False


def judged(error, folder):
    """Of a refusal: that it is one line, and names the file."""
    sentence = str(error)
    if NO_LETTER.search(sentence) and error.code not in TABLES:
        return Outcome("more than a line", sentence)
    named = [error.fields.get(key) for key in ("file", "folder", "where", "other")]
    if str(folder) not in sentence and not any(str(folder) in str(each) for each in named):
        return Outcome("names no file", f"{error.code}: {sentence}")
    return Outcome("refused", error.code)


def work(todo, root, whole, out):
    """Cases in this process, a line each; what one leaves behind is its own."""
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-"))
    warnings.simplefilter("ignore")
    try:
        for number, case in todo:
            shutil.rmtree(scratch / "case", ignore_errors=True)
            signal.alarm(VERB_SECONDS if entry_points.ENTRIES[case.entry].weight == 1 else SECONDS)
            os.write(out, f"{number}\n".encode())
            outcome = one(case, root, scratch, whole)
            signal.alarm(0)
            os.write(out, (json.dumps([number, *outcome]) + "\n").encode())
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run(todo, root, whole):
    """Case and outcome of each, whatever becomes of the workers."""
    left = list(enumerate(todo))
    while left:
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(reading)
            try:
                work(left, root, whole, writing)
            finally:
                os._exit(0)
        os.close(writing)
        begun = None
        with os.fdopen(reading) as lines:
            for line in lines:
                said = json.loads(line)
                if isinstance(said, int):
                    begun = said
                else:
                    yield todo[said[0]], Outcome(*said[1:])
                    begun = None
                    left = [each for each in left if each[0] > said[0]]
        _, status = os.waitpid(pid, 0)
        if begun is None and left:
            raise SystemExit(f"a worker ended before it began: {status}")
        if begun is not None:
            ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
            yield todo[begun], Outcome("hang" if ended == signal.SIGALRM else "dead process", f"signal {ended}")
            left = [each for each in left if each[0] > begun]


def known():
    """The cases that once failed."""
    return [Case(**json.loads(line)) for line in FOUND.read_text().splitlines()] if FOUND.exists() else []


def table(counts):
    """The counts by entry point and kind."""
    kinds = sorted({kind for _, kind in counts})
    width = max(len(entry) for entry, _ in counts)
    lines = [f"{'':{width}}  " + "  ".join(kinds)]
    for entry in sorted({entry for entry, _ in counts}):
        lines.append(f"{entry:{width}}  " + "  ".join(f"{counts[entry, kind]:{len(kind)}}" for kind in kinds))
    total = Counter()
    for (_, kind), number in counts.items():
        total[kind] += number
    return "\n".join([*lines, f"{'all':{width}}  " + "  ".join(f"{total[kind]:{len(kind)}}" for kind in kinds)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="entries whose name holds this")
    parser.add_argument("--readers", action="store_true", help="no verbs, which take seconds each")
    parser.add_argument("--skip", type=int, default=0)
    parser.add_argument("--material", type=Path, help="where valid files are kept between calls")
    parser.add_argument("--save", action="store_true", help="make failures tests")
    given = parser.parse_args()
    root = given.material or Path(tempfile.mkdtemp(prefix="fuzz-material-"))
    if not (root / "run").exists():
        material.make(root)
    scratch = Path(tempfile.mkdtemp(prefix="fuzz-whole-"))
    whole = digests(root, scratch)
    shutil.rmtree(scratch)
    counts, failures = Counter(), []
    todo = list(cases(root, given.count, given.seed, given.only, verbs=not given.readers))[given.skip :]
    for number, (case, outcome) in enumerate(run(todo, root, whole), start=1):
        counts[case.entry, outcome.kind] += 1
        if outcome.kind not in GOOD:
            failures.append(case)
            print(f"{outcome.kind}: {case}\n{outcome.detail}\n", flush=True)
        if number % 500 == 0:
            print(f"{number} of {len(todo)}, {len(failures)} failed", flush=True)
    print(table(counts))
    if given.save:
        with FOUND.open("a") as file:
            file.writelines(json.dumps(case._asdict()) + "\n" for case in failures)
    return bool(failures)


if __name__ == "__main__":
    raise SystemExit(main())
