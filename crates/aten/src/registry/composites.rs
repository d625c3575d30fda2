/// Composites, by the file of `torch_spyre.ops.composites` that has them.
pub(super) const COMPOSITES: &[(&str, &str)] = &[
    (
        "antialiasing",
        "_upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa \
         _upsample_bilinear2d_aa_backward _upsample_lanczos2d_aa \
         _upsample_lanczos2d_aa_backward",
    ),
    (
        "bags",
        "_embedding_bag _embedding_bag_backward _embedding_bag_dense_backward \
         _embedding_bag_forward_only _embedding_bag_per_sample_weights_backward",
    ),
    (
        "borders",
        "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d \
         replication_pad2d replication_pad3d",
    ),
    ("boxes", "torchvision::_roi_align_backward torchvision::nms torchvision::roi_align"),
    ("bytes_images", "upsample_bilinear2d"),
    (
        "cells",
        "_thnn_fused_gru_cell _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell \
         _thnn_fused_lstm_cell_backward_impl",
    ),
    (
        "complexes",
        "bmm cat cumprod dot index_add logsumexp mm nan_to_num normal_ prod prod.dim_int \
         uniform_",
    ),
    (
        "counting",
        "bincount bucketize.Tensor histc histogram.bin_ct histogram.bins_tensor \
         searchsorted.Scalar searchsorted.Tensor",
    ),
    ("distances", "_cdist_backward _cdist_forward _pdist_backward _pdist_forward"),
    (
        "elimination",
        "_linalg_det _linalg_slogdet _linalg_solve_ex linalg_inv_ex linalg_lu \
         linalg_lu_factor_ex linalg_lu_solve lu_unpack",
    ),
    ("fourier", "_fft_c2c _fft_c2r _fft_r2c"),
    ("hashing", "hash_tensor"),
    (
        "indices",
        "embedding_renorm_ equal index_fill.int_Tensor index_reduce masked_scatter \
         masked_select nonzero nonzero_static put repeat_interleave.Tensor \
         scatter_reduce.two take",
    ),
    (
        "losses",
        "binary_cross_entropy multi_margin_loss multi_margin_loss_backward \
         multilabel_margin_loss_backward multilabel_margin_loss_forward \
         nll_loss2d_forward nll_loss_forward",
    ),
    (
        "factories",
        "_efficientzerotensor eye.m_out eye.out frexp.Tensor kaiser_window \
         kaiser_window.beta kaiser_window.periodic linspace.out logspace.out nextafter \
         range.out",
    ),
    ("matrices", "_trilinear addbmm linalg_cross trace"),
    ("norms", "native_layer_norm"),
    ("ordering", "argmax argmin kthvalue median median.dim mode nanmedian nanmedian.dim"),
    ("pools", "max_unpool2d max_unpool3d"),
    ("reflections", "geqrf linalg_householder_product linalg_qr ormqr"),
    ("sampling", "grid_sampler_2d grid_sampler_2d_backward"),
    ("scans", "_logcumsumexp"),
    (
        "triangles",
        "_cholesky_solve_helper cholesky cholesky_inverse linalg_cholesky_ex \
         linalg_solve_triangular triangular_solve",
    ),
    ("unique", "_unique _unique2 unique_consecutive unique_dim"),
];
