/* elaborate_text: functions of text, in the functions of map and filter (abi/text.h). A text is no value of the graph: it is remembered as a
 * component of the example with the functions applied to it. What gives a number becomes an input of the compiled function, once; what map gives as a
 * text is written down for the runtime, which computes both. */
#include "frontends/dsl/elaborator.h"

#include "abi/pipeline.h"

#include <string.h>

dt_object dt_text_component(dt_elaborator *e, const char *name, int component) {
    dt_text_value *text = DT_NEW(e->arena, dt_text_value);
    *text = (dt_text_value){.component = component, .name = name, .function = DT_N_TEXT_FUNCTIONS};
    return (dt_object){.kind = DT_OBJECT_TEXT, .written_text = text};
}

static bool same_text(const dt_text_value *a, const dt_text_value *b) {
    if (a->component != b->component || a->function != b->function || (a->of == NULL) != (b->of == NULL)) return false;
    for (int i = 0; i < DT_TEXT_MOST_ARGUMENTS; i++)
        if (!dt_object_equal(a->arguments[i], b->arguments[i])) return false;
    return a->of == NULL || same_text(a->of, b->of);
}

void dt_example_add_input(dt_elaborator *e, int component, const dt_text_value *text, dt_value *value) {
    dt_example_input input = {component, text, value};
    dt_list_push(e->arena, &e->example->inputs, input);
}

/* The input that is the number `text` gives. */
static dt_value *number_input(dt_elaborator *e, const dt_text_value *text, dt_dtype dtype) {
    for (size_t i = 0; i < e->example->inputs.n; i++) {
        const dt_example_input *input = &e->example->inputs.items[i];
        if (input->text != NULL && same_text(input->text, text)) return input->value;
    }
    const char *name = dt_arena_format(e->arena, "%s_%s", dt_text_row_of(text->function)->name, text->name);
    dt_value *value = dt_build_input(e->function, name, dtype, (dt_shape){0}, dt_elaborator_location(e, e->at));
    dt_example_add_input(e, text->component, text, value);
    return value;
}

/* Whether a string of compile time begins with, ends with or contains `part`. */
static bool string_holds(dt_text_kind kind, const char *string, const char *part) {
    size_t length = strlen(string), n = strlen(part);
    if (kind == DT_TEXT_contains) return strstr(string, part) != NULL;
    return n <= length && memcmp(kind == DT_TEXT_starts_with ? string : string + length - n, part, n) == 0;
}

dt_object dt_apply_text_function(dt_elaborator *e, dt_text_kind kind, const dt_object *arguments) {
    const dt_text_row *row = dt_text_row_of(kind);
    if (dt_is_poison(arguments[0])) return dt_poison();
    bool is_test = kind == DT_TEXT_starts_with || kind == DT_TEXT_ends_with || kind == DT_TEXT_contains;
    if (is_test && arguments[0].kind == DT_OBJECT_STRING) return dt_object_bool(string_holds(kind, arguments[0].text, arguments[1].text));
    if (arguments[0].kind != DT_OBJECT_TEXT || e->example == NULL) {
        dt_diagnostic *error =
            dt_elaborator_error(e, e->at, "%s takes a text of an example, not %s", row->name, dt_object_describe(e->arena, arguments[0]));
        dt_diagnostic_help(error, "lines gives texts: lines(\"a.txt\") | filter(fn(line) => n_chars(line) > 100)");
        return dt_poison();
    }
    dt_text_value *text = DT_NEW(e->arena, dt_text_value);
    *text = *arguments[0].written_text;
    text->of = arguments[0].written_text;
    text->function = kind;
    for (size_t i = 0; i < strlen(row->arguments); i++) text->arguments[i] = arguments[1 + i];
    if (row->gives == DT_TEXT_GIVES_TEXT) return (dt_object){.kind = DT_OBJECT_TEXT, .written_text = text};
    return dt_object_tensor(number_input(e, text, row->gives == DT_TEXT_GIVES_COUNT ? DT_I64 : DT_BOOL));
}

/* ---- as the stage's arguments ---- */

