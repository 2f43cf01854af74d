"""The operators of PyTorch that a brick may call, by name: a closed table, and the only way from a name to code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

FUNCTIONAL = """
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d affine_grid avg_pool1d avg_pool2d batch_norm
binary_cross_entropy_with_logits celu conv1d conv2d conv3d conv_transpose1d conv_transpose2d cosine_similarity
cross_entropy dropout dropout1d dropout2d elu embedding gelu glu grid_sample group_norm hardsigmoid hardswish
hardtanh huber_loss instance_norm interpolate l1_loss layer_norm leaky_relu linear local_response_norm log_softmax
logsigmoid max_pool1d max_pool2d mish mse_loss multi_head_attention_forward nll_loss normalize one_hot pad
pixel_shuffle pixel_unshuffle prelu relu relu6 relu_ rms_norm scaled_dot_product_attention selu sigmoid silu
smooth_l1_loss softmax softmin softplus softsign tanh unfold
"""
TORCH = """
_foreach_add_ _foreach_addcdiv_ _foreach_addcmul_ _foreach_div_ _foreach_lerp _foreach_lerp_ _foreach_mul
_foreach_mul_ _foreach_neg _foreach_norm _foreach_sqrt _foreach_sub_ _fused_adam_ _fused_adamw_ _fused_sgd_ abs add
addcdiv addcmul addmm all amax amin any arange argmax argmin baddbmm bernoulli bmm broadcast_tensors cat
channel_shuffle chunk clamp clamp_min clone concat cos cumsum div einsum empty empty_like eq erf exp expm1 eye flatten
flip full full_like gather ge gru gt index_select isfinite le lerp linspace log log1p logical_and logical_not
logical_or logsumexp lstm lt masked_fill matmul max maximum mean meshgrid min minimum mm movedim mul narrow ne neg
norm ones ones_like outer permute pow prod rand rand_like randint randn randn_like reciprocal relu remainder
repeat_interleave reshape rnn_relu rnn_tanh roll rsqrt scatter sigmoid sign sin softmax sort split sqrt square squeeze
stack std std_mean sub sum swapaxes tanh tensor_split tile topk transpose tril triu unbind unflatten unsqueeze var
var_mean where zeros zeros_like
"""
METHODS = """
__and__ __eq__ __floordiv__ __getitem__ __invert__ __neg__ __or__ __pow__ __radd__ __rdiv__ __rmul__ __rpow__ __rsub__
__setitem__ __xor__ abs add add_ addcdiv_ addcmul_ addmm all amax amin any argmax argsort bernoulli_ bfloat16 bmm bool
broadcast_to chunk clamp clamp_ clamp_min clone contiguous copy_ cos cpu cumsum detach diff div div_ eq exp expand
expand_as exponential_ fill_ flatten flip float floor gather ge gt half index_add_ index_copy_ index_select int le
lerp_ log log_softmax logical_or_ logsumexp long lt masked_fill masked_fill_ matmul max mean min mm movedim mul mul_
nan_to_num narrow ne neg new_empty new_full new_ones new_zeros norm normal_ permute pow prod random_ relu relu_
remainder repeat repeat_interleave reshape roll round rsqrt scatter scatter_ scatter_add select sigmoid sin softmax
sort split sqrt square squeeze std sub sub_ sum swapaxes t tanh tile to topk transpose tril triu type type_as unbind
unflatten unfold uniform_ unsqueeze unsqueeze_ var view view_as where zero_
"""
LINALG = "matrix_norm norm vector_norm"
PLACES = (
    ("F", F, FUNCTIONAL),
    ("linalg", torch.linalg, LINALG),
    ("torch", torch, TORCH),
    ("Tensor", torch.Tensor, METHODS),
)

FUNCTIONS: dict[str, Callable[..., Any]] = {
    f"{place}.{name}": getattr(holder, name)
    for place, holder, names in PLACES
    for name in names.split()
    if hasattr(holder, name)
}
NAMES: dict[Any, str] = {function: name for name, function in FUNCTIONS.items()}
