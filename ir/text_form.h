/* text_form: the graph as text and back, byte for byte.
 *
 *   module fashion_cnn capacity 64
 *   shards 4
 *   file 0 "fashion_cnn.dt"
 *   variable "Cnn/conv2d/kernel": f32[3, 3, 1, 64] parameter trainable shard(axis=3, groups=1) @0:14:9
 *   pipeline train_set = idx("train-images-idx3-ubyte.gz", …) | shuffle(60000) | batch(64) | prefetch(2) @0:5:1
 *   layer "Cnn/conv2d" conv2d 1 f32[B, 26, 26, 64] parameters 640 trainable 640 @0:14:9
 *   step train = train report train/report from train_set aggregates(sum, sum) trains @0:22:1
 *   row_init init/rows
 *   row_variable "Net/table" init init/rows0
 *   row_form "Net/table" of train indices train/indices 0 step train/rows 2 gradient 3 numbers 4 1 sum train/rows0/sum update train/rows0/update
 *       slots("adam/Net/table/m") moves "changes adam/Net/table/m" @0:14:9
 *   function train step (%0 image: u8[B, 28, 28] @0:22:12, %1 label: u8[B] @0:22:33) {
 *     %2: f32[B, 28, 28] = convert(%0, to=f32) @0:13:9
 *     %9: f32[64] = all_reduce(%8, kind="sum") {replicated} @0:14:9 @0:24:5
 *     write(%12, variable="Cnn/conv2d/bias") @0:24:5
 *     return aggregate0=%30, probability=%31
 *   }
 *
 * A row form without "gradient" and what follows it leaves the table as it is; "sum", "slots" and "moves" stand where there are such.
 * Attributes equal to their default are left out. The distribution, when known, stands in braces: {replicated}, {split(0)}, {partial(sum)}; then
 * "sharded", where it differs from shard to shard. A module of one shard does not say so, nor does a variable that is not split.
 * Floats print in shortest round-trip form. A name that is no word of letters, digits and _ / . - stands in quotes. A value may carry a name after
 * its number: "%3 hint: f32". A stage that stands elsewhere than its pipeline has its own place; an argument of a stage may be named, "size=64", or
 * be a function of the module, "map(function train_set/map0)". B and G in a shape are DT_BATCH and DT_GATHERED, and so are -1 and -2 in lists of
 * integers. White space is free when read, and # begins a comment. */
#ifndef DT_IR_TEXT_FORM_H
#define DT_IR_TEXT_FORM_H

#include "ir/graph.h"

void dt_module_print(dt_text *text, const dt_module *module);
void dt_function_print(dt_text *text, const dt_function *function);
void dt_value_print(dt_text *text, const dt_value *value); /* one line, without indentation */

/* `name` is what errors call the text ("fashion.ir"): "fashion.ir:12:4: …". */
dt_status *dt_module_parse(dt_arena *arena, const char *name, const char *source, dt_module **module);

/* A copy that shares nothing: what is printed, read back. */
dt_status *dt_module_copy(dt_arena *arena, const dt_module *module, dt_module **copy);

#endif
