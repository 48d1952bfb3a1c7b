"""Stages of scripts/gpu_check.sh about texts: packed documents in training, and generation, here and beside transformers."""
import json
import re
import sys
from pathlib import Path

import benches

FAMILIES = {"gpt2": ["--model", "gpt2"], "llama, grouped": ["--model", "llama", "--kv-heads", "2"],
            "mistral, a window of 8": ["--preset", "mistral-7b", "--kv-heads", "2", "--ffn-dim", "128", "--model-config",
                                       "sliding_window=8"],
            "gptj": ["--model", "gptj"], "gpt_neox": ["--model", "gpt_neox"]}
OF_FAMILY = ["--layers", "2", "--dim", "128", "--heads", "4", "--vocab", "257", "--seq-len", "64"]
SMALL = ["--layers", "2", "--dim", "64", "--heads", "2"]
TRAINED = [*benches.FROM_SEED, *OF_FAMILY, "--global-batch", "8", "--micro-batch", "8", "--save-every", "0"]
ASKED = ["--prompt", "int main", "--num-tokens", "40", "--num-samples", "4", "--stop", "}"]
MANNERS = {"the likeliest tokens": ["--greedy"], "drawn": ["--temperature", "1", "--top-k", "20", "--seed", "3"]}
PROMPT = " ".join(map(str, range(5, 133)))  # 128 tokens
TOKENS = {"optimizer": 256, "all": 32}  # of each text, where the weights are on the GPU, and on the host
PEERS = {"transformers": [], "transformers without cuDNN's attention": ["TORCH_CUDNN_SDPA_DEPRIORITIZED=1"]}


def run(check, *words):
    return check.run([*check.program("zero_launch"), *map(str, words)])


def conversations(check):
    """A tokenizer, and conversations about sums in it."""
    folder = check.scratch / f"chats of {check.name}".replace(" ", "_")
    check.run([sys.executable, str(benches.ROOT / "examples/chat/make_chats.py"), str(folder)])
    return [str(folder / "chats.jsonl"), "--tokenizer", str(folder / "tokenizer"), "--token-cache", str(folder / "tokens"), "--python",
            sys.executable]


def packed(check):
    """Losses of conversations that lie end to end in a row, against the CPU's."""
    steps, sizes = ("3", SMALL) if check.is_dry else ("12", ["--layers", "4", "--dim", "256", "--heads", "4"])
    flags = ["--seed", "1", "--resume", "never", "--save-every", "0", "--save-at-end=false", "--model", "llama", *sizes,
             "--seq-len", "256", "--global-batch", "8", "--micro-batch", "8", "--steps", steps, "--lr", "3e-3", "--data",
             *conversations(check)]
    return benches.against_the_cpu(check, "packed", flags)


def packed_steps(check):
    """Seconds a step of packed conversations beside those of whole rows: the same tokens, with less attention."""
    flags = [*benches.large(check, benches.LLAMA_3B, 32), *benches.WAYS["none"], *benches.NOT_CLIPPED]
    flags = ["261" if flag == "257" else flag for flag in flags]  # of a test, the tokenizer's
    seconds = {}
    for name, data in {"texts": [str(benches.TEXT), "--bytes"], "conversations": conversations(check)}.items():
        at = flags.index("--data")
        steps = check.train(name, [*flags[:at], "--data", *data, *flags[at + 2:]])[benches.FIRST:]
        seconds[name] = sorted(step["seconds"] for step in steps)[len(steps) // 2]
    return {f"s a step, {name}": round(value, 3) for name, value in seconds.items()}


def generation(check):
    """Each family's tokens on the GPU are the CPU's, in fp32; rows end at different places."""
    same = []
    for family, shape in FAMILIES.items():
        out = check.scratch / f"model {len(same)}".replace(" ", "_")
        run(check, "train", "--out", out, *TRAINED, *shape, "--steps", 3 if check.is_dry else 30, "--lr", "3e-3", "--device", "cuda")
        for manner, flags in MANNERS.items():
            texts = [run(check, "generate", out, *ASKED, *flags, "--device", device, "--dtype", "fp32", "--quiet")
                     for device in ("cuda", "cpu")]
            assert texts[0] == texts[1], f"{family}, {manner}: {texts}"
            assert len(texts[0]) > 40, texts[0]
        same.append(family)
    return {"the same tokens": "; ".join(same)}


def speed(check, folder, rows, way, count):
    """Tokens a second behind the prompt."""
    said = run(check, "generate", folder, "--prompt", PROMPT, "--num-tokens", count, "--num-samples", rows, "--greedy", "--ignore-eos",
               "--dtype", "bf16", "--device", "cuda", "--offload", way)
    return float(re.findall(r"more, ([0-9.]+) a second", said)[-1])


def generation_speed(check):
    """Of a Llama of 3B in bf16, with its weights on the GPU and on the host, one row and sixteen; and transformers."""
    shape = ["--model", "llama", *SMALL, "--vocab", "261", "--seq-len", "256"] if check.is_dry else [*benches.LLAMA_3B, "--seq-len", "4096"]
    seed, folder = check.scratch / "seed", check.scratch / "exported"
    run(check, "seed", "--out", seed, *shape)
    run(check, "export", seed, "--to", folder, "--dtype", "bf16")
    told = {}
    for way, count in TOKENS.items():
        for rows in (1, 16):
            told[f"{way}, {rows} rows, tokens/s"] = speed(check, folder, rows, way, 8 if check.is_dry else count)
    for name, variables in PEERS.items():
        try:
            peer = check.run(["env", *variables, sys.executable, str(Path(__file__).parent / "transformers_peer.py"), str(folder),
                              str(TOKENS["optimizer"]), *["--dry"] * check.is_dry])
        except check.Skipped as reason:
            return {**told, "transformers": str(reason)}
        told.update({f"{name}, {rows} rows, tokens/s": round(value, 1) for rows, value in json.loads(peer.splitlines()[-1]).items()})
    return told
