/* picture_print: a picture as text for Graphviz. Labels are its HTML: a bold name, and below it what there is to say. */
#include "compiler/picture.h"

#include <inttypes.h>
#include <string.h>

static void print_escaped(dt_text *text, const char *string) {
    for (; *string != 0; string++) {
        const char *entity = *string == '&' ? "&amp;" : *string == '<' ? "&lt;" : *string == '>' ? "&gt;" : *string == '"' ? "&quot;" : NULL;
        if (entity != NULL)
            dt_text_append(text, entity);
        else
            dt_text_append_bytes(text, string, 1);
    }
}

/* X(role, shape, fill, border) */
#define LOOKS(X)                                                                                                                                     \
    X(INPUT, "ellipse", "#dafbe1", "#1a7f37")                                                                                                        \
    X(LAYER, "box", "#ffffff", "#0969da")                                                                                                            \
    X(FUNCTION, "box", "#ffffff", "#57606a")                                                                                                         \
    X(LINE, "box", "#f6f8fa", "#afb8c1")                                                                                                             \
    X(RESULT, "ellipse", "#fff8c5", "#9a6700")                                                                                                       \
    X(REPORTS, "note", "#fff8c5", "#9a6700")                                                                                                         \
    X(GRADIENTS, "note", "#fbefff", "#8250df")

static void print_look(dt_text *text, const dt_picture_box *box) {
    static const struct {
        const char *shape, *fill, *border;
    } looks[] = {
#define X(role, shape, fill, border) [DT_PICTURE_##role] = {shape, fill, border},
        LOOKS(X)
#undef X
    };
    bool crosses = box->n_crossing > 0;
    dt_text_format(text, "shape=%s fillcolor=\"%s\" color=\"%s\"%s", looks[box->role].shape, looks[box->role].fill,
                   crosses ? "#bc4c00" : looks[box->role].border, crosses ? " penwidth=2.5" : "");
}

#define SMALL "<br/><font point-size=\"10\" color=\"#57606a\">"
#define ORANGE "<br/><font point-size=\"10\" color=\"#bc4c00\">"

/* "conv2d" where the name says it already is left out. */
static void print_details(dt_text *text, const dt_picture *picture, const dt_picture_box *box) {
    char number[32];
    bool says_kind = box->role == DT_PICTURE_LAYER && strncmp(box->name, box->kind, strlen(box->kind)) != 0;
    const char *file = box->location.file >= 0 ? picture->module->files.items[box->location.file] : "";
    if (says_kind) dt_text_format(text, SMALL "%s</font>", box->kind);
    if (box->role == DT_PICTURE_REPORTS) dt_text_append(text, SMALL "reports</font>");
    if (box->role == DT_PICTURE_RESULT) dt_text_append(text, SMALL "result</font>");
    if (box->n_parameters > 0) dt_text_format(text, SMALL "%s parameters</font>", dt_text_with_commas(box->n_parameters, number));
    if ((box->role == DT_PICTURE_LINE || box->role == DT_PICTURE_FUNCTION) && box->location.file >= 0) {
        dt_text_append(text, SMALL);
        print_escaped(text, file);
        dt_text_format(text, ":%d</font>", box->location.line);
    }
    if (box->n_crossing == 0) return;
    bool in_kib = box->crossing_bytes >= 10240;
    dt_text_format(text, ORANGE "&#8644; %d value%s, %s %s</font>", box->n_crossing, dt_plural(box->n_crossing),
                   dt_text_with_commas(in_kib ? (box->crossing_bytes + 1023) / 1024 : box->crossing_bytes, number), in_kib ? "KiB" : "B");
}

static void print_box(dt_text *text, const dt_picture *picture, int b, int depth) {
    const dt_picture_box *box = &picture->boxes.items[b];
    bool is_layer = box->role == DT_PICTURE_LAYER;
    dt_text_format(text, "%*sbox%d [", 2 * depth, "", b);
    print_look(text, box);
    dt_text_format(text, " label=<%s", is_layer ? "<b>" : "");
    print_escaped(text, box->name);
    if (is_layer) dt_text_append(text, "</b>");
    print_details(text, picture, box);
    dt_text_append(text, ">];\n");
}

/* ---- frames ---- */