static void write_functions(dt_elaborator *e, dt_stage_declaration *stage, const dt_text_value *text) {
    if (text->of == NULL) return;
    write_functions(e, stage, text->of);
    const dt_text_row *row = dt_text_row_of(text->function);
    dt_stage_argument name = {.kind = DT_STAGE_STRING, .s = row->name};
    dt_list_push(e->arena, &stage->arguments, name);
    for (size_t i = 0; i < strlen(row->arguments); i++) {
        dt_object o = text->arguments[i];
        bool is_string = row->arguments[i] == 's';
        dt_stage_argument argument = {.kind = is_string ? DT_STAGE_STRING : DT_STAGE_INT, .s = is_string ? o.text : NULL, .i = is_string ? 0 : o.i};
        dt_list_push(e->arena, &stage->arguments, argument);
    }
}

static void write_operand(dt_elaborator *e, dt_stage_declaration *stage, const char *name, int index, const dt_text_value *text) {
    dt_stage_argument operand = {.name = name, .kind = DT_STAGE_INT, .i = index};
    dt_list_push(e->arena, &stage->arguments, operand);
    if (text != NULL) write_functions(e, stage, text);
}

void dt_write_operands(dt_elaborator *e, dt_stage_declaration *stage) {
    for (size_t i = 0; i < e->example->inputs.n; i++)
        write_operand(e, stage, "input", e->example->inputs.items[i].component, e->example->inputs.items[i].text);
    for (size_t i = 0, n_results = 0; i < e->example->outputs.n; i++) {
        dt_object output = e->example->outputs.items[i];
        if (output.kind == DT_OBJECT_TEXT)
            write_operand(e, stage, "text", output.written_text->component, output.written_text);
        else
            write_operand(e, stage, "result", (int)n_results++, NULL);
    }
}

/* ---- which components are texts ---- */

/* Whether component *component of what a stage gives is a text, as far as the stage says so: 1 or 0; -1: if that of what came to it is which
 * *component then says. */
static int stage_gives_text(const dt_stage_declaration *stage, int *component) {
    if (strcmp(stage->kind, "wordpiece") == 0 || strcmp(stage->kind, "bpe") == 0 || strcmp(stage->kind, "pad") == 0) return 0;
    if (strcmp(stage->kind, "enumerate") == 0) return (*component)-- == 0 ? 0 : -1;
    if (strcmp(stage->kind, "map") != 0) return -1;
    for (size_t i = 0; i < stage->arguments.n; i++) {
        const dt_stage_argument *argument = &stage->arguments.items[i];
        bool is_text = argument->name != NULL && strcmp(argument->name, "text") == 0;
        bool is_output = is_text || (argument->name != NULL && strcmp(argument->name, "result") == 0);
        if (is_output && (*component)-- == 0) return is_text;
    }
    return 0;
}

/* Whether component `component` of `n` sources side by side may be a text: how many some have before it is known when they are opened. */
static bool sources_may_give_text(const dt_stage_declaration *sources, size_t n, int component) {
    for (int least = 0, most = 0, first, last; n > 0; sources++, n--, least += first, most += last) {
        bool is_zipped = strcmp(sources->kind, DT_STAGE_ZIP) == 0;
        const char *kind = is_zipped ? sources->arguments.items[0].s : sources->kind;
        int n_files = 0;
        for (size_t i = is_zipped; i < sources->arguments.n; i++) n_files += sources->arguments.items[i].name == NULL;
        if (strcmp(kind, "lines") == 0 && component >= least && component <= most) return true;
        dt_source_components(kind, n_files, &first, &last);
    }
    return false;
}

bool dt_pipeline_may_give_text(const dt_pipeline_declaration *pipeline, int component) {
    size_t n_sources = 1;
    while (n_sources < pipeline->stages.n && strcmp(pipeline->stages.items[n_sources].kind, DT_STAGE_ZIP) == 0) n_sources++;
    for (size_t i = pipeline->stages.n; i-- > n_sources;) {
        int given = stage_gives_text(&pipeline->stages.items[i], &component);
        if (given >= 0) return given;
    }
    return sources_may_give_text(pipeline->stages.items, n_sources, component);
}
