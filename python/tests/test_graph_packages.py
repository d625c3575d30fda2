"""Packages of graphs (AOTInductor), which are refused."""

import pytest
import torch


def test_packages_are_refused_with_a_remedy(tmp_path):
    exported = torch.export.export(torch.nn.Linear(4, 2).to("spyre"), (torch.ones(3, 4, device="spyre"),))
    with pytest.raises(Exception, match="AOTInductor.*torch.export.save"):
        torch._inductor.aoti_compile_and_package(exported, package_path=str(tmp_path / "model.pt2"))
    x = torch.ones(3, 4, device="spyre")
    kept = exported.module()
    torch.testing.assert_close(torch.compile(kept)(x).cpu(), kept(x).cpu())
