"""Wait for what another process does."""

import time


def wait_until(holds, *, seconds, every=0.02):
    """Until ``holds()``; a process that does not get there in so many seconds hangs."""
    until = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < until, "it does not get on"
        time.sleep(every)