static bool is_in(const char *around, const char *path) {
    size_t n = strlen(path);
    return around != NULL && strncmp(around, path, n) == 0 && (around[n] == '/' || around[n] == 0);
}

static bool has_boxes(const dt_picture *picture, const char *path, int call) {
    for (size_t i = 0; i < picture->boxes.n; i++)
        if (picture->boxes.items[i].call == call && is_in(picture->boxes.items[i].around, path)) return true;
    return false;
}

static void print_frame(dt_text *text, const dt_picture *picture, size_t l, int call, int depth) {
    static const char *const fills[] = {"#f0f6fc", "#e3eefa", "#d5e6f8"};
    const dt_layer *layer = &picture->module->layers.items[l];
    const char *slash = strrchr(layer->path, '/');
    const char *name = slash != NULL ? slash + 1 : layer->path;
    bool says_kind = strncmp(name, layer->kind, strlen(layer->kind)) != 0;
    dt_text_format(text, "%*ssubgraph \"cluster_%s_%d\" {\n%*slabel=<<b>%s</b>%s%s> fillcolor=\"%s\" color=\"#b6c7da\"\n", 2 * depth, "", layer->path,
                   call, 2 * depth + 2, "", name, says_kind ? ": " : "", says_kind ? layer->kind : "", fills[layer->depth % 3]);
    for (size_t b = 0; b < picture->boxes.n; b++) {
        const dt_picture_box *box = &picture->boxes.items[b];
        if (box->call == call && box->around != NULL && strcmp(box->around, layer->path) == 0) print_box(text, picture, (int)b, depth + 1);
    }
    for (size_t i = l + 1; i < picture->module->layers.n; i++) {
        const dt_layer *inner = &picture->module->layers.items[i];
        bool is_child = inner->depth == layer->depth + 1 && is_in(inner->path, layer->path);
        if (is_child && has_boxes(picture, inner->path, call)) print_frame(text, picture, i, call, depth + 1);
    }
    dt_text_format(text, "%*s}\n", 2 * depth, "");
}

/* A model that the step calls several times is drawn as often. */
static void print_frames(dt_text *text, const dt_picture *picture) {
    int most = 0;
    for (size_t b = 0; b < picture->boxes.n; b++)
        if (picture->boxes.items[b].call > most) most = picture->boxes.items[b].call;
    for (int call = 0; call <= most; call++)
        for (size_t l = 0; l < picture->module->layers.n; l++)
            if (picture->module->layers.items[l].depth == 0 && has_boxes(picture, picture->module->layers.items[l].path, call))
                print_frame(text, picture, l, call, 1);
}

void dt_picture_print(dt_arena *arena, const dt_picture *picture, dt_text *text) {
    bool crosses = false;
    for (size_t b = 0; b < picture->boxes.n; b++) crosses |= picture->boxes.items[b].n_crossing > 0;
    dt_text_append(text, "digraph picture {\n"
                         "  node [fontname=\"Helvetica\" fontsize=12 style=\"rounded,filled\" margin=\"0.14,0.07\" height=0.3];\n"
                         "  edge [fontname=\"Helvetica\" fontsize=9 fontcolor=\"#57606a\" color=\"#57606a\" arrowsize=0.6];\n"
                         "  graph [fontname=\"Helvetica\" fontsize=12 style=\"rounded,filled\" labelloc=t labeljust=l nodesep=0.25 ranksep=0.35\n"
                         "    label=<<b>");
    print_escaped(text, picture->module->name);
    dt_text_format(text, "</b>, step %s%s>];\n", picture->step->name, crosses ? ORANGE "&#8644; crosses replicas</font>" : "");
    for (size_t b = 0; b < picture->boxes.n; b++)
        if (picture->boxes.items[b].around == NULL) print_box(text, picture, (int)b, 1);
    print_frames(text, picture);
    for (size_t i = 0; i < picture->arrows.n; i++) {
        const dt_picture_arrow *arrow = &picture->arrows.items[i];
        dt_text shape = {.arena = arena};
        dt_shape_print(&shape, arrow->dtype, arrow->shape);
        dt_text_format(text, "  box%d -> box%d [label=\" %s\"];\n", arrow->from, arrow->to, shape.data);
    }
    dt_text_append(text, "}\n");
}
