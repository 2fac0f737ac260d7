"""convolutions: makes convolutions.safetensors, what Keras 3 computes for each form of convolution: values, gradients, and three updates (layer_updates.py).

    bench/peers/.venv/bin/python tests/golden/convolutions.py       a minute
"""

import layer_updates
from layer_updates import keras

K = keras.layers

CASES = [
    # name, call, Keras's layer, the shape of an example, arguments
    ("groups", "conv2d", K.Conv2D, (6, 5, 6), dict(filters=4, kernel=3, groups=2, padding="same")),
    ("groups_stride_2", "conv2d", K.Conv2D, (7, 6, 4), dict(filters=8, kernel=[3, 2], stride=2, groups=4)),
    ("dilation", "conv2d", K.Conv2D, (8, 9, 2), dict(filters=3, kernel=3, dilation=2)),
    ("dilation_same", "conv2d", K.Conv2D, (6, 8, 2), dict(filters=3, kernel=[2, 3], dilation=[3, 2], padding="same")),
    ("groups_dilation", "conv2d", K.Conv2D, (7, 7, 4), dict(filters=6, kernel=3, dilation=2, groups=2, activation="relu")),
    ("line", "conv1d", K.Conv1D, (9, 3), dict(filters=4, kernel=3)),
    ("line_same_stride_2", "conv1d", K.Conv1D, (8, 3), dict(filters=2, kernel=4, stride=2, padding="same", use_bias=False)),
    ("line_causal", "conv1d", K.Conv1D, (8, 3), dict(filters=2, kernel=3, dilation=2, padding="causal")),
    ("line_causal_stride_2", "conv1d", K.Conv1D, (8, 2), dict(filters=2, kernel=3, stride=2, padding="causal")),
    ("line_groups", "conv1d", K.Conv1D, (7, 6), dict(filters=9, kernel=2, groups=3)),
    ("transpose", "conv2d_transpose", K.Conv2DTranspose, (4, 3, 3), dict(filters=2, kernel=3, stride=2)),
    ("transpose_dilation", "conv2d_transpose", K.Conv2DTranspose, (4, 3, 2), dict(filters=2, kernel=[2, 3], dilation=2, padding="same")),
    *(
        (f"transpose_{kernel}_by_{stride}_{padding}_{more}", "conv2d_transpose", K.Conv2DTranspose, (3, 4, 2),
         dict(filters=3, kernel=kernel, stride=stride, padding=padding) | ({} if more is None else {"output_padding": more}))
        for kernel, stride, padding, more in ((3, 2, "same", None), (4, 2, "same", None), (2, 3, "same", None), (2, 3, "valid", None), (3, 1, "same", None),
                                              (3, 2, "same", 1), (4, 3, "same", 2), (3, 2, "valid", 1), (5, 2, "same", 0), (1, 2, "same", 1))
    ),
    ("line_transpose", "conv1d_transpose", K.Conv1DTranspose, (5, 3), dict(filters=2, kernel=3, stride=2, padding="same")),
    ("line_transpose_valid", "conv1d_transpose", K.Conv1DTranspose, (4, 2), dict(filters=3, kernel=4, stride=3, use_bias=False)),
    ("box", "conv3d", K.Conv3D, (4, 5, 4, 2), dict(filters=3, kernel=[2, 3, 2])),
    ("box_groups_stride_2", "conv3d", K.Conv3D, (5, 4, 5, 4), dict(filters=2, kernel=3, stride=[2, 1, 2], padding="same", groups=2)),
    ("box_dilation", "conv3d", K.Conv3D, (4, 3, 5, 1), dict(filters=2, kernel=2, dilation=[3, 1, 2], activation="relu")),
    ("box_transpose", "conv3d_transpose", K.Conv3DTranspose, (3, 2, 3, 2), dict(filters=2, kernel=3, stride=2, padding="same")),
    ("depthwise", "depthwise_conv2d", K.DepthwiseConv2D, (6, 7, 5), dict(kernel=3, padding="same")),
    ("depthwise_multiplier", "depthwise_conv2d", K.DepthwiseConv2D, (5, 6, 3), dict(kernel=[3, 2], depth_multiplier=2)),
    ("depthwise_stride_2", "depthwise_conv2d", K.DepthwiseConv2D, (7, 6, 4), dict(kernel=3, stride=2, padding="same", use_bias=False)),
    ("depthwise_dilation", "depthwise_conv2d", K.DepthwiseConv2D, (7, 7, 4), dict(kernel=3, dilation=2, activation="relu")),
    ("depthwise_one_channel", "depthwise_conv2d", K.DepthwiseConv2D, (5, 5, 1), dict(kernel=3, depth_multiplier=2)),
    ("depthwise_line", "depthwise_conv1d", K.DepthwiseConv1D, (8, 4), dict(kernel=3, stride=2, padding="same", depth_multiplier=2)),
    ("separable", "separable_conv2d", K.SeparableConv2D, (6, 5, 3), dict(filters=4, kernel=3, padding="same")),
    ("separable_multiplier", "separable_conv2d", K.SeparableConv2D, (6, 6, 2), dict(filters=3, kernel=3, stride=2, depth_multiplier=3)),
    ("separable_dilation", "separable_conv2d", K.SeparableConv2D, (7, 7, 2), dict(filters=3, kernel=3, dilation=2, use_bias=False)),
    ("separable_line", "separable_conv1d", K.SeparableConv1D, (7, 3),
     dict(filters=2, kernel=3, padding="same", depth_multiplier=2, activation="relu")),
]  # fmt: skip

if __name__ == "__main__":
    layer_updates.make("convolutions", CASES)
