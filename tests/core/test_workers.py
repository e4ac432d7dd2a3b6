"""One function over many jobs, by several processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from mixseg.core.errors import MixsegError
from mixseg.core.workers import run_all
from refusals import refused

SCRIPT = """
import math
import os
import sys
from pathlib import Path

from mixseg.core.workers import run_all

Path(sys.argv[1], str(os.getpid())).touch()
spec = __spec__
found = run_all(math.sqrt, [1, 4, 9, 16, 25, 36], names=list("abcdef"), label="roots", workers=2)
assert found == [1, 2, 3, 4, 5, 6]
assert __file__ == sys.argv[0]
assert __spec__ is spec
"""


@pytest.mark.parametrize("as_module", [False, True])
def test_workers_do_not_run_again_what_the_process_was_started_with(tmp_path, as_module):
    script, began = tmp_path / "unguarded.py", tmp_path / "began"
    script.write_text(SCRIPT)
    began.mkdir()
    how = ["-m", "unguarded"] if as_module else [str(script)]
    done = subprocess.run(
        [sys.executable, *how, str(began)], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(list(began.iterdir())) == 1


def divided(by: int) -> Path:
    """Something that fails for one of the jobs."""
    if not by:
        raise MixsegError("The scan b cannot be read: replace it.", "broken-file", case="b")
    return Path(str(12 // by))


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_an_error_as_it_was(workers):
    assert run_all(divided, [4, 3, 2, 1], names=list("abcd"), label="x", workers=workers) == [
        *map(Path, "346"),
        Path("12"),
    ]
    with refused("broken-file", case="b") as caught:
        run_all(divided, [1, 0, 2], names=list("abc"), label="x", workers=workers)
    assert str(caught.value) == "The scan b cannot be read: replace it."
