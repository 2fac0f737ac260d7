/* kernel_cases: what is measured: the matrix products and convolutions of examples/ with their gradients, and shapes that no example has.
 *
 * The second list is for what generated code finds hard: sizes that are a multiple of nothing, groups, large kernels, operands beyond the caches. */
#include "bench/kernel_case.h"

#include <stddef.h>

// clang-format off
#define PRODUCT(title, ...) {.kind = CASE_MATMUL, .name = title, .matmul = {.batch = 1, __VA_ARGS__}}
#define PRODUCTS(title, ...) {.kind = CASE_MATMUL, .name = title, .matmul = {__VA_ARGS__}}
#define CONV(title, ...) {.kind = CASE_CONV, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define CONV_INPUT(title, ...) {.kind = CASE_CONV_INPUT, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define CONV_KERNEL(title, ...) {.kind = CASE_CONV_KERNEL, .name = title, .conv = {.images = 64, __VA_ARGS__}}
#define OTHER(title, ...) {.kind = CASE_OTHER, .name = title, .other = {__VA_ARGS__}}

#define CNN_1 .size = {28, 28}, .channels = 1, .filters = 64, .kernel = {3, 3}, .stride = {1, 1}
#define CNN_2 .size = {13, 13}, .channels = 64, .filters = 128, .kernel = {3, 3}, .stride = {1, 1}
#define RESNET_STEM .size = {28, 28}, .channels = 1, .filters = 32, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define RESNET_1 .size = {28, 28}, .channels = 32, .filters = 32, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define RESNET_DOWN .size = {28, 28}, .channels = 32, .filters = 64, .kernel = {3, 3}, .stride = {2, 2}, .after = {1, 1}
#define RESNET_2 .size = {14, 14}, .channels = 64, .filters = 64, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define RESNET_DOWN_2 .size = {14, 14}, .channels = 64, .filters = 128, .kernel = {3, 3}, .stride = {2, 2}, .after = {1, 1}
#define RESNET_3 .size = {7, 7}, .channels = 128, .filters = 128, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define RESNET_SHORTCUT .size = {28, 28}, .channels = 32, .filters = 64, .kernel = {1, 1}, .stride = {2, 2}
#define GAN_1 .size = {28, 28}, .channels = 1, .filters = 32, .kernel = {4, 4}, .stride = {2, 2}, .before = {1, 1}, .after = {1, 1}
#define GAN_2 .size = {14, 14}, .channels = 32, .filters = 64, .kernel = {4, 4}, .stride = {2, 2}, .before = {1, 1}, .after = {1, 1}

