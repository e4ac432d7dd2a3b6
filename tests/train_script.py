"""A training as a user's script has it, for the tests that start, kill and multiply processes.

``python train_script.py OUT '{"devices": 2, "data": {...}, "config": {...}}'``
"""

import atexit
import json
import sys
import warnings
from pathlib import Path

from torch import distributed

from made_runs import config, data
from mixseg.core.errors import MixsegError
from mixseg.runs.device import Hardware
from mixseg.training import loop
from mixseg.training.train import train


def tell_of_a_group() -> None:
    """A process that ends as a member of a group aborts now and then, and takes the others with it."""
    if distributed.is_initialized():
        print("ends as a member of a group", file=sys.stderr)


if __name__ == "__main__":
    warnings.simplefilter("error")
    atexit.register(tell_of_a_group)
    asked = json.loads(sys.argv[2])
    loop.SECONDS_BETWEEN_CHECKPOINTS = asked.get("seconds_between_checkpoints", 60.0)
    try:
        train(
            config(**asked.get("config", {})),
            data(**asked.get("data", {})),
            Path(sys.argv[1]),
            hardware=Hardware("cpu", devices=asked.get("devices", 1)),
        )
    except MixsegError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    print("the script goes on")
