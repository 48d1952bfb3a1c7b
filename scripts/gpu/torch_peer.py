"""Train GPT-2 124M in plain PyTorch with weights and AdamW's states on the GPU, in bf16 under autocast.

Prints {"tokens_per_second": [one per step, the first left out]}. The peer of the stage "speed" of scripts/gpu_check.sh:
the same rows and tokens, no recomputation.
"""
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

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


def main():
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    speeds = []
    for _ in range(STEPS + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(ROWS // MICRO_BATCH):
            text = torch.randint(0, VOCAB, (MICRO_BATCH, LENGTH + 1), device="cuda")
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(text[:, :-1], text[:, 1:])
            (loss * MICRO_BATCH / ROWS).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        speeds.append(ROWS * LENGTH / (time.perf_counter() - begin))
    print(json.dumps({"tokens_per_second": speeds[1:]}))


if __name__ == "__main__":
    main()
