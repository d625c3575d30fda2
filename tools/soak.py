#!/usr/bin/env python
"""Trains, generates, and computes with random shapes and faults for so many minutes.

Fails if the process grows: resident and reserved memory, threads, files, device blocks.

    tools/soak.py --minutes 30
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import threading
import time

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

TEXT = {"vocab_size": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
ROUND_STEPS = 5
LOOKS = 900
"""Looks at the process: reserved memory swings by several MiB with the shapes of the moment, and many looks tell that
from growth."""
WARM_ROUNDS = 150
# What may come on top after the first quarter and so many rounds, when every kernel is compiled and every cache full.
ALLOWED = {
    "resident MiB": 24, "reserved MiB": 2, "threads": 0, "files": 0, "device MiB": 0.1, "device blocks": 0,
}  # fmt: skip


def models(device):
    """A GPT that is trained, and a Llama that generates."""
    torch.manual_seed(1)
    gpt = GPT2LMHeadModel(GPT2Config(**TEXT, n_embd=64, n_layer=2, n_head=4, n_positions=64))
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}
    llama = LlamaForCausalLM(LlamaConfig(**TEXT, **sizes, **heads))
    return gpt.to(device).eval(), llama.to(device).eval()


def train(gpt, optimizer, device):
    for _ in range(ROUND_STEPS):
        tokens = torch.randint(3, TEXT["vocab_size"], (4, int(torch.randint(8, 33, ()))), device=device)
        logits = gpt(tokens).logits
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def generate(llama, device):
    tokens = torch.randint(3, TEXT["vocab_size"], (2, int(torch.randint(3, 17, ()))), device=device)
    cache = ("dynamic", "static")[int(torch.randint(2, ()))]
    return llama.generate(tokens, do_sample=False, max_new_tokens=8, min_new_tokens=8, cache_implementation=cache)


def wander(device):
    """Shapes that never came before, held for a while and dropped in any order, with a fault among them."""
    held = []
    for _ in range(20):
        rows, columns, depth = (int(n) for n in torch.randint(1, 300, (3,)))
        product = torch.ones(rows, depth, device=device) @ torch.full((depth, columns), 0.5, device=device)
        held += [product, product + 1, product.sum(0), torch.cat([product, product])]
        for _ in range(int(torch.randint(0, 5, ()))):
            held.pop(int(torch.randint(len(held), ())))
    fault(held, device)
    held[0].fill_(1.0)
    return held[0].sum().item()


def fault(held, device):
    """A bad index cancels what is queued behind it, and is reported once."""
    rows = held[0].shape[0]
    held.append(held[0].index_select(0, torch.tensor([rows + 7], device=device)))
    held[0].add_(1)
    try:
        torch.spyre.synchronize()
    except IndexError:
        return
    raise SystemExit("a bad index was not reported")


def elsewhere(device):
    """A thread and a stream of their own come and go."""

    def run():
        with torch.spyre.stream(torch.spyre.Stream()):
            torch.ones(64, 64, device=device).matmul(torch.ones(64, 64, device=device)).sum().item()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def state():
    """Quantities that must not grow."""
    gc.collect()
    torch.spyre.synchronize()
    with open("/proc/self/status") as file:
        status = dict(line.split(":", 1) for line in file)
    stats = torch.spyre.memory_stats()
    return {
        "resident MiB": int(status["VmRSS"].split()[0]) / 1024,
        "threads": int(status["Threads"]),
        "files": len(os.listdir("/proc/self/fd")),
        "reserved MiB": torch.spyre.memory_reserved() / 2**20,
        "device MiB": torch.spyre.memory_allocated() / 2**20,
        "device blocks": stats["allocation.all.current"],
    }


def show(elapsed, rounds, now):
    numbers = ", ".join(f"{value:.1f} {name}" for name, value in now.items())
    print(f"{elapsed / 60:5.1f} min, {rounds:5} rounds: {numbers}", flush=True)


def soak(seconds, device="spyre"):
    """The states of the process, once it is warm and from then on."""
    gpt, llama = models(device)
    optimizer = torch.optim.AdamW(gpt.parameters(), lr=1e-3)
    start, rounds, shown, looked, seen = time.monotonic(), 0, 0.0, 0.0, []
    end = float("inf")
    while (elapsed := time.monotonic() - start) < end:
        loss = train(gpt, optimizer, device)
        generate(llama, device)
        wander(device)
        elsewhere(device)
        rounds += 1
        if not loss < 100:
            raise SystemExit(f"the loss is {loss} after {rounds} rounds")
        if elapsed - looked >= seconds / LOOKS or rounds == 1:
            now, looked = state(), elapsed
            if end == float("inf") and elapsed >= seconds / 4 and rounds >= WARM_ROUNDS:
                end = elapsed + seconds * 3 / 4
            if end < float("inf"):
                seen.append(now)
            if elapsed - shown >= seconds / 20 or rounds == 1:
                show(elapsed, rounds, now)
                shown = elapsed
    seen.append(state())
    show(time.monotonic() - start, rounds, seen[-1])
    return seen


def middle(states, name):
    """The median: what random shapes need at one moment is random, too."""
    return statistics.median(state[name] for state in states)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    seen = soak(60 * parser.parse_args().minutes)
    third = max(1, len(seen) // 3)
    grown = {name: middle(seen[-third:], name) - middle(seen[:third], name) for name in ALLOWED}
    wrong = {name: value for name, value in grown.items() if value > ALLOWED[name]}
    print("from the second quarter to the last one: " + ", ".join(f"{value:+.1f} {name}" for name, value in grown.items()))
    if len(seen) < 2 or wrong:
        sys.exit(f"it grew: {wrong}" if wrong else "it ended too early to say anything")


if __name__ == "__main__":
    main()
