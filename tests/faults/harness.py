"""Break a command at a random moment, repeat it, and compare with an undisturbed one: `make faults`.

A process that has imported everything forks each command. It is killed, or the disk is full, or writes fail, or another
writer begins beside it. Then the same command is repeated until it is done. Nothing may be lost, nothing left over.
"""

import argparse
import errno
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "fuzz"), str(HERE.parent)]

PRELOADED = "MIXSEG_FAULTS_PRELOADED"
COMMANDS = {
    "train": ("train", "@scans", "--out", "@out/run", "--set", "preset=quick", "--set", "steps=6", "--set",
              "validate_every=2", "--set", "width=4", "--set", "depth=2", "-q"),
    "prepare": ("prepare", "@scans", "@out/store", "--dims", "2", "--size", "32", "32", "--workers", "1", "-q"),
    "pack": ("prepare", "@scans", "@out/scans.zip", "--pack", "--workers", "1", "-q"),
    "predict": ("predict", "@run", "-i", "@scans/imagesTr", "-o", "@out/predictions", "-q"),
    "evaluate": ("evaluate", "-i", "@maps", "-r", "@scans/labelsTr", "-o", "@out/scores", "-q"),
}  # fmt: skip
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FAULTS = (*(each.name for each in SIGNALS), "full disk", "failing writes", "two writers")
GOOD_CODES = (0, 3, 4, 130, 143)
VARYING = ("seconds", "training_seconds", "phases", "command", "lr_seconds")
"""Of JSON: what says how long something took, or how it was called."""
TRIES = 4
SECONDS = 120


