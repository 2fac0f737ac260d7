/* cuda_shards: programs whose model is split into logical shards as CUDA text, by emulation: a shard's kernels, of which the launch says which shard
 * it is, against the program as it was written, which knows of no shards. */
#include "tests/ops/cuda_programs.h"

/* Columns and rows, relu and its mask, dropout, a norm, a clipped update. */
static const char dense_layers[] = "use nn, optimizers\n"
                                   "mesh model = %d\n"
                                   "layer part(x: f32[B, N]) {\n"
                                   "    h = dropout(dense(layer_norm(x), units: %d, activation: relu, shard: columns), rate: 0.2)\n"
                                   "    return x + dense(h, units: N, shard: rows)\n"
                                   "}\n"
                                   "model Net(x: f32[B, 6]) -> f32[B, 36] { return part(part(dense(x, units: 36, activation: relu))) }\n"
                                   "step train(x: f32[B, 6], y: f32[B, 36]) {\n"
                                   "    loss = mean(square(Net(x) - y), axis: 1)\n"
                                   "    apply(adam(learning_rate: 0.01), clip_by_global_norm(grad(objective(loss), params(Net)), 0.5))\n"
                                   "    report loss: mean(loss), greatest: max(loss)\n"
                                   "}\n"
                                   "step evaluate(x: f32[B, 6]) { return y: Net(x) }\n";

/* Heads, filters and channels, a vocabulary forwards and in the loss, the place of the greatest; masks of relu between what is split otherwise. */
static const char other_layers[] = "use nn, losses, optimizers\n"
                                   "mesh model = %d\n"
                                   "model Words(word: i32[B, 6]) {\n"
                                   "    param table: f32[%d, 16] = normal(stddev: 0.5), shard: 0\n"
                                   "    x = embedding(word, rows: 30, width: 16, shard: vocabulary) + table[word %% 26]\n"
                                   "    x = x + multi_head_attention(layer_norm(x), heads: 4, causal: true, dropout: 0.1, shard: heads)\n"
                                   "    return relu(dense(x, units: 16)) @ table.T\n"
                                   "}\n"
                                   "model Images(image: f32[B, 8, 8, 3]) -> f32[B, 5] {\n"
                                   "    x = conv2d(image, filters: 12, kernel: 3, padding: same, activation: relu, shard: columns)\n"
                                   "    x = max_pool2d(conv2d(x, filters: 8, kernel: 3, activation: relu, shard: rows))\n"
                                   "    x = dense(relu(flatten(x)), units: 24, activation: relu, shard: columns)\n"
                                   "    return dense(relu(x - 0.1), units: 5, shard: rows)\n"
                                   "}\n"
                                   "step words(word: u8[B, 7]) {\n"
                                   "    word = i32(word) %% 26\n"
                                   "    logits = Words(word[:, :-1])\n"
                                   "    loss = sparse_categorical_crossentropy(word[:, 1:], logits)\n"
                                   "    minimize(loss, lamb(learning_rate: 0.01, weight_decay: 0.01))\n"
                                   "    report loss: mean(loss), right: mean(argmax(logits) == word[:, 1:])\n"
                                   "}\n"
                                   "step images(image: f32[B, 8, 8, 3], y: f32[B, 5]) {\n"
                                   "    e = Images(image) - y\n"
                                   "    minimize(e * e, sgd(learning_rate: 0.1, momentum: 0.9))\n"
                                   "    report loss: mean(e * e)\n"
                                   "}\n";

typedef struct sizes {
    int shards, size; /* the size may be one that shards cannot share evenly */
    int64_t rows;
    int n_replicas;
} sizes;

static void run_in_shards(const char *format, const sizes *of, double tolerance) {
    char source[4096], name[64];
    snprintf(source, sizeof source, format, of->shards, of->size);
    snprintf(name, sizeof name, "%d shards of %d", of->shards, of->size);
    run_program(&(program){
        .name = name, .source = source, .capacity = 20, .rows = of->rows, .n_replicas = of->n_replicas, .n_steps = 2, .tolerance = tolerance});
}

static void columns_and_rows(void **state) {
    static const sizes all[] = {{2, 72, 20, 1}, {4, 72, 37, 2}, {4, 73, 17, 1}};
    (void)state;
    for (int i = 0; i < 3; i++) run_in_shards(dense_layers, &all[i], 1e-3);
}

static void heads_filters_and_vocabularies(void **state) {
    static const sizes all[] = {{2, 30, 20, 1}, {4, 27, 33, 2}};
    (void)state;
    for (int i = 0; i < 2; i++) run_in_shards(other_layers, &all[i], 1e-3);
}

int main(void) {
    if (dt_cpu_level() < 3) return puts("skipped: this machine is below x86-64-v3"), 77;
    const struct CMUnitTest tests[] = {cmocka_unit_test(columns_and_rows), cmocka_unit_test(heads_filters_and_vocabularies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
