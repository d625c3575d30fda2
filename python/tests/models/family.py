"""One tiny model of each family that the device is to run."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

VOCABULARY = 96
TEXT = {"vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
DECODER = {
    **TEXT,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
POSITIONS = ("max_position_embeddings", "n_positions", "max_target_positions")
"""Settings that say how long sequences may be."""
ENCODER = {**DECODER, "type_vocab_size": 2}
VISION = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 16,
    "patch_size": 8,
}


@dataclass(frozen=True)
class Family:
    """A model's class, the numbers that its configuration is made of, and what it is called with.

    Weights that have just been made are close to zero: ``spread`` times as large they tell tokens apart.
    """

    model: str
    config: str
    settings: dict[str, Any]
    inputs: tuple[str, ...] = ("input_ids", "attention_mask")
    generates: bool = True
    has_static_cache: bool = True
    spread: float = 4.0
    generation: dict[str, Any] = field(default_factory=dict)

    def make(self, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
        """The model, on the CPU, with the same weights every time."""
        import transformers

        torch.manual_seed(7)
        model = getattr(transformers, self.model)(getattr(transformers, self.config)(**self.settings))
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.mul_(self.spread)
        return model.to(dtype).eval()

    def longer(self) -> Family:
        """The family with a model that takes sequences of 128 tokens."""
        return replace(self, settings=_longer(self.settings))

    def call(
        self, dtype: torch.dtype = torch.float32, length: int = 9, decoder_length: int = 5
    ) -> dict[str, torch.Tensor]:
        """Arguments of a call, on the CPU: two rows, the second of them padded."""
        call = self._call(length, decoder_length)
        return {name: value.to(dtype) if value.is_floating_point() else value for name, value in call.items()}

    def _call(self, length: int, decoder_length: int) -> dict[str, torch.Tensor]:
        make = torch.Generator().manual_seed(11)
        tokens = torch.randint(3, VOCABULARY, (2, length), generator=make)
        mask = torch.ones_like(tokens)
        mask[1, : length // 3] = 0
        known = {
            "input_ids": tokens,
            "attention_mask": mask,
            "decoder_input_ids": torch.randint(3, VOCABULARY, (2, decoder_length), generator=make),
            "pixel_values": torch.randn(2, 3, 16, 16, generator=make),
            "input_features": torch.randn(2, 8, 40, generator=make),
        }
        return {name: known[name] for name in self.inputs}


def _longer(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        key: _longer(value) if isinstance(value, dict) else 160 if key in POSITIONS else value
        for key, value in settings.items()
    }


def _decoder(name: str, model: str | None = None, **settings: Any) -> Family:
    return Family(model or f"{name}ForCausalLM", f"{name}Config", {**DECODER, **settings})


FAMILIES: dict[str, Family] = {
    "llama": _decoder("Llama"),
    "granite": _decoder("Granite", embedding_multiplier=2.0, residual_multiplier=0.5, logits_scaling=1.5),
    "mistral": _decoder("Mistral", sliding_window=6),
    "qwen2": _decoder("Qwen2"),
    "qwen3": _decoder("Qwen3", head_dim=8),
    "gemma": _decoder("Gemma", head_dim=8),
    "gemma2": _decoder("Gemma2", head_dim=8, sliding_window=6),
    "phi": _decoder("Phi", num_key_value_heads=4),
    "phi3": _decoder("Phi3"),
    "gpt2": Family(
        "GPT2LMHeadModel", "GPT2Config",
        {**TEXT, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    ),
    "bert": Family("BertForMaskedLM", "BertConfig", ENCODER, generates=False),
    "roberta": Family("RobertaForMaskedLM", "RobertaConfig", ENCODER, generates=False),
    "t5": Family(
        "T5ForConditionalGeneration", "T5Config",
        {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
         "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2},
        ("input_ids", "attention_mask", "decoder_input_ids"), spread=1.0,
        generation={"repetition_penalty": 2.0},  # it would say one word for ever
    ),
    "vit": Family(
        "ViTForImageClassification", "ViTConfig", {**VISION, "num_labels": 7}, ("pixel_values",), generates=False
    ),
    "clip": Family(
        "CLIPModel", "CLIPConfig",
        {"text_config": {**ENCODER, "eos_token_id": 2}, "vision_config": VISION, "projection_dim": 16},
        ("input_ids", "attention_mask", "pixel_values"), generates=False,
    ),
    "whisper": Family(
        "WhisperForConditionalGeneration", "WhisperConfig",
        {**TEXT, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
         "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 8,
         "max_source_positions": 20, "max_target_positions": 32, "decoder_start_token_id": 1,
         "suppress_tokens": None, "begin_suppress_tokens": None},
        ("input_features", "decoder_input_ids"), spread=8.0,
    ),
    "mixtral": _decoder("Mixtral", num_local_experts=4, num_experts_per_tok=2),
    "mamba": Family(
        "MambaForCausalLM", "MambaConfig",
        {**TEXT, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "conv_kernel": 4},
        ("input_ids",), has_static_cache=False, spread=1.5,
    ),
}  # fmt: skip
"""Each family under a name of its own."""
