#!/usr/bin/env python3
"""Draw pictures of shapes, to try training on images with: a folder for each class, PNG files in them.

  scripts/make_shapes.py OUT [--count N] [--size PIXELS] [--seed N]     600 pictures of 32 x 32 without flags

Shapes are circles, squares, triangles and crosses of any colour, size and place on a noisy ground of any colour. The same
seed draws the same pictures. Python's own library suffices.
"""
import argparse
import os
import random
import struct
import sys
import zlib

CLASSES = ["circle", "cross", "square", "triangle"]


def is_inside(shape, x, y):
    """whether a shape of radius 1 around the origin covers the point"""
    if shape == "circle":
        return x * x + y * y <= 1
    if shape == "square":
        return max(abs(x), abs(y)) <= 0.85
    if shape == "cross":
        return max(abs(x), abs(y)) <= 1 and min(abs(x), abs(y)) <= 0.3
    return -0.8 <= y <= 0.9 and abs(x) <= (y + 0.8) / 1.7


def picture(shape, size, draw):
    """rows of RGB bytes"""
    radius = draw.uniform(0.22, 0.38) * size
    centre = [draw.uniform(radius, size - radius) for _ in range(2)]
    ground = [draw.randrange(256) for _ in range(3)]
    colour = [(value + draw.choice([-1, 1]) * draw.randrange(80, 128)) % 256 for value in ground]
    rows = []
    for y in range(size):
        row = bytearray()
        for x in range(size):
            inside = is_inside(shape, (x + 0.5 - centre[0]) / radius, (y + 0.5 - centre[1]) / radius)
            row += bytes(min(255, max(0, value + draw.randrange(-12, 13))) for value in (colour if inside else ground))
        rows.append(bytes(row))
    return rows


def png(rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--count", type=int, default=600, help="of all pictures")
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if options.count < len(CLASSES) or options.size < 8:
        sys.exit("make_shapes.py: --count 4 or more, --size 8 or more")
    if os.path.exists(options.out):
        sys.exit(f"make_shapes.py: {options.out} is there already; another OUT")
    for shape in CLASSES:
        os.makedirs(os.path.join(options.out, shape))
    for i in range(options.count):
        shape = CLASSES[i % len(CLASSES)]
        rows = picture(shape, options.size, random.Random(f"{options.seed} {i}"))
        with open(os.path.join(options.out, shape, f"{i:05}.png"), "wb") as file:
            file.write(png(rows))


if __name__ == "__main__":
    main()
