"""Tokens a second that transformers makes behind a prompt, of one row and of sixteen: {"1": X, "16": X}.

    transformers_peer.py FOLDER TOKENS [--dry]     --dry: on the CPU. Exit code 77: this Python lacks transformers
"""
import json
import sys
import time

try:
    import torch
    import transformers
except ImportError as error:
    print(f"no transformers here: {error}")
    sys.exit(77)


def main():
    folder, count, device = sys.argv[1], int(sys.argv[2]), "cpu" if "--dry" in sys.argv else "cuda"
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(device).eval()

    def seconds(rows, tokens):
        prompt = torch.tensor([list(range(5, 133))] * rows, device=device)
        begin = time.perf_counter()
        with torch.no_grad():
            model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens,
                           do_sample=False, pad_token_id=0).cpu()
        return time.perf_counter() - begin

    def speed(rows):
        seconds(rows, 8)
        return rows * (count - 1) / (seconds(rows, count) - seconds(rows, 1))

    print(json.dumps({rows: speed(rows) for rows in (1, 16)}))


if __name__ == "__main__":
    main()
