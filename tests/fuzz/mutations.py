"""Ways to damage a file, as bytes -> bytes, by the generator that each is given: the same seed, the same damage."""

import gzip
import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Callable
from random import Random
from typing import NamedTuple

NUMBERS = [
    "0",
    "-1",
    "1",
    "7",
    "65535",
    "2147483648",
    "-9223372036854775809",
    "1e308",
    "1e999",
    "nan",
    "-inf",
    "1" * 5000,
]
WORDS = [
    "",
    "x",
    "LIST",
    "../../etc/passwd",
    "%d%s%n",
    "raw",
    "gzip",
    "True",
    "none",
    "(1,2)",
    "\u00e4\u0416\U0001f600",
    "a" * 70000,
]
TEXT = (".json", ".jsonl", ".csv", ".txt")
HEADED = (".nrrd", ".seg.nrrd", ".nhdr", ".mha", ".mhd")
ZIPPED = (".zip", ".npz", ".pt")


class Mutation(NamedTuple):
    """A row of the table.

    Attributes:
        change: (content, generator) -> content.
        suffixes: Of the files that it is for; () is all.
        keeps_checksum: Whether it mends the checksums of the format, so that nobody can notice wrong values.
    """

    change: Callable[[bytes, Random], bytes]
    suffixes: tuple[str, ...] = ()
    keeps_checksum: bool = False


def bits(data, rng):
    changed = bytearray(data)
    for _ in range(4 if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def early_bits(data, rng):
    head = min(len(data), 2048)
    return bits(data[:head], rng) + data[head:]


def some_bytes(data, rng):
    changed = bytearray(data)
    for _ in range(rng.randrange(1, 17) if changed else 0):
        changed[rng.randrange(len(changed))] = rng.choice([0, 255, 127, 128, rng.randrange(256)])
    return bytes(changed)


def number_in_the_head(data, rng):
    at = rng.randrange(max(1, min(len(data), 600)))
    value = rng.choice([0, 1, -1, 2**15 - 1, -(2**15), 2**31 - 1, -(2**31), 2**40])
    packed = struct.pack("<q", value)[: rng.choice([1, 2, 4, 8])]
    return data[:at] + packed + data[at + len(packed) :]


def truncated(data, rng):
    return data[: rng.randrange(len(data) + 1)]


def tail_cut(data, rng):
    return data[: max(0, len(data) - rng.randrange(1, 9))]


def emptied(data, rng):
    return b""


def appended(data, rng):
    return data + rng.choice([bytes(100), rng.randbytes(100), data[:200], bytes(1 << 22)])


def zeroed(data, rng):
    start = rng.randrange(len(data) + 1)
    length = min(len(data) - start, rng.randrange(1, 4096))
    return data[:start] + bytes(length) + data[start + length :]


def doubled(data, rng):
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start : start + rng.randrange(1, 2000)] + data[start:]


def left_out(data, rng):
    start = rng.randrange(len(data) + 1)
    return data[:start] + data[start + rng.randrange(1, 500) :]


def another(data, rng):
    return rng.choice(
        [
            b"\x89PNG\r\n\x1a\n",
            b"PK\x03\x04",
            b"\x1f\x8b\x08",
            b"NRRD0004\n",
            b"\x89HDF\r\n\x1a\n",
            b"{}",
            b"[]",
            b"\x80\x04.",
        ]
    ) + rng.choice([b"", data])


def head_line(data, rng):
    lines = data.split(b"\n", 40)
    at = rng.randrange(min(len(lines), 24))
    line = lines[at].decode("latin-1")
    name = re.split(r":=|[:=]", line)[0]
    word = rng.choice([*NUMBERS, *WORDS])
    numbers = list(re.finditer(r"-?\d+(\.\d+)?", line))
    if numbers and rng.random() < 0.5:
        found = rng.choice(numbers)
        line = line[: found.start()] + word + line[found.end() :]
    else:
        sign = rng.choice([": ", " = ", ":="])
        line = rng.choice(["", line + " " + word, name + sign + word, word, line + "\n" + line, line[::-1]])
    lines[at] = line.encode("utf-8", "surrogatepass")
    if rng.random() < 0.2:
        rng.shuffle(lines[:20])
    return b"\n".join(lines)


