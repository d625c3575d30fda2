"""Errors and refusals of a real card: Llama, Granite and BERT in float16, layer by layer.

    python examples/python/05-card-profile.py
"""

import os

os.environ.setdefault("SPYRE_PROFILE", "card")  # numbers and rules of the card; before the device is opened
os.environ.setdefault("SPYRE_FALLBACK", "silent")

import torch
from torch.overrides import TorchFunctionMode
from transformers import BertConfig, BertModel, GraniteConfig, GraniteModel, LlamaConfig, LlamaModel

SIZES = {
    "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip
MODELS = {
    "Llama": lambda: LlamaModel(LlamaConfig(**SIZES, num_key_value_heads=2, initializer_range=0.1)),
    "Granite": lambda: GraniteModel(GraniteConfig(**SIZES, num_key_value_heads=2, initializer_range=0.1)),
    "BERT": lambda: BertModel(BertConfig(**SIZES, initializer_range=0.1)),
}


class Exactly(TorchFunctionMode):
    """Float64 throughout: models ask for float32 here and there."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        wide = {torch.float32: torch.float64}
        function = torch.Tensor.double if function is torch.Tensor.float else function
        args = [wide.get(value, value) if isinstance(value, torch.dtype) else value for value in args]
        kwargs = {key: wide.get(value, value) if isinstance(value, torch.dtype) else value for key, value in (kwargs or {}).items()}
        return function(*args, **kwargs)


@torch.no_grad()
def layers(model, tokens):
    """Output of each layer."""
    seen = {}
    stack = model.encoder.layer if hasattr(model, "encoder") else model.layers
    for number, layer in enumerate(stack):
        def keep(_module, _inputs, output, number=number):
            seen[f"layer {number}"] = (output[0] if isinstance(output, tuple) else output).detach().cpu().double()

        layer.register_forward_hook(keep)
    seen["result"] = model(tokens).last_hidden_state.cpu().double()
    return seen


def distance(given, right):
    """Relative error."""
    return ((given - right).norm() / right.norm()).item()


def main():
    print(f"profile {torch.spyre.get_device_properties().profile}; distances are parts of the vector's length")
    tokens = torch.randint(3, 256, (1, 24), generator=torch.Generator().manual_seed(2))
    for name, make in MODELS.items():
        torch.manual_seed(1)
        model = make().eval().half()
        with Exactly():
            right = layers(make_like(model, make), tokens)
        cpu = layers(model, tokens)
        torch.spyre.reset_fallback_stats()
        card = layers(make_like(model, make, torch.float16).to("spyre"), tokens.to("spyre"))
        print(f"\n{name:<10} card to f64   CPU fp16 to f64   card to CPU fp16")
        for layer in right:
            numbers = distance(card[layer], right[layer]), distance(cpu[layer], right[layer]), distance(card[layer], cpu[layer])
            print(f"{layer:<10} {numbers[0]:11.2e}   {numbers[1]:15.2e}   {numbers[2]:16.2e}")
        if torch.spyre.fallback_stats():
            print(f"on the CPU: {torch.spyre.fallback_stats()}")
    report()


def make_like(model, make, dtype=torch.float64):
    """Makes a copy of a model in another dtype."""
    other = make().eval().to(dtype)
    other.load_state_dict(model.state_dict())
    return other


def report():
    """Prints the reports of the kernels that ran, for a real card."""
    reports = torch.spyre.card_reports()
    notes = {}
    for kernel, said in reports:
        for note in said:
            notes.setdefault(note, set()).add(kernel)
    print(f"\n{len(reports)} kernels ran. Of these a real card, or its front end, would say:")
    for note, kernels in sorted(notes.items(), key=lambda item: (item[0].partition(":")[0] != "refused", item[0])):
        print(f"  {note} ({', '.join(sorted(kernels)[:4])}{', ..' if len(kernels) > 4 else ''})")


if __name__ == "__main__":
    main()