def start(name, places, out):
    """The command in a process of its own, saying nothing."""
    words = [word.replace("@out", str(out)) for word in COMMANDS[name]]
    for key, place in places.items():
        words = [word.replace(f"@{key}", str(place)) for word in words]
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        for stream in (0, 1):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
        os.dup2(os.open(out.parent / "said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        from mixseg.cli import main

        code = main(words)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(code or 0)
    return pid


def end(pid, seconds=SECONDS):
    """The exit code, or the negative number of the signal."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hang"


def content(out):
    """What lies there, without what differs from run to run; and what should not lie there."""
    found, litter = {}, []
    for path in sorted(path for path in out.rglob("*") if path.is_file()):
        name = str(path.relative_to(out))
        if "writing-" in name or name.endswith("-old"):
            litter.append(name)
        elif path.suffix == ".pt":
            import torch

            held = torch.load(path, weights_only=True)
            tensors = sorted((key, each.numpy().tobytes()) for key, each in held["method"].items())
            found[name] = hashlib.sha256(repr(tensors).encode()).hexdigest() + str(held["step"])
        elif path.suffix in (".json", ".jsonl"):
            lines = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
            found[name] = [plain(json.loads(line), out) for line in lines]
        elif path.suffix in (".npz",):
            import numpy as np

            with np.load(path) as held:
                found[name] = {key: hashlib.sha256(held[key].tobytes()).hexdigest() for key in held.files}
        elif path.name != ".lock" and path.suffix != ".html":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found, litter


def plain(value, out):
    if isinstance(value, dict):
        return {key: plain(each, out) for key, each in value.items() if key not in VARYING}
    if isinstance(value, list):
        return [plain(each, out) for each in value]
    return value.replace(str(out), "@out") if isinstance(value, str) else value


def disturb(fault, name, places, out, rng, usual):
    """The command, broken once; its exit code."""
    if fault == "full disk":
        return on_small_disk(name, places, out, rng, usual)
    if fault == "failing writes":
        os.environ |= {"FAULT_PATH": str(out), "FAULT_BYTES": str(rng.randrange(usual["bytes"])),
                       "FAULT_ERRNO": str(rng.choice([errno.ENOSPC, errno.EIO, errno.EDQUOT]))}  # fmt: skip
        code = end(start(name, places, out))
        os.environ["FAULT_PATH"] = ""
        return code
    pid = start(name, places, out)
    time.sleep(rng.uniform(0, usual["seconds"]))
    if fault == "two writers":
        other = start(name, places, out)
        return max(end(pid), end(other), key=lambda code: code not in GOOD_CODES)
    os.kill(pid, signal.Signals[fault])
    return end(pid)


def on_small_disk(name, places, out, rng, usual):
    """On a tmpfs that is too small, which then grows."""
    out.mkdir()
    pages = max(1, rng.randrange(usual["bytes"]) // 4096)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={4 * pages}k", "tmpfs", str(out)], check=True)
    try:
        code = end(start(name, places, out))
        subprocess.run(["mount", "-o", "remount,size=1g", str(out)], check=True)
        for _ in range(TRIES):
            if code == 0:
                break
            code = end(start(name, places, out))
        shutil.copytree(out, out.parent / "kept")
    finally:
        subprocess.run(["umount", str(out)], check=True)
    out.rmdir()
    (out.parent / "kept").rename(out)
    return code


def one(name, fault, seed, places, usual):
    """What came of it: "as undisturbed", or what is wrong."""
    rng = Random(f"{name} {fault} {seed}")
    folder = Path(tempfile.mkdtemp(prefix="faults-"))
    out = folder / "out"
    try:
        code = disturb(fault, name, places, out, rng, usual)
        said = (folder / "said.txt").read_text(errors="replace")
        if "Traceback" in said or (code not in GOOD_CODES and not (isinstance(code, int) and code < 0)):
            return f"ended with {code}: {said[-400:]}"
        for _ in range(TRIES):
            code = end(start(name, places, out))
            if code == 0:
                break
        if code:
            return f"repeated, ended with {code}: {(folder / 'said.txt').read_text(errors='replace')[-400:]}"
        found, litter = content(out)
        if litter:
            return f"litter: {litter}"
        differing = [key for key in {*found, *usual["content"]} if found.get(key) != usual["content"].get(key)]
        return f"differs: {sorted(differing)[:5]}" if differing else "as undisturbed"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def undisturbed(name, places):
    folder = Path(tempfile.mkdtemp(prefix="faults-usual-"))
    began = time.monotonic()
    code = end(start(name, places, folder / "out"))
    assert code == 0, (name, code, (folder / "said.txt").read_text())
    seconds = time.monotonic() - began
    assert end(start(name, places, folder / "out")) == 0  # a repeated command changes nothing that is compared
    found, litter = content(folder / "out")
    assert not litter, litter
    size = sum(path.stat().st_size for path in (folder / "out").rglob("*") if path.is_file())
    shutil.rmtree(folder)
    return {"seconds": seconds, "content": found, "bytes": size}


def preload():
    """This program again, with the library before it whose writes fail on demand."""
    library = Path(tempfile.mkdtemp(prefix="faults-")) / "failing.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, HERE / "failing.c", "-ldl"], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library), PRELOADED: "1", "OMP_NUM_THREADS": "1"}
    os.execve(sys.executable, [sys.executable, __file__, *sys.argv[1:]], environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--counts", type=Path, help="a file in which the counts of several sittings add up")
    parser.add_argument("--material", type=Path)
    given = parser.parse_args()
    if PRELOADED not in os.environ:
        preload()
    import material

    root = given.material or Path(tempfile.mkdtemp(prefix="faults-material-"))
    if not (root / "run").exists():
        material.make(root)
    places = {"scans": root / "scans", "run": root / "run", "maps": root / "predictions"}
    names = [name for name in COMMANDS if given.only in name]
    faults = [each for each in FAULTS if each != "full disk" or os.geteuid() == 0]
    usual = {name: undisturbed(name, places) for name in names}
    counts = Counter()
    for number in range(given.seed, given.seed + given.count):
        rng = Random(number)
        name, fault = rng.choice(names), rng.choice(faults)
        found = one(name, fault, number, places, usual[name])
        counts[f"{name}, {fault}: {found if found == 'as undisturbed' else 'WRONG'}"] += 1
        if found != "as undisturbed":
            print(f"{number} {name} {fault}: {found}\n", flush=True)
    print("\n".join(f"{count:5} {what}" for what, count in sorted(counts.items())))
    if given.counts:
        before = Counter(json.loads(given.counts.read_text())) if given.counts.exists() else Counter()
        given.counts.write_text(json.dumps(before + counts, indent=1))
    return any("WRONG" in what for what in counts)


if __name__ == "__main__":
    raise SystemExit(main())
