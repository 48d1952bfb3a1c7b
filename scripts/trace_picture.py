#!/usr/bin/env python3
"""Draw what zero_launch train --trace has written as an SVG: a row for each thread, a box for each span.

    scripts/trace_picture.py RUN/trace_00000.json RUN/trace_00001.json > step.svg     # any number of ranks of one host
    scripts/trace_picture.py --step 12 RUN/trace_*.json > step.svg                    # from step 12 to the next one

Spans inside others lie below them. Pointing at a box tells its whole name and how long it took.
"""

import argparse
import html
import json
import signal

COLORS = {"forward": "#7fb2e5", "backward": "#f0ad6d", "recompute": "#f7d794", "all_gather": "#7cc58a", "gather": "#7cc58a",
          "reduce_scatter": "#e58a8a", "reduce": "#e58a8a", "all_reduce": "#d3a4c9", "sum": "#f3b6c4", "fill": "#cfa27e",
          "update": "#ab90d8", "wait": "#e3e3e3", "saving": "#5fb7b0", "write": "#93d3cd", "step": "#c3ccd6"}
OTHER = "#d9d9d9"
WIDTH, LEFT, BOX, GAP, LETTER = 1400, 130, 16, 8, 5.6  # pixels


def read(path):
    """Of each thread that did something: its name and its complete events, outer ones first."""
    with open(path) as file:
        events = json.load(file)
    names = {(e["name"], e["tid"]): e["args"]["name"] for e in events if e["ph"] == "M"}
    threads = {}
    for event in (e for e in events if e["ph"] == "X"):
        threads.setdefault(event["tid"], []).append(event)
    return [(f"{names['process_name', 0]}, {names['thread_name', thread]}", sorted(spans, key=lambda e: (e["ts"], -e["dur"])))
            for thread, spans in sorted(threads.items())]


def window(lanes, step):
    """Begin and end of what is drawn, in microseconds: all, or a step with what follows it. A batch that was skipped is one
    of the step that it was to make."""
    spans = [span for _, lane in lanes for span in lane]
    if not spans:
        raise SystemExit("trace_picture.py: no spans in these traces")
    begin, end = min(span["ts"] for span in spans), max(span["ts"] + span["dur"] for span in spans)
    if step is None:
        return begin, end
    begins = {}
    for span in lanes[0][1]:
        begins.setdefault(span["name"], span["ts"])
    if f"step {step}" not in begins:
        raise SystemExit(f"trace_picture.py: no step {step} in these traces")
    return begins[f"step {step}"], begins.get(f"step {step + 1}", end)


def with_depth(spans):
    """Pairs of a span and how many others it lies in."""
    ends = []
    for span in spans:
        while ends and ends[-1] <= span["ts"]:
            ends.pop()
        yield span, len(ends)
        ends.append(span["ts"] + span["dur"])


def label(name, width):
    """As much of a name as a box can hold: "all_gather transformer.h.2", "all_gather 2", "2", or nothing."""
    name = name.split(" (")[0].replace("'", "")
    verb, _, whom = name.partition(" ")
    short = whom.rsplit(".", 1)[-1]
    return next((text for text in (name, f"{verb} {short}", short or verb) if len(text) * LETTER < width - 4), "")


def box(span, x, y, width):
    color = COLORS.get(span["name"].split(" ")[0], OTHER)
    told = html.escape(f"{span['name']}: {span['dur'] / 1e3:.3f} ms")
    text = html.escape(label(span["name"], width))
    edge = ' stroke="white" stroke-width="0.6"' if width > 3 else ""
    yield (f'<rect x="{x:.1f}" y="{y}" width="{max(width, 0.4):.1f}" height="{BOX}" fill="{color}"{edge}>'
           f"<title>{told}</title></rect>")
    if text:
        yield f'<text x="{x + 2:.1f}" y="{y + BOX - 4}" pointer-events="none">{text}</text>'


def axis(begin, end, scale, height):
    """A line at every round number of milliseconds, about ten of them."""
    step = 1.0
    while (end - begin) / 1e3 / step > 12:
        step *= 2 if str(step)[0] in "15" else 2.5
    for i in range(int((end - begin) / 1e3 / step) + 1):
        x = LEFT + i * step * 1e3 * scale
        yield f'<line x1="{x:.1f}" x2="{x:.1f}" y1="16" y2="{height}" stroke="#eeeeee"/>'
        yield f'<text x="{x:.1f}" y="12" text-anchor="middle">{i * step:g} ms</text>'


def draw(lanes, begin, end):
    scale = (WIDTH - LEFT - 10) / (end - begin)
    shapes, y = [], 22
    for name, spans in lanes:
        shown = [e for e in spans if e["ts"] < end and e["ts"] + e["dur"] > begin]
        depths = list(with_depth(shown))
        shapes.append(f'<text x="4" y="{y + BOX - 4}">{html.escape(name)}</text>')
        for span, depth in depths:
            left, right = max(span["ts"], begin), min(span["ts"] + span["dur"], end)
            shapes += box(span, LEFT + (left - begin) * scale, y + depth * BOX, (right - left) * scale)
        y += (max((depth for _, depth in depths), default=0) + 1) * BOX + GAP
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" font-family="sans-serif" '
                      'font-size="10">', f'<rect width="{WIDTH}" height="{y}" fill="white"/>',
                      *axis(begin, end, scale, y), *shapes, "</svg>"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--step", type=int, help="draw this step alone, by the clock of the first rank")
    arguments = parser.parse_args()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader may leave
    lanes = [lane for path in arguments.traces for lane in read(path)]
    print(draw(lanes, *window(lanes, arguments.step)))


if __name__ == "__main__":
    main()
