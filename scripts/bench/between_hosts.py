#!/usr/bin/env python3
"""What a rank moves between hosts in a step, as `zero_launch plan` counts it, beside bounds of the FSDP paper.

    scripts/bench/between_hosts.py [PROGRAM]

For ranks over hosts of 8: MiB a rank and step, weights sharded over all ranks and over those of a host. The bounds are
those of Zhao et al., "PyTorch FSDP", VLDB 2023, section 3.2.2, of M bytes of weights as of gradients, W ranks and G on
a host: 3 M (W - 1) / W where all is sharded over all ranks, 2 M (W - 1) / (G W) for hybrid sharding.
"""

import json
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/bin/zero_launch"
RANKS_OF_HOST = 8


def step_of(ranks, shard_over, hosts):
    """The plan's bytes of a step."""
    words = [PROGRAM, "plan", "--json", "--ranks", str(ranks), "--hosts", hosts, "--shard-over", shard_over, "--preset",
             "llama-1b", "--device", "cpu", "--micro-batch", "1", "--global-batch", str(ranks), "--host-memory", "4TiB"]
    out = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(out)["step_bytes_per_rank"]


def main():
    print("| ranks | `--shard-over all` | FSDP, full | `--shard-over host` | FSDP, hybrid |\n|---|---|---|---|---|")
    for num_hosts in 2, 4, 16:
        ranks = num_hosts * RANKS_OF_HOST
        with tempfile.NamedTemporaryFile("w") as file:
            file.writelines(f"host{i} slots={RANKS_OF_HOST}\n" for i in range(num_hosts))
            file.flush()
            over_all, over_host = (step_of(ranks, over, file.name) for over in ("all", "host"))
        model = over_all["reduced"] * ranks / (ranks - 1)
        bounds = 3 * model * (ranks - 1) / ranks, 2 * model * (ranks - 1) / (RANKS_OF_HOST * ranks)
        cells = over_all["across_hosts"], bounds[0], over_host["across_hosts"], bounds[1]
        print(f"| {ranks} | " + " | ".join(f"{cell / 2**20:,.0f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
