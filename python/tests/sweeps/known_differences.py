"""Differences that are known, each with its reason."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch


class Known(NamedTuple):
    """Operators by name, kinds of cases, what the difference says, and why it stays."""

    names: str
    kinds: str
    says: str
    reason: str


def only(pair: str) -> str:
    """Values that differ in no other way than what stands for what, such as `inf for nan`."""
    return rf"^(?:{pair})(?:, (?:{pair}))* \|"


NOT_FINITE = only(r"(?:nan|-?inf) for (?:nan|-?inf|a number)|a number for (?:nan|-?inf)")
"""Wherever one side has a number, the other has the same, or none."""
FACTORS = (
    r"(linalg\.)?(cholesky\w*|qr|lu\w*|eig\w*|svd\w*|inv\w*|pinv|solve\w*|householder_product|lstsq|ldl\w*|det|slogdet"
    r"|matrix_\w+|tensor\w+|cond|norm|multi_dot)(\..*)?|geqrf|ormqr|triangular_solve|logdet|pca_lowrank"
)
FOURIER = r"fft\..*|stft|istft"

HALVES_OF_THE_CPU = (
    ()
    if torch.ops.mkldnn._is_mkldnn_fp16_supported()
    else (
        Known(r"nn\.functional\.conv_transpose3d", r"formats|specials", only(r"a number for a number|-?inf for nan"),
              "this CPU's library has no kernels of float16, and those in their place sum in float16"),
    )
)  # fmt: skip
"""Differences on machines whose library does not compute with float16: the CPU's results are four times as far off."""

KNOWN: tuple[Known, ...] = (
    *HALVES_OF_THE_CPU,
    # Sums of what is not finite.
    Known(FOURIER, r"specials", NOT_FINITE, "in a product with waves, what is not finite reaches all of its row"),
    Known(FACTORS, r"specials", NOT_FINITE, "LAPACK says nothing of what is not finite"),
    Known(r"_upsample_bilinear2d_aa", r"specials", only(r"nan for (?:-?inf|a number)"),
          "in a product with weights, what is not finite reaches all of its row"),
    Known(r"nn\.functional\.conv.*", r"specials", only(r"(?:-?inf|a number) for nan"),
          "the CPU's products take in zeros beside the image, which have no product with what is not finite"),
    Known(r"addbmm", r"specials", only(r"a number for inf"), "the CPU rounds each batch's sum, which may be too large"),
    Known(r"nn\.functional\.linear_cross_entropy", r"specials", only(r"nan for a number"),
          "half of the largest number, twice, is too large for a float16"),
    # Limits: what the CPU computes there overflows, or is a product of zero and infinity.
    Known(r"i0|special\.(i1|modified_bessel_i[01])|nn\.functional\.gelu", r"specials", only(r"-?inf for nan"),
          "the CPU multiplies infinity by what is zero"),
    Known(r"nn\.functional\.gelu", r"specials", only(r"a number for inf|inf for nan"),
          "the CPU's cube of the largest number is infinite"),
    Known(r"igammac?|(special\.)?polygamma|special\.(zeta|airy_ai|bessel_[jy][01])", r"specials",
          only(r"a number for nan"), "the CPU has NaN where there is a limit"),
    Known(r"special\.zeta", r"specials", only(r"nan for inf"), "the CPU has a pole at one, also of NaN"),
    Known(r"(var|std)_mean|native_layer_norm", r"specials", only(r"-?inf for nan"),
          "the CPU's running mean loses an infinity"),
    Known(r"nn\.functional\.layer_norm", r"specials", only(r"a number for nan"), "the CPU's squares are infinite"),
    Known(r"std(_mean)?", r"specials", only(r"inf for a number"), "the CPU's squares are wider than a float32"),
    Known(r"special\.(chebyshev_polynomial_[uvw]|(hermite|laguerre|legendre)_polynomial_\w+)", r"specials",
          only(r"-?inf for nan"), "the CPU subtracts infinities on the way"),
    Known(r"special\.((shifted_)?chebyshev_polynomial_[uw]|(laguerre_polynomial_l|legendre_polynomial_p))", r"specials",
          only(r"nan for a number"), "the CPU takes a degree of NaN for the least whole number, and there is no such polynomial"),
    # Places.
    Known(r"cholesky_inverse|linalg\.eig(vals)?", r"out_views", r"^[26] against 1$",
          "the CPU lays out anew what has no elements"),
    Known(r"geqrf|ormqr|linalg\.householder_product", r"out_shapes", r"^1 against [25]$", "the CPU lays in rows what had other elements"),
    Known(FOURIER, r"formats|empties", r"^strides", "the CPU's library decides which dim its results lie along"),
    Known(r"nn\.functional\.conv_transpose3d", r"formats", r"^strides",
          "on the CPU, which of its kernels is taken decides whether volumes lie in rows"),
    Known(r"nn\.functional\.max_pool1d", r"formats", r"^strides \(2, 1, 2\) against \(2, 1, 1\)$",
          "the stride of a single element says nothing"),
    # The CPU's own faults.
    Known(r"nn\.functional\.(gelu|avg_pool3d)|narrow_copy", r"out_views", only(r"a number for a number"),
          "the CPU writes a result as if it lay in rows"),
    Known(r"add(mm|bmm|mv|r).*|baddbmm|masked_scatter|nn\.functional\.avg_pool2d|linalg\.lu_solve", r"in_place|out_overlaps",
          only(r"a number for a number"), "the CPU reads what it has written"),
    Known(r"amax|amin|mean|nanmean|nansum", r"out_overlaps", r"^a number for (a number|-?inf) \| Mismatched elements: 1 / 1 ",
          "the CPU fills the result, which it was given as its input, before it reads"),
    Known(r"addr", r"in_place", r"^is accepted against RuntimeError: 2D tensor expected, got 0D",
          "the CPU asks for two dims in place only"),
    Known(r"narrow_copy", r"out_shapes", r"^True against False$", "the CPU resizes without a word"),
    Known(r"nn\.functional\.pixel_unshuffle", r"empties", r"against", "the CPU's kernel gives nothing its first shape"),
    Known(r"native_group_norm", r"formats", r"^is accepted against RuntimeError: Expected X.is_contiguous",
          "the CPU's kernel leaves it to its callers to lay images in rows"),
    Known(r"native_group_norm", r"empties", r"^is accepted against RuntimeError: Expected X.numel",
          "the CPU's kernel does not take images that have nothing in them"),
    Known(r"native_batch_norm", r"empties|out_dtypes|out_shapes|out_views", r"against|Mismatched",
          "the CPU leaves statistics that are not trained without elements"),
    # What is not looked at before it is waited for.
    Known(r"nn\.functional\.(cross_entropy|embedding|nll_loss)", r"empties",
          r"^raises (IndexError|RuntimeError): stream \d+, block \d+ .* against",
          "an index that is out of range is reported when it is waited for, by its own name"),
    Known(r"resize_|resize_as_|empty.*|new_empty.*", r".*", only(r".*"), "memory that was never written"),
)  # fmt: skip


def reason(name: str, kind: str, label: str, dtype: torch.dtype, why: str) -> str | None:
    """Reason why a difference stays; None if the table does not have it."""
    for known in KNOWN:
        if re.fullmatch(known.names, name) and re.fullmatch(known.kinds, kind) and re.search(known.says, why):
            return known.reason
    return None
