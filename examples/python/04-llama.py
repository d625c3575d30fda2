"""A Llama from `transformers`, with random weights made here, generates on spyre; every token is the CPU's.

    python examples/python/04-llama.py [--layers 4] [--width 256] [--tokens 48] [--trace llama.pftrace]
"""

import argparse
import copy
import sys
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.generation.streamers import BaseStreamer

PROMPT = 16


class Progress(BaseStreamer):
    """A bar on a terminal, else a line now and then; it compares each token as soon as it is there."""

    def __init__(self, name, tokens, expected=None):
        self.name, self.expected, self.seen, self.total = name, expected, [], PROMPT + tokens
        self.is_terminal, self.start = sys.stderr.isatty(), time.perf_counter()

    def put(self, value):
        self.seen += value.flatten().tolist()
        if self.expected is not None and self.seen != self.expected[: len(self.seen)]:
            at = len(self.seen) - 1
            raise SystemExit(f"token {at} is {self.seen[at]} on {self.name}, and {self.expected[at]} on the CPU")
        self.show()

    def show(self):
        made = len(self.seen) - PROMPT
        rate = made / (time.perf_counter() - self.start)
        text = f"{self.name:>5}: {made:3} of {self.total - PROMPT} tokens, {rate:7.1f} tokens/s"
        if self.is_terminal:
            done = 30 * made // (self.total - PROMPT)
            print(f"\r{text} [{'#' * done}{' ' * (30 - done)}]", end="", file=sys.stderr, flush=True)
        elif made and made % 16 == 0:
            print(text)

    def end(self):
        if self.is_terminal:
            print(file=sys.stderr)


def generate(model, prompt, tokens, name, expected=None):
    """All tokens, and how many of the new ones came in a second."""
    settings = {"do_sample": False, "max_new_tokens": tokens, "min_new_tokens": tokens}
    model.generate(prompt, **{**settings, "max_new_tokens": 2, "min_new_tokens": 2})  # compiles what is needed
    progress = Progress(name, tokens, expected)
    start = time.perf_counter()
    model.generate(prompt, streamer=progress, **settings)
    return progress.seen, tokens / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--trace", default="llama.pftrace")
    given = parser.parse_args()

    config = LlamaConfig(
        vocab_size=2048, hidden_size=given.width, intermediate_size=2 * given.width, num_hidden_layers=given.layers,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=PROMPT + given.tokens,
        initializer_range=0.2, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    torch.manual_seed(1)
    model = LlamaForCausalLM(config).eval()
    prompt = torch.randint(3, config.vocab_size, (1, PROMPT))
    weights = sum(parameter.numel() for parameter in model.parameters())
    print(f"a Llama of {weights / 1e6:.1f} million weights, in float32, says {given.tokens} tokens")

    expected, before = generate(model, prompt, given.tokens, "cpu")
    ours = copy.deepcopy(model).to("spyre")
    torch.spyre.reset_fallback_stats()
    _, rate = generate(ours, prompt.to("spyre"), given.tokens, "spyre", expected)
    _, after = generate(model, prompt, given.tokens, "cpu", expected)
    with torch.spyre.trace(given.trace) as trace:  # which takes time of its own
        generate(ours, prompt.to("spyre"), given.tokens, "spyre", expected)
    fallbacks = torch.spyre.fallback_stats()
    cpu_rate = max(before, after)  # other work on the machine should not make the device look good

    print(f"every token is the CPU's: {len(set(expected[PROMPT:]))} different ones of {given.tokens}")
    print(f"speed           spyre {rate:.1f} tokens/s, CPU {cpu_rate:.1f} tokens/s ({rate / cpu_rate:.2f}x)")
    print(f"on the card     {trace.kernels} kernels, {trace.copies} copies")
    print(f"on the CPU      {sum(fallbacks.values())} ops {fallbacks or ''}")
    per_token = trace.modelled_seconds / (given.tokens + 2)
    print(f"on a real card  {per_token * 1e3:.3f} ms of computing per token, by the cost model")
    print(f"trace           {trace.path}, for https://ui.perfetto.dev")
    if fallbacks:
        raise SystemExit("ops ran on the CPU")


if __name__ == "__main__":
    main()
