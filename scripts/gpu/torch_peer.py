"""Train GPT-2 124M in plain PyTorch, in bf16: the peer of stages of scripts/gpu_check.sh.

The same rows and tokens, no recomputation. Weights and AdamW's states are on the GPU, under autocast; with --fsdp2 in the
host's memory, by FSDP2's CPUOffloadPolicy on a group of one rank. Prints {"tokens_per_second": [one per step, the first left
out]}. --dry: a tiny model on the CPU, for a test. Exit code 77: this Python lacks PyTorch, or PyTorch FSDP2.
"""
import argparse
import json
import os
import sys
import time

try:
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
except ImportError as error:
    print(f"no PyTorch here: {error}")
    sys.exit(77)

ROWS, MICRO_BATCH, LENGTH, VOCAB, DIM, HEADS, LAYERS, STEPS = 32, 8, 1024, 50257, 768, 12, 12, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.attn, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, HEADS, c // HEADS).transpose(1, 2) for y in self.attn(self.ln_1(x)).split(c, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.proj(y)
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, DIM), nn.Embedding(LENGTH, DIM)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(DIM)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.h:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, VOCAB).float(), targets.reshape(-1))


def shard(model, device):
    """Each block, then the rest, in the host's memory; computes in bf16 and reduces in fp32."""
    try:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    except ImportError as error:
        print(f"no FSDP2 here: {error}")
        sys.exit(77)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", RANK="0", WORLD_SIZE="1", LOCAL_RANK="0")
    dist.init_process_group("gloo" if device == "cpu" else "cpu:gloo,cuda:nccl")
    how = {"mesh": init_device_mesh(device, (1,)),
           "mp_policy": MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32),
           "offload_policy": CPUOffloadPolicy(pin_memory=device != "cpu")}
    for block in model.h:
        fully_shard(block, **how)
    fully_shard(model, **how)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fsdp2", action="store_true")
    parser.add_argument("--dry", action="store_true")
    arguments = parser.parse_args()
    device, synchronize = "cuda", torch.cuda.synchronize
    if arguments.dry:
        global LENGTH, VOCAB, DIM, HEADS, LAYERS, STEPS
        LENGTH, VOCAB, DIM, HEADS, LAYERS, STEPS = 16, 64, 32, 2, 2, 2
        device, synchronize = "cpu", torch.cpu.synchronize
    torch.manual_seed(0)
    with torch.device("cpu" if arguments.fsdp2 else device):
        model = Gpt()
    if arguments.fsdp2:
        shard(model, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    speeds = []
    for _ in range(STEPS + 1):
        synchronize()
        begin = time.perf_counter()
        for _ in range(ROWS // MICRO_BATCH):
            text = torch.randint(0, VOCAB, (MICRO_BATCH, LENGTH + 1), device=device)
            with torch.autocast(device, torch.bfloat16, enabled=not arguments.fsdp2):
                loss = model(text[:, :-1], text[:, 1:])
            (loss * MICRO_BATCH / ROWS).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize()
        speeds.append(ROWS * LENGTH / (time.perf_counter() - begin))
    print(json.dumps({"tokens_per_second": speeds[1:]}))


if __name__ == "__main__":
    main()
