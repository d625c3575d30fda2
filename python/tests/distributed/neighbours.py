"""accelerate and transformers, as their own launchers start them: they make the group themselves."""

from __future__ import annotations

import os
import sys
import tempfile

import torch
import torch.distributed as dist

from . import ranks


def accelerate_trains_on_all_ranks() -> None:
    from accelerate import Accelerator

    accelerator = Accelerator()
    assert accelerator.num_processes == 2, "each process runs alone"
    assert accelerator.device == torch.device("spyre", int(os.environ["LOCAL_RANK"])), accelerator.device
    torch.manual_seed(0)
    model = torch.nn.Linear(65, 3)
    reference = torch.nn.Linear(65, 3)
    reference.load_state_dict(model.state_dict())
    model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
    batch = torch.randn(8, 65)
    share = batch.chunk(2)[accelerator.process_index].to(accelerator.device)
    accelerator.backward(model(share).square().mean())
    optimizer.step()
    reference(batch).square().mean().backward()
    want = reference.weight.detach() - 0.1 * reference.weight.grad
    torch.testing.assert_close(model.module.weight.detach().cpu(), want, rtol=1e-4, atol=1e-5)
    gathered = accelerator.gather(torch.full((1,), float(accelerator.process_index), device=accelerator.device))
    assert gathered.tolist() == [0, 1]
    accelerator.wait_for_everyone()
    dist.destroy_process_group()


def transformers_makes_the_group() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.distributed import DistributedConfig

    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=1, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    torch.manual_seed(3)
    reference = LlamaForCausalLM(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        reference.save_pretrained(folder)  # the same on every rank
        distributed = DistributedConfig(tp_plan="auto")
        model = LlamaForCausalLM.from_pretrained(folder, distributed_config=distributed).eval()
    assert dist.get_backend() == "spyreccl"
    tokens = torch.arange(12).reshape(1, 12)
    with torch.no_grad():
        got, want = model(tokens.to("spyre")).logits, reference(tokens).logits
    torch.testing.assert_close(got.cpu(), want, rtol=1e-3, atol=1e-4)


CHECKS = {"accelerate": accelerate_trains_on_all_ranks, "transformers": transformers_makes_the_group}

if __name__ == "__main__":
    ranks.report({sys.argv[1]: CHECKS[sys.argv[1]]})
