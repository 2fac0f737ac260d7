/* manifest_library: see the header. Lists of numbers are in the order of the struct's fields. */
#include "compiler/manifest_library.h"
#include "compiler/kernel/library.h"

static cJSON *list(const int64_t *values, int64_t n) {
    cJSON *array = cJSON_CreateArray();
    for (int64_t i = 0; i < n; i++) cJSON_AddItemToArray(array, cJSON_CreateNumber((double)values[i]));
    return array;
}

static void add_list(cJSON *object, const char *key, const int64_t *values, int64_t n) { cJSON_AddItemToObject(object, key, list(values, n)); }

static void add_matrix(cJSON *object, const char *key, const dt_library_matrix *matrix, int64_t n_batches) {
    cJSON *item = cJSON_AddObjectToObject(object, key);
    cJSON_AddNumberToObject(item, "argument", (double)matrix->argument);
    cJSON_AddNumberToObject(item, "offset", (double)matrix->offset);
    add_list(item, "strides", matrix->strides, 2);
    add_list(item, "batch_strides", matrix->batch_strides, n_batches);
}

static void add_product(cJSON *object, const dt_library_product *p) {
    add_list(object, "sizes", (const int64_t[]){p->rows, p->columns, p->terms}, 3);
    add_list(object, "batches", p->batches, p->n_batches);
    add_matrix(object, "first", &p->first, p->n_batches);
    add_matrix(object, "second", &p->second, p->n_batches);
    add_matrix(object, "result", &p->result, p->n_batches);
    cJSON_AddNumberToObject(object, "scale", p->scale);
    if (p->bias >= 0) add_list(object, "bias", (const int64_t[]){p->bias, p->bias_offset}, 2);
    cJSON_AddStringToObject(object, "activation", dt_library_activation_names()[p->activation]);
    if (p->kept >= 0) cJSON_AddNumberToObject(object, "kept", (double)p->kept);
    if (p->bias_gradient.argument < 0) return;
    cJSON *gradient = cJSON_AddObjectToObject(object, "bias_gradient");
    cJSON_AddNumberToObject(gradient, "argument", (double)p->bias_gradient.argument);
    cJSON_AddNumberToObject(gradient, "offset", (double)p->bias_gradient.offset);
    cJSON_AddBoolToObject(gradient, "of_first", p->bias_gradient.of_first);
    cJSON_AddNumberToObject(gradient, "launches", (double)p->bias_gradient.n_launches);
}

static void add_convolution(cJSON *object, const dt_library_convolution *c) {
    int64_t n = c->n_directions;
    add_list(object, "sizes", (const int64_t[]){c->images, c->channels, c->filters}, 3);
    if (c->groups > 1) cJSON_AddNumberToObject(object, "groups", (double)c->groups);
    add_list(object, "input", c->input, n);
    add_list(object, "taps", c->taps, n);
    add_list(object, "output", c->output, n);
    add_list(object, "stride", c->stride, n);
    add_list(object, "dilation", c->dilation, n);
    add_list(object, "padding", c->padding, n);
    add_list(object, "padding_after", c->padding_after, n);
    add_list(object, "arguments", (const int64_t[]){c->x, c->kernel, c->y}, 3);
}

void dt_manifest_add_library(cJSON *call, const dt_library_call *library) {
    cJSON *object = cJSON_AddObjectToObject(call, "library");
    cJSON_AddStringToObject(object, "class", dt_library_class_names()[library->class]);
    cJSON_AddNumberToObject(object, "launches", (double)library->n_launches);
    cJSON_AddStringToObject(object, "precision", dt_precision_name(library->precision));
    if (library->class == DT_LIBRARY_PRODUCT)
        add_product(object, &library->product);
    else
        add_convolution(object, &library->convolution);
    cJSON *clears = cJSON_AddArrayToObject(object, "clears");
    for (int64_t i = 0; i < library->n_clears; i++)
        cJSON_AddItemToArray(clears, list((const int64_t[]){library->clears[i].argument, library->clears[i].row_bytes}, 2));
}