const kernel_case kernel_cases_of_examples[] = {
    CONV("cnn: convolution 28 x 28 x 1 to 64", CNN_1),
    CONV_KERNEL("cnn: … its kernel's gradient", CNN_1),
    CONV("cnn: convolution 13 x 13 x 64 to 128", CNN_2),
    CONV_INPUT("cnn: … its input's gradient", CNN_2),
    CONV_KERNEL("cnn: … its kernel's gradient", CNN_2),
    PRODUCT("cnn: dense 64 x 3200 to 10", .m = 64, .k = 3200, .n = 10, .rows = 'm'),
    PRODUCT("cnn: … its input's gradient", .m = 64, .k = 10, .n = 3200, .transpose_b = true, .rows = 'm'),
    PRODUCT("cnn: … its kernel's gradient", .m = 3200, .k = 64, .n = 10, .transpose_a = true, .rows = 'k'),
    PRODUCT("perceptron: dense 32 x 784 to 128", .m = 32, .k = 784, .n = 128, .rows = 'm'),
    PRODUCT("perceptron: … its kernel's gradient", .m = 784, .k = 32, .n = 128, .transpose_a = true, .rows = 'k'),
    CONV("resnet: stem 28 x 28 x 1 to 32", RESNET_STEM),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_STEM),
    CONV("resnet: convolution 28 x 28 x 32 to 32", RESNET_1),
    CONV_INPUT("resnet: … its input's gradient", RESNET_1),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_1),
    CONV("resnet: 28 x 28 x 32 to 64, stride 2", RESNET_DOWN),
    CONV_INPUT("resnet: … its input's gradient", RESNET_DOWN),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_DOWN),
    CONV("resnet: convolution 14 x 14 x 64 to 64", RESNET_2),
    CONV_INPUT("resnet: … its input's gradient", RESNET_2),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_2),
    CONV("resnet: 14 x 14 x 64 to 128, stride 2", RESNET_DOWN_2),
    CONV_INPUT("resnet: … its input's gradient", RESNET_DOWN_2),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_DOWN_2),
    CONV("resnet: convolution 7 x 7 x 128 to 128", RESNET_3),
    CONV_INPUT("resnet: … its input's gradient", RESNET_3),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_3),
    CONV("resnet: shortcut 28 x 28 x 32 to 64", RESNET_SHORTCUT),
    CONV_INPUT("resnet: … its input's gradient", RESNET_SHORTCUT),
    CONV_KERNEL("resnet: … its kernel's gradient", RESNET_SHORTCUT),
    PRODUCT("gan: dense 128 x 64 to 3136", .m = 128, .k = 64, .n = 3136, .rows = 'm'),
    PRODUCT("gan: … its kernel's gradient", .m = 64, .k = 128, .n = 3136, .transpose_a = true, .rows = 'k'),
    CONV("gan: convolution 28 x 28 x 1 to 32, stride 2", GAN_1),
    CONV_INPUT("gan: … its input's gradient, a transposed convolution", GAN_1),
    CONV_KERNEL("gan: … its kernel's gradient", GAN_1),
    CONV("gan: convolution 14 x 14 x 32 to 64, stride 2", GAN_2),
    CONV_INPUT("gan: … its input's gradient, a transposed convolution", GAN_2),
    CONV_KERNEL("gan: … its kernel's gradient", GAN_2),
    PRODUCT("gpt: 4096 x 128 to 384", .m = 4096, .k = 128, .n = 384, .rows = 'm'),
    PRODUCT("gpt: 4096 x 128 to 512", .m = 4096, .k = 128, .n = 512, .rows = 'm'),
    PRODUCT("gpt: … its input's gradient", .m = 4096, .k = 512, .n = 128, .transpose_b = true, .rows = 'm'),
    PRODUCT("gpt: … its kernel's gradient", .m = 128, .k = 4096, .n = 512, .transpose_a = true, .rows = 'k'),
    PRODUCT("gpt: 4096 x 512 to 128", .m = 4096, .k = 512, .n = 128, .rows = 'm'),
    PRODUCT("gpt: to the vocabulary, 4096 x 128 to 256", .m = 4096, .k = 128, .n = 256, .transpose_b = true, .rows = 'm'),
    PRODUCTS("gpt: queries by keys, 128 of 128 x 32", .batch = 128, .m = 128, .k = 32, .n = 128, .transpose_b = true),
    PRODUCTS("gpt: weights by values, 128 of 128 x 128", .batch = 128, .m = 128, .k = 128, .n = 32),
    PRODUCT("bert: 4096 x 128 to 128", .m = 4096, .k = 128, .n = 128, .rows = 'm'),
    PRODUCT("bert: … its kernel's gradient", .m = 128, .k = 4096, .n = 128, .transpose_a = true, .rows = 'k'),
    PRODUCTS("bert: queries by keys, 16 of 512 x 64", .batch = 16, .m = 512, .k = 64, .n = 512, .transpose_b = true),
    PRODUCTS("bert: weights by values, 16 of 512 x 512", .batch = 16, .m = 512, .k = 512, .n = 64),
    PRODUCT("bert: to the vocabulary, 768 x 128 to 30522", .m = 768, .k = 128, .n = 30522, .transpose_b = true, .rows = 'm'),
    PRODUCT("bert: … its input's gradient", .m = 768, .k = 30522, .n = 128, .rows = 'm'),
    PRODUCT("bert: … its table's gradient", .m = 30522, .k = 768, .n = 128, .transpose_a = true, .rows = 'k'),
    {.name = NULL},
};

#define SEVEN .size = {28, 28}, .channels = 3, .filters = 48, .kernel = {7, 7}, .stride = {2, 2}, .before = {2, 2}, .after = {3, 3}
#define FIVE .size = {14, 14}, .channels = 48, .filters = 33, .kernel = {5, 5}, .stride = {1, 1}, .before = {2, 2}, .after = {2, 2}
#define FIVE_DOWN .size = {14, 14}, .channels = 33, .filters = 48, .kernel = {5, 5}, .stride = {2, 2}, .before = {1, 1}, .after = {2, 2}
#define ONE .size = {14, 14}, .channels = 48, .filters = 33, .kernel = {1, 1}, .stride = {1, 1}
#define VALID_DOWN .size = {29, 29}, .channels = 33, .filters = 33, .kernel = {3, 3}, .stride = {2, 2}
#define GROUPS .size = {28, 28}, .channels = 64, .filters = 64, .groups = 4, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define DEPTHWISE .size = {28, 28}, .channels = 64, .filters = 64, .groups = 64, .kernel = {3, 3}, .stride = {1, 1}, .before = {1, 1}, .after = {1, 1}
#define DEPTHWISE_DOWN .size = {28, 28}, .channels = 64, .filters = 64, .groups = 64, .kernel = {3, 3}, .stride = {2, 2}, .after = {1, 1}

