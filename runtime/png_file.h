/* png_file: results of a step as pictures. */
#ifndef DT_RUNTIME_PNG_FILE_H
#define DT_RUNTIME_PNG_FILE_H

#include "base/text.h"
#include "runtime/artifact/artifact.h"

/* Why a result cannot be written as pictures, after the words "result image: f32[B, 3]", or NULL where it can be: u8 or f32, [B, H, W], or
 * [B, H, W, C] with a C of 1, grey, or 3, red, green and blue. */
const char *dt_png_objection(const dt_artifact_tensor *tensor);

/* Writes row i of `rows` as FOLDER/NAME-i.png, i from 0 with as many digits as the last one has. Values of u8 are bytes of a picture. Those of f32
 * are from 0, black, to 1, white; or, where one of all rows is below 0, from -1 to 1, as a tanh makes them. DT_OUT_OF_RANGE: others, with the place
 * of the first. `files` gets the pattern of the names, for a message. Each file is whole or not there. */
dt_status *dt_png_write_rows(const char *folder, const dt_artifact_tensor *tensor, int64_t n_rows, const void *rows, dt_text *files);

/* Row `row` of `rows` as the bytes of a PNG file, which the caller releases; brightness as above, by all rows. */
dt_status *dt_png_encode_row(const dt_artifact_tensor *tensor, int64_t n_rows, const void *rows, int64_t row, char **bytes, size_t *n_bytes);

#endif
