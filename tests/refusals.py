"""What tests ask of an error: its code and its fields; docs/reference/messages.md keeps the sentences."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mixseg.core.errors import MixsegError


@contextmanager
def refused(code: str, **fields: object) -> Iterator[pytest.ExceptionInfo[MixsegError]]:
    """Inside, a ``MixsegError`` of this code is raised whose fields, where they are named here, have these values."""
    with pytest.raises(MixsegError) as caught:
        yield caught
    error = caught.value
    assert error.code == code, f"{error.code!r}: {error}"
    assert {name: error.fields.get(name) for name in fields} == fields, str(error)