def nifti_head(data, rng):
    """A number of the header, inside a stream whose checksum is right again."""
    packed = data[:2] == b"\x1f\x8b"
    try:
        content = bytearray(gzip.decompress(data) if packed else data)
    except (OSError, EOFError, zlib.error):
        return bits(data, rng)
    where, kind = rng.choice(
        [(40 + 2 * n, "h") for n in range(8)]
        + [
            (70, "h"),
            (72, "h"),
            (108, "f"),
            (112, "f"),
            (116, "f"),
            (0, "i"),
            (123, "b"),
            (252, "h"),
            (280, "f"),
            (76, "f"),
            (80, "f"),
            (348, "i"),
            (352, "i"),
        ]
    )
    values = {
        "h": [0, -1, 1, 2, 7, 16, 1536, 2304, 32767, -32768],
        "i": [0, 1, 348, 540, 2**31 - 1, -(2**31)],
        "b": [0, 3, 127, -1],
        "f": [0.0, -1.0, float("nan"), float("inf"), 1e30, 1e9, 352.0, 3.4e38],
    }
    struct.pack_into("<" + kind, content, where, rng.choice(values[kind]))
    return gzip.compress(bytes(content), mtime=0) if packed else bytes(content)


def bomb(data, rng):
    return data + gzip.compress(bytes(1 << 26), mtime=0) * rng.choice([1, 8])


ODD = [
    None,
    True,
    [],
    {},
    "",
    "x",
    0,
    -1,
    1e308,
    2**63,
    10**30,
    [1],
    {"a": 1},
    "../../x",
    "a\x00b",
    "\ud800",
    "a\nb",
    "n" * 5000,
    [[[[]]]],
]


def json_value(data, rng):
    try:
        content = json.loads(data)
    except ValueError:
        return bits(data, rng)
    places = []

    def walk(node):
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, child in list(items):
            places.append((node, key))
            walk(child)

    walk(content)
    for _ in range(rng.choice([1, 1, 2]) if places else 0):
        node, key = rng.choice(places)
        what = rng.random()
        if what < 0.2 and isinstance(node, dict):
            node.pop(key, None)
        elif what < 0.3 and isinstance(node, dict):
            node[rng.choice([*WORDS, "-1"])] = node.pop(key, None)
        elif what < 0.35 and isinstance(node, list):
            del node[key:]
        elif isinstance(node, dict) or key < len(node):
            node[key] = rng.choice(ODD)
    return json.dumps(rng.choice(ODD) if not places or rng.random() < 0.05 else content).encode()


