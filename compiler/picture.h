/* picture: a step of a program as boxes and arrows that a person can take in: what its forward part computes, layer by layer.
 *
 * A layer without layers in it is one box; others are frames around theirs. What is computed between layers is a box for each line of the program.
 * Constants and parameters have no boxes: they are part of what uses them. Gradients, updates and what they cross are one box, reports are another.
 */
#ifndef DT_COMPILER_PICTURE_H
#define DT_COMPILER_PICTURE_H

#include "compiler/kernel/compilation.h"

typedef enum dt_picture_role {
    DT_PICTURE_INPUT,
    DT_PICTURE_LAYER,    /* without layers in it */
    DT_PICTURE_FUNCTION, /* of the library */
    DT_PICTURE_LINE,
    DT_PICTURE_RESULT,
    DT_PICTURE_REPORTS,
    DT_PICTURE_GRADIENTS
} dt_picture_role;

typedef struct dt_picture_box {
    dt_picture_role role;
    const char *layer;  /* path of its own, or of the function; of others that of the layer around it, NULL: none */
    const char *around; /* path of the frame that it stands in; NULL: none */
    int call;           /* of the model */
    const char *name;   /* "conv2d_1", "divide, relu", "loss, accuracy" */
    const char *kind;   /* of a layer: "conv2d" */
    int64_t n_parameters;
    dt_location location;
    int n_crossing; /* values that cross replicas for it */
    int64_t crossing_bytes;
    DT_LIST(int) next; /* boxes that arrows lead to */
} dt_picture_box;

typedef struct dt_picture_arrow {
    int from, to; /* boxes */
    dt_dtype dtype;
    dt_shape shape;
} dt_picture_arrow;

typedef struct dt_picture {
    const dt_module *module;
    const dt_step *step;
    int depth;
    DT_LIST(dt_picture_box) boxes;
    DT_LIST(dt_picture_arrow) arrows;
} dt_picture;

/* Of a step as the front end made it: before any pass. depth: layers at this depth are boxes, whatever is in them; models are at 0; -1: none is. */
void dt_picture_make(dt_arena *arena, const dt_module *module, const dt_step *step, int depth, dt_picture *picture);

/* Once all passes have run: which boxes have something that crosses replicas. */
void dt_picture_mark_crossing(dt_picture *picture, const dt_compilation *compilation);

/* For Graphviz. */
void dt_picture_print(dt_arena *arena, const dt_picture *picture, dt_text *text);

#endif
