#!/usr/bin/env python3
"""What nvcc left in libzero_cuda.so: for which GPUs is there code, and is its arithmetic the host's?

    library_test.py libzero_cuda.so

Reads the images themselves, so that neither a GPU nor a tool of CUDA's is needed.
"""

import re
import struct
import sys
from pathlib import Path

PTX, ELF = 1, 2
MAGIC = struct.pack("<I", 0xBA55ED50)


def images_of(library):
    """(kind, architecture, bytes) of each image in the library's fat binaries."""
    at = library.find(MAGIC)
    while at >= 0:
        header_bytes, all_bytes = struct.unpack_from("<6xHQ", library, at)
        image, end = at + header_bytes, at + header_bytes + all_bytes
        while image < end:
            kind, own_header, stored, architecture = struct.unpack_from("<H2xIQ12xI", library, image)
            yield kind, architecture, library[image + own_header:image + own_header + stored]
            image += own_header + stored
        at = library.find(MAGIC, end)


def problems_of(images):
    wanted = {(ELF, 80), (ELF, 90), (PTX, 90)}
    found = {(kind, architecture) for kind, architecture, _ in images}
    if found != wanted:
        yield f"images (kind, architecture) are {sorted(found)}, not {sorted(wanted)}"
    for text in [image.decode(errors="replace") for kind, _, image in images if kind == PTX]:
        if ".entry" not in text:
            yield "PTX without a kernel"
        if re.findall(r"^\.version (.*)", text, re.MULTILINE) != ["9.0"]:
            yield "PTX that the oldest driver for CUDA 13 cannot translate: its version is not 9.0"
        # ptxas may fuse what is not rounded by name; what is approximate or flushed is not the host's.
        for line in re.findall(r"^\s*((?:fma|mad)\.[a-z0-9.]*f(?:32|64)|(?:add|sub|mul|div|sqrt)\.[a-z0-9.]*f(?:32|64))\s",
                               text, re.MULTILINE):
            if not re.fullmatch(r"(add|sub|mul|div|sqrt)\.rn\.f(32|64)", line):
                yield f"PTX holds {line}"


problems = sorted(set(problems_of(list(images_of(Path(sys.argv[1]).read_bytes())))))
for problem in problems:
    print(f"{sys.argv[1]}: {problem}", file=sys.stderr)
sys.exit(1 if problems else 0)