def json_text(data, rng):
    text = data.decode("utf-8", "replace")
    numbers = list(re.finditer(r"-?\d+(\.\d+)?", text))
    names = list(re.finditer(r'"[^"]*":', text))
    choice = rng.randrange(7)
    if choice == 0 and numbers:
        found = rng.choice(numbers)
        text = (
            text[: found.start()]
            + rng.choice(["NaN", "Infinity", "1" * 5000, "1e99999", "-", "01", "0x1"])
            + text[found.end() :]
        )
    elif choice == 1 and names:
        found = rng.choice(names)
        text = text[: found.start()] + found[0] + " null, " + text[found.start() :]
    elif choice == 2:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(["[" * 100000, '{"a":' * 5000, ",", '"', "\\u12", "}", "//"]) + text[at:]
    elif choice == 3:
        text = rng.choice(["[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900, "null", "1", '"x"', "[]", "{}", ""])
    return {4: ("\ufeff" + text).encode(), 5: text.encode("utf-16"), 6: b"\xe4" + text.encode()}.get(
        choice, text.encode("utf-8", "surrogatepass")
    )


def json_line(data, rng):
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    lines[at] = rng.choice([json_value, json_text, bits])(lines[at], rng)
    return b"\n".join(lines)


def csv_cell(data, rng):
    lines = data.decode("utf-8", "replace").split("\n")
    at = rng.randrange(len(lines))
    cells = lines[at].split(",")
    choice = rng.randrange(6)
    if choice == 0:
        cells[rng.randrange(len(cells))] = rng.choice([*NUMBERS, *WORDS, '"', "a\x00b", '"a\nb"', "=1+1", "x" * 200000])
    elif choice == 1:
        cells.append("x")
    elif choice == 2:
        cells.pop()
    elif choice == 3:
        cells = cells * 2
    lines[at] = ",".join(cells)
    if choice == 4:
        lines.insert(at, lines[0])
    text = "\n".join(lines)
    return text.encode(rng.choice(["utf-8", "utf-8", "utf-16", "latin-1"]), "replace") if choice == 5 else text.encode()


def zip_records(data, rng):
    """A field of the central directory: flags, method, checksum, sizes, lengths, where a part begins."""
    starts = [found.start() for found in re.finditer(rb"PK\x01\x02", data)]
    if not starts:
        return bits(data, rng)
    changed = bytearray(data)
    at = rng.choice(starts)
    where, size = rng.choice([(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (32, 2), (42, 4), (46, 1)])
    value = rng.choice([0, 1, 8, 12, 14, 99, 255, 2**16 - 1, 2**31 - 1, 2**32 - 1]) % (1 << (8 * size))
    changed[at + where : at + where + size] = value.to_bytes(size, "little")
    return bytes(changed)


def zip_parts(data, rng):
    """A part left out, doubled, renamed, emptied or damaged, in an archive whose checksums are right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            parts = [(info, old.read(info)) for info in old.infolist()]
    except Exception:
        return bits(data, rng)
    if not parts:
        return data
    at = rng.randrange(len(parts))
    info, content = parts[at]
    choice = rng.randrange(7)
    if choice == 0:
        parts.pop(at)
    elif choice == 1:
        parts.append((info, content))
    elif choice == 2:
        parts[at] = (rng.choice(["../x", "/x", "a\\..\\b", "", "x" * 300]), content)
    elif choice == 3:
        parts[at] = (info, rng.choice([b"", b"[]", b"null", bytes(1 << 20)]))
    else:
        change = rng.choice([bits, some_bytes, truncated, early_bits, number_in_the_head, json_value, json_text])
        parts[at] = (info, change(content, rng))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as new:
        for name, content in parts:
            target = zipfile.ZipInfo(name) if isinstance(name, str) else name
            new._didModify = True
            new.NameToInfo.pop(target.filename, None)  # so that a second one of a name is no warning
            method = zipfile.ZIP_DEFLATED if target.compress_type == zipfile.ZIP_DEFLATED else zipfile.ZIP_STORED
            new.writestr(target, content, compress_type=method)
    return buffer.getvalue()


def signed(data, rng):
    """A checkpoint whose parts are damaged, and which has the right checksums, as one made on purpose would."""
    from mixseg.runs import checksum

    parts = zip_parts(data, rng)
    end = parts.rfind(b"PK\x05\x06")
    content = parts[: end + 20] if end >= 0 else parts
    digest = checksum._digest(io.BytesIO(content), len(content))
    return content + checksum.COMMENT.to_bytes(2, "little") + checksum.SIGN + digest


IMAGES = (".nii", ".nii.gz")
MUTATIONS = {
    "bits": Mutation(bits),
    "early bits": Mutation(early_bits),
    "bytes": Mutation(some_bytes),
    "number in the head": Mutation(number_in_the_head),
    "truncated": Mutation(truncated),
    "tail cut": Mutation(tail_cut),
    "emptied": Mutation(emptied),
    "appended": Mutation(appended),
    "zeroed": Mutation(zeroed),
    "doubled": Mutation(doubled),
    "left out": Mutation(left_out),
    "another": Mutation(another),
    "head line": Mutation(head_line, HEADED, keeps_checksum=True),
    "nifti head": Mutation(nifti_head, IMAGES, keeps_checksum=True),
    "bomb": Mutation(bomb, (".nii.gz", ".nrrd", ".seg.nrrd", ".mha")),
    "json value": Mutation(json_value, (".json",), keeps_checksum=True),
    "json text": Mutation(json_text, (".json",), keeps_checksum=True),
    "json line": Mutation(json_line, (".jsonl",), keeps_checksum=True),
    "csv cell": Mutation(csv_cell, (".csv",), keeps_checksum=True),
    "zip records": Mutation(zip_records, ZIPPED),
    "zip parts": Mutation(zip_parts, ZIPPED, keeps_checksum=True),
    "signed": Mutation(signed, (".pt",), keeps_checksum=True),
}


def fitting(name):
    """The mutations for a file of this name."""
    return [key for key, each in MUTATIONS.items() if not each.suffixes or name.lower().endswith(each.suffixes)]
