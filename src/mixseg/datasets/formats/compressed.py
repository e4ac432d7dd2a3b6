"""Compressed bytes, read to their end: it is there that gzip and zlib keep their checksums. The home of isal."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from isal import isal_zlib

from mixseg.core.types import Bytes

CHUNK = 1 << 15
"""Compressed bytes at a time: they unfold to 32 MB at most."""
ANY_ZLIB = 47
"""zlib's word for either of its two containers, zlib and gzip, with the checksum of each."""
EXPANSION = 1032
"""How many bytes one of deflate's can at most become."""
PADDING = 1 << 16
"""So many bytes may follow the voxels: whoever adds more hides something, or says too little in the header."""


class Readable(Protocol):
    """What there is to read from."""

    def read(self, size: int = ..., /) -> bytes:
        """Up to so many bytes; none at the end."""


def inflated(file: Readable, size: int) -> Bytes:
    """The ``size`` bytes that the rest of ``file`` unfolds to; of several gzip members, one after the other.

    Raises:
        ValueError: If there are fewer, or many more, or the end with its checksum is missing.
        isal.igzip_lib.IsalError: If a checksum is wrong, or something else that the decoder notices.
    """
    result = np.empty(size, np.uint8)  # the system gives memory as it is filled
    filled = 0
    decoder, ended = isal_zlib.decompressobj(ANY_ZLIB), False
    chunk = file.read(CHUNK)
    while chunk:
        data = np.frombuffer(decoder.decompress(chunk), np.uint8)
        kept = data[: max(0, size - filled)]
        result[filled : filled + len(kept)] = kept
        filled += len(data)
        if filled > size + PADDING:
            raise ValueError("there is far more than the header says")
        ended = decoder.eof
        chunk = decoder.unused_data or file.read(CHUNK)
        if ended:
            chunk = chunk.lstrip(b"\0")  # tapes pad
            decoder = isal_zlib.decompressobj(ANY_ZLIB)
    if filled < size or not ended:
        raise ValueError(f"{filled} bytes instead of {size}, or no checksum after them")
    return result


def beginning(file: Readable, size: int) -> bytes:
    """Up to ``size`` bytes that ``file`` begins with, unfolded; its checksum is not compared."""
    decoder, found = isal_zlib.decompressobj(ANY_ZLIB), b""
    while len(found) < size and not decoder.eof and (chunk := file.read(CHUNK)):
        found += decoder.decompress(chunk, size - len(found))
    return found