const kernel_case kernel_cases_of_others[] = {
    CONV("7 x 7: stride 2, 28 x 28 x 3 to 48", SEVEN),
    CONV_INPUT("7 x 7: … its input's gradient", SEVEN),
    CONV_KERNEL("7 x 7: … its kernel's gradient", SEVEN),
    CONV("5 x 5: 14 x 14 x 48 to 33", FIVE),
    CONV_INPUT("5 x 5: … its input's gradient", FIVE),
    CONV_KERNEL("5 x 5: … its kernel's gradient", FIVE),
    CONV("5 x 5 stride 2: 14 x 14 x 33 to 48", FIVE_DOWN),
    CONV_INPUT("5 x 5 stride 2: … its input's gradient", FIVE_DOWN),
    CONV_KERNEL("5 x 5 stride 2: … its kernel's gradient", FIVE_DOWN),
    CONV("1 x 1: 14 x 14 x 48 to 33", ONE),
    CONV_INPUT("1 x 1: … its input's gradient", ONE),
    CONV_KERNEL("1 x 1: … its kernel's gradient", ONE),
    CONV("3 x 3 stride 2 valid: 29 x 29 x 33 to 33", VALID_DOWN),
    CONV_INPUT("3 x 3 stride 2 valid: … its input's gradient", VALID_DOWN),
    CONV_KERNEL("3 x 3 stride 2 valid: … its kernel's gradient", VALID_DOWN),
    CONV("groups: 4 of 16, 3 x 3 of 28 x 28", GROUPS),
    CONV_INPUT("groups: … its input's gradient", GROUPS),
    CONV_KERNEL("groups: … its kernel's gradient", GROUPS),
    CONV("depthwise: 3 x 3 of 28 x 28 x 64", DEPTHWISE),
    CONV_INPUT("depthwise: … its input's gradient", DEPTHWISE),
    CONV_KERNEL("depthwise: … its kernel's gradient", DEPTHWISE),
    CONV("depthwise stride 2: 3 x 3 of 28 x 28 x 64", DEPTHWISE_DOWN),
    CONV_INPUT("depthwise stride 2: … its input's gradient", DEPTHWISE_DOWN),
    CONV_KERNEL("depthwise stride 2: … its kernel's gradient", DEPTHWISE_DOWN),
    PRODUCT("8 x 8 to 8", .m = 8, .k = 8, .n = 8),
    PRODUCT("33 x 48 to 33", .m = 33, .k = 48, .n = 33),
    PRODUCT("100 x 100 to 100, both transposed", .m = 100, .k = 100, .n = 100, .transpose_a = true, .transpose_b = true),
    PRODUCT("512 x 512 to 512", .m = 512, .k = 512, .n = 512),
    PRODUCT("1024 x 1024 to 1024", .m = 1024, .k = 1024, .n = 1024),
    PRODUCT("2048 x 2048 to 2048", .m = 2048, .k = 2048, .n = 2048),
    OTHER("pooling 2 x 2 of 26 x 26 x 64", "%0 x: f32[B, 26, 26, 64]", "f32[B, 13, 13, 64]", "max_pool2d(%0, size=[2, 2], strides=[2, 2])",
          1.0 * KERNEL_CASE_ROWS * 26 * 26 * 64),
    OTHER("sum over rows and 121 positions", "%0 x: f32[B, 121, 128]", "f32[128]", "reduce_sum(%0, axes=[0, 1])", 1.0 * KERNEL_CASE_ROWS * 121 * 128),
    OTHER("exponential of 64 x 3200", "%0 x: f32[B, 3200]", "f32[B, 3200]", "exp(%0)", 1.0 * KERNEL_CASE_ROWS * 3200),
    {.name = NULL},
};
// clang-format on
