"""Train a Llama in plain PyTorch, in bf16: the peer of stages of scripts/gpu_check.sh, with the same shape, samples and passes.

Each block is recomputed, and the loss is made in chunks, as in the runs beside it. Weights and AdamW's states are on the GPU,
under autocast; with --fsdp2 in the host's memory, by FSDP2's CPUOffloadPolicy on a group of one rank. Prints {"seconds": [one
per step]}; with --speeds instead {"flops", "hbm"}: what a product of large bf16 matrices and a copy reach. --dry: on the CPU,
for a test. Exit code 77: this Python lacks PyTorch, or PyTorch FSDP2.
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
    from torch.utils.checkpoint import checkpoint
except ImportError as error:
    print(f"no PyTorch here: {error}")
    sys.exit(77)


class Norm(nn.RMSNorm):
    def forward(self, x):
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype))  # of one type: a kernel of its own


class Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        dim, self.head_dim = shape.dim, shape.dim // shape.heads
        linear = lambda rows, columns: nn.Linear(rows, columns, bias=False)
        self.input_norm, self.post_norm = Norm(dim), Norm(dim)
        self.q, self.o = linear(dim, dim), linear(dim, dim)
        self.k, self.v = (linear(dim, shape.kv_heads * self.head_dim) for _ in range(2))
        self.gate, self.up, self.down = linear(dim, shape.ffn_dim), linear(dim, shape.ffn_dim), linear(shape.ffn_dim, dim)

    def forward(self, x, cos, sin):
        def heads(y):
            return y.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        def rotated(y):
            left, right = y.chunk(2, -1)
            return torch.cat((left * cos - right * sin, right * cos + left * sin), -1)

        y = self.input_norm(x)
        y = F.scaled_dot_product_attention(rotated(heads(self.q(y))), rotated(heads(self.k(y))), heads(self.v(y)),
                                           is_causal=True, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.post_norm(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocab, shape.dim)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm, self.head = Norm(shape.dim), nn.Linear(shape.dim, shape.vocab, bias=False)

    def chunk_loss(self, x, targets):
        return F.cross_entropy(self.head(x).float(), targets, reduction="sum")

    def forward(self, tokens, targets):
        half = self.shape.dim // self.shape.heads // 2
        angles = torch.outer(torch.arange(tokens.shape[1], device=tokens.device),
                             5e5 ** (-torch.arange(half, device=tokens.device) / half))
        x = self.embedding(tokens).bfloat16()
        cos, sin = angles.cos().to(x), angles.sin().to(x)
        for block in self.blocks:
            x = checkpoint(block, x, cos, sin, use_reentrant=False)
        x, targets = self.norm(x).flatten(0, 1), targets.flatten()
        chunks = zip(x.split(self.shape.loss_chunk), targets.split(self.shape.loss_chunk))
        return sum(checkpoint(self.chunk_loss, *chunk, use_reentrant=False) for chunk in chunks) / targets.numel()


def shard(model, device):
    """Each block, the embedding, the head, then the rest, in the host's memory; computes in bf16 and reduces in fp32."""
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
    for part in [model.embedding, *model.blocks, model]:  # the head, which runs in chunks, is the root's
        fully_shard(part, **how)


def initialize(model, device):
    """Made on the GPU, which is faster, wherever they stay."""
    for parameter in model.parameters():
        local = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        values = torch.randn(local.shape, device=device) * 0.02 if local.dim() > 1 else torch.ones(local.shape, device=device)
        with torch.no_grad():
            local.copy_(values)


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def fastest(device, work, rounds=10):
    """The seconds of the fastest of some calls."""
    seconds = []
    for _ in range(rounds):
        synchronize(device)
        begin = time.perf_counter()
        work()
        synchronize(device)
        seconds.append(time.perf_counter() - begin)
    return min(seconds)


def speeds(device, size):
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.empty(size * size * 8, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    return {"flops": 2 * size**3 / fastest(device, lambda: a @ b),
            "hbm": 2 * source.numel() / fastest(device, lambda: target.copy_(source))}


def train(shape, device):
    torch.manual_seed(0)
    with torch.device("meta"):
        model = Llama(shape)
    if shape.fsdp2:
        shard(model, device)
    model.to_empty(device="cpu" if shape.fsdp2 else device)
    initialize(model, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    num_passes = shape.samples // shape.micro_batch
    seconds = []
    for _ in range(shape.steps):
        synchronize(device)
        begin = time.perf_counter()
        for _ in range(num_passes):
            text = torch.randint(0, shape.vocab, (shape.micro_batch, shape.seq_len + 1), device=device)
            with torch.autocast(device, torch.bfloat16, enabled=not shape.fsdp2):
                loss = model(text[:, :-1], text[:, 1:])
            (loss / num_passes).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        synchronize(device)
        seconds.append(time.perf_counter() - begin)
    return {"seconds": seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("layers", "dim", "heads", "kv-heads", "ffn-dim", "vocab", "seq-len", "samples", "micro-batch", "loss-chunk",
                 "steps"):
        parser.add_argument("--" + name, type=int)
    for name in ("fsdp2", "speeds", "dry"):
        parser.add_argument("--" + name, action="store_true")
    arguments = parser.parse_args()
    device = "cpu" if arguments.dry else "cuda"
    told = speeds(device, 256 if arguments.dry else 8192) if arguments.speeds else train(arguments, device)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
