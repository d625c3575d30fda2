"""Casts to and from the card's own float are kernels, and not the host's work."""

from conftest import needs_spyre


@needs_spyre
def test_the_card_casts_its_float_by_kernels(python):
    code = """
        import torch
        from torch_spyre import _C
        from torch_spyre.ops.fallbacks import set_fallback_mode
        set_fallback_mode("error")
        x = torch.tensor([0.0, 1.5, -3.25, 32768.0], dtype=torch.float16).to("spyre")
        before = _C.traffic()["copies_to_host"]
        wide, truth = x.to(torch.float32), x.to(torch.bool)
        narrow = (wide + 2.0**-12).to(torch.float16)
        assert _C.traffic()["copies_to_host"] == before
        print(wide.tolist(), truth.tolist(), narrow.tolist())
    """
    wide = [0.0, 1.5, -3.25, 32768.0]
    # What is added is less than half a unit of all but the first.
    expected = f"{wide} {[value != 0 for value in wide]} {[2.0**-12, *wide[1:]]}"
    assert python(code, SPYRE_PROFILE="card").stdout.strip() == expected


@needs_spyre
def test_the_card_casts_whole_numbers_by_kernels(python):
    code = """
        import torch, warnings
        from torch_spyre.ops.fallbacks import set_fallback_mode
        warnings.simplefilter("ignore")
        set_fallback_mode("error")
        x = torch.tensor([0, 1, -3, 2049]).to("spyre")
        print(x.to(torch.bool).tolist(), x.to(torch.int32).tolist(), x.half().tolist(), x.half().long().tolist())
    """
    expected = [[False, True, True, True], [0, 1, -3, 2049], [0.0, 1.0, -3.0, 2048.0], [0, 1, -3, 2048]]
    assert python(code, SPYRE_PROFILE="card").stdout.strip() == " ".join(map(str, expected))
