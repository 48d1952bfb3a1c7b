"""Seconds a step of peft's adapters of all linear layers, in bf16, each layer recomputed: {"seconds": [one per step]}.

    peft_peer.py CONFIG SEQ_LEN SAMPLES RANK [--dry]     CONFIG: of a Llama, JSON. --dry: on the CPU. Exit code 77: no peft here
"""
import json
import sys
import time

try:
    import peft
    import torch
    import transformers
except ImportError as error:
    print(f"no peft here: {error}")
    sys.exit(77)

STEPS = 5


def main():
    config, (seq_len, samples, rank) = json.loads(sys.argv[1]), map(int, sys.argv[2:5])
    device = "cpu" if "--dry" in sys.argv else "cuda"
    torch.manual_seed(0)
    config.pop("lora", None)
    with torch.device(device):
        base = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config), dtype=torch.bfloat16)
    base.gradient_checkpointing_enable()
    base.enable_input_require_grads()
    model = peft.get_peft_model(base, peft.LoraConfig(r=rank, lora_alpha=rank, target_modules="all-linear", task_type="CAUSAL_LM")).train()
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
    seconds = []
    for _ in range(STEPS):
        text = torch.randint(0, config["vocab_size"], (samples, seq_len), device=device)
        begin = time.perf_counter()
        model(text, labels=text, use_cache=False).loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1000.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
