"""Conversations that small models learn: tokenizer, template, lines, and the losses of torch's AdamW on what is trained.

    fine_tuning.py MODELS FOLDER

Each conversation is a row of its own here. Two of them, one behind the other, are as long as a sample of LENGTH tokens, and no
two others are, so that a program that packs them has the same ones in a step.
"""
import json
import random
import sys
from pathlib import Path

import torch.nn.functional as F
import torch

from models import load, logits_of, train

CASES = ("llama", "qwen2", "gpt2")
LENGTH, STEPS, BATCH = 24, 20, 4  # BATCH: conversations of a step
LONGER = range(13, 20)  # places that the longer of two takes
WORDS = [f"w{i}" for i in range(58)]
ROLES, END = ("user", "assistant"), "<end>"
TEMPLATE = "{% for m in messages %}{{ m.role }} {{ m.content }} " + END + " {% endfor %}"


def save_tokenizer(folder):
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    vocabulary = {word: i for i, word in enumerate([*ROLES, *WORDS, END])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=WORDS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken(END)])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE + "\n")
    return vocabulary


def conversation(num_tokens, generator):
    """Turns of so many tokens, their roles and ends included."""
    num_turns = 4 if num_tokens >= 14 else 2
    contents = [1] * num_turns
    for _ in range(num_tokens - 3 * num_turns):
        contents[generator.randrange(num_turns)] += 1
    return [{"role": ROLES[i % 2], "content": " ".join(generator.choices(WORDS, k=count))} for i, count in enumerate(contents)]


def tokens_of(messages, vocabulary):
    """Ids, and whether each is trained: what the assistant says, and the end of its turn."""
    ids, trained = [], []
    for message in messages:
        words = [*message["content"].split(), END]
        ids += [vocabulary[word] for word in (message["role"], *words)]
        trained += [False] + [message["role"] == "assistant"] * len(words)
    return ids, trained


def scored(model, examples):
    """Logits and targets of all that is trained of them; each goes through the model alone."""
    logits, targets = [], []
    for ids, trained in examples:
        is_target = torch.tensor(trained[1:])
        logits.append(logits_of(model, torch.tensor([ids[:-1]]))[0][is_target].double())
        targets.append(torch.tensor(ids[1:])[is_target])
    return torch.cat(logits), torch.cat(targets)


def mean_loss(model, examples):
    return F.cross_entropy(*scored(model, examples))


@torch.no_grad()
def evaluation(model, examples):
    logits, targets = scored(model, examples)
    return {"loss": F.cross_entropy(logits, targets).item(), "accuracy": (logits.argmax(1) == targets).double().mean().item()}


def training(folder, batches):
    losses, norms = zip(*train(load(folder), batches, mean_loss))
    return {"losses": losses, "gradient_norms": norms}


def main():
    models, folder = map(Path, sys.argv[1:])
    folder.mkdir(exist_ok=True)
    vocabulary, generator = save_tokenizer(folder), random.Random(3)
    chats = [conversation(places + 1, generator) for longer in LONGER for places in (longer, LENGTH - longer)]
    (folder / "chats.jsonl").write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    examples = [tokens_of(chat, vocabulary) for chat in chats]
    batches = [[examples[(step * BATCH + i) % len(examples)] for i in range(BATCH)] for step in range(STEPS)]
    reference = {"length": LENGTH, "batch": BATCH, "trained": sum(sum(trained) for _, trained in examples)}
    for name in CASES:
        reference[name] = {**training(models / name, batches), "evaluation": evaluation(load(models / name), examples),
                           "short": training(models / name, [examples[:2 * BATCH], examples[2 * BATCH:]])}
    (folder / "reference.json").write_text(json.dumps(reference, indent=1) + "\n")


if __name__ == "__main__":
    main()
