/* elaborate: the program as a whole; see elaborator.h. Files are loaded, options set, data and steps elaborated in the order of the text. */
#include "frontends/dsl/elaborator.h"
#include "frontends/dsl/library.h"
#include "frontends/dsl/parser.h"

#include "base/file.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- diagnostics and limits ---- */

dt_span dt_elaborator_user_span(const dt_elaborator *e, dt_span span) {
    for (const dt_frame *frame = e->frame; frame != NULL && frame->file->is_library && frame->caller != NULL; frame = frame->caller)
        span = frame->call;
    return span;
}

/* What is said of the user's text, though a line of the library is at work. */
static dt_diagnostic *note_library_line(dt_elaborator *e, dt_diagnostic *diagnostic, dt_span span) {
    dt_span shown = dt_elaborator_user_span(e, span);
    if (shown.file != span.file && span.line > 0) {
        const char *line = dt_diagnostics_line(e->diagnostics, span.file, span.line);
        dt_diagnostic_note(diagnostic, "in %s, line %d: %s", dt_diagnostics_file_name(e->diagnostics, span.file), span.line,
                           line + strspn(line, " "));
    }
    return diagnostic;
}

static dt_diagnostic *add_error(dt_elaborator *e, dt_span span, const char *format, va_list arguments) {
    e->n_poisoned++;
    return note_library_line(e, dt_diagnostics_vadd(e->diagnostics, dt_elaborator_user_span(e, span), format, arguments), span);
}

dt_diagnostic *dt_elaborator_error(dt_elaborator *e, dt_span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dt_diagnostic *diagnostic = add_error(e, span, format, arguments);
    va_end(arguments);
    return diagnostic;
}

dt_diagnostic *dt_elaborator_warning(dt_elaborator *e, dt_warning_kind warning, dt_span span, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    dt_diagnostic *diagnostic = dt_diagnostics_vwarn(e->diagnostics, warning, dt_elaborator_user_span(e, span), format, arguments);
    va_end(arguments);
    return diagnostic;
}

dt_object dt_elaborator_fail(dt_elaborator *e, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    add_error(e, e->at, format, arguments);
    va_end(arguments);
    return dt_poison();
}

const char *dt_elaborator_place(const dt_elaborator *e, dt_span span) {
    if (e->program != NULL && span.file == e->program->source) return dt_arena_format(e->arena, "line %d", span.line);
    return dt_arena_format(e->arena, "%s, line %d", dt_diagnostics_file_name(e->diagnostics, span.file), span.line);
}

bool dt_elaborator_tick(dt_elaborator *e) {
    if (dt_diagnostics_full(e->diagnostics) || e->gave_up) return false;
    bool small = e->function == NULL || e->function->next_id <= DT_MOST_VALUES;
    if (++e->work < DT_MOST_WORK && small) return true;
    dt_diagnostic *error = small ? dt_elaborator_error(e, e->at, "the program's compile time evaluates more than %d expressions", DT_MOST_WORK)
                                 : dt_elaborator_error(e, e->at, "the graph of %s has more than %d values", e->function->name, DT_MOST_VALUES);
    const dt_unrolled_loop *longest = e->loop;
    for (const dt_unrolled_loop *loop = e->loop; loop != NULL; loop = loop->outer)
        if (loop->n_turns >= longest->n_turns) longest = loop;
    if (longest != NULL)
        dt_diagnostic_note(error, "the loop in %s has %zu iterations, each of which leaves a copy of its body",
                           dt_elaborator_place(e, longest->statement->span), longest->n_turns);
    dt_diagnostic_help(error, "loops and recursion are unrolled while the graph is built: make them shorter");
    e->gave_up = true;
    return false;
}

bool dt_is_tainted(const dt_elaborator *e) { return e->step != NULL && e->n_poisoned != e->step->n_poisoned; }

void dt_elaborator_charge(dt_elaborator *e, size_t n_items) { e->work += (int64_t)(n_items / 4); }

bool dt_elaborator_enter(dt_elaborator *e) {
    if (e->depth++ < DT_MOST_DEPTH) return true;
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "calls nest deeper than the compiler follows");
    dt_diagnostic_help(error, "recursion is unrolled at compile time: it needs an if that ends it");
    return false;
}

void dt_elaborator_leave(dt_elaborator *e) { e->depth--; }

/* ---- files ---- */

static dt_file *load_text(dt_elaborator *e, const char *name, const char *shown_name, const char *text, bool is_library);

/* What is wrong with a module's file is a mistake in the line that uses it. */
static dt_file *cannot_use(dt_elaborator *e, const dt_use *use, dt_status *status) {
    dt_diagnostics_add(e->diagnostics, use->span, "%s", dt_status_message(status));
    dt_status_free(status);
    return NULL;
}

static void add_source(dt_elaborator *e, const char *path, const char *text) {
    dt_dsl_source source = {path, text};
    if (e->options != NULL && e->options->sources != NULL) dt_list_push(e->arena, e->options->sources, source);
}

/* The text that whoever compiles has for a module; NULL: none. */
static dt_status *given_text(dt_elaborator *e, const char *name, const char **text) {
    *text = NULL;
    if (e->options == NULL || e->options->find_module == NULL) return NULL;
    DT_TRY(e->options->find_module(e->options->context, name, text));
    if (*text != NULL) *text = dt_arena_string(e->arena, *text);
    return NULL;
}

static dt_file *find_module(dt_elaborator *e, const dt_use *use);

/* With a suggestion, that is used instead, so that nothing follows from a slip of the pen. */
static dt_file *no_module(dt_elaborator *e, const dt_use *use, const char *path, const char *const *names) {
    dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, use->span, "no module %s, neither in the library nor beside the program", use->name);
    const char *nearest = dt_text_nearest(use->name, names, dt_n_library_modules);
    dt_diagnostic_note(error, "there is no file %s", path);
    if (nearest == NULL) return NULL;
    dt_diagnostic_help(error, "did you mean %s?", nearest);
    return find_module(e, &(dt_use){nearest, use->span});
}

static dt_file *find_module(dt_elaborator *e, const dt_use *use) {
    for (size_t i = 0; i < e->files.n; i++)
        if (strcmp(e->files.items[i]->name, use->name) == 0) return e->files.items[i];
    const char **names = DT_NEW_ARRAY(e->arena, const char *, dt_n_library_modules + 1);
    const char *path = dt_arena_format(e->arena, "%s%s.dt", e->folder, use->name);
    for (size_t i = 0; i < dt_n_library_modules; i++) {
        names[i] = dt_library_modules[i].name;
        if (strcmp(names[i], use->name) != 0) continue;
        const char *shown = dt_arena_format(e->arena, "%s.dt", names[i]);
        return load_text(e, names[i], shown, dt_library_modules[i].text, true);
    }
    const char *given;
    dt_status *status = given_text(e, use->name, &given);
    if (status != NULL) return cannot_use(e, use, status);
    if (given != NULL) return add_source(e, NULL, given), load_text(e, use->name, path, given, false);
    if (!dt_file_exists(path)) return no_module(e, use, path, names);
    char *text;
    size_t n_bytes;
    status = dt_file_read(path, &text, &n_bytes);
    if (status != NULL) return cannot_use(e, use, status);
    const char *copy = dt_arena_string(e->arena, text);
    free(text);
    add_source(e, path, copy);
    return load_text(e, use->name, path, copy, false);
}

/* Not silently: a reader may take the file beside the program for what is used. No mistake, since it may be a program of its own. */
static void warn_of_namesake(dt_elaborator *e, const dt_use *use) {
    const char *path = dt_arena_format(e->arena, "%s%s.dt", e->folder, use->name);
    if (strcmp(path, dt_diagnostics_file_name(e->diagnostics, 0)) == 0 || !dt_file_exists(path)) return;
    dt_diagnostic *warning =
        dt_diagnostics_warn(e->diagnostics, DT_WARN_NAMESAKE, use->span, "%s is the library's module, not the file %s", use->name, path);
    dt_diagnostic_help(warning, "where the file is meant, give it a name that the library does not have");
}

static dt_file *load_text(dt_elaborator *e, const char *name, const char *shown_name, const char *text, bool is_library) {
    dt_file *file = DT_NEW(e->arena, dt_file);
    file->name = name;
    file->is_library = is_library;
    text = dt_source_text(text);
    file->source = dt_diagnostics_add_file(e->diagnostics, shown_name, text);
    file->module_file = -1;
    if (!is_library) {
        const char *slash = strrchr(shown_name, '/');
        file->module_file = (int)e->module->files.n;
        dt_list_push(e->arena, &e->module->files, slash != NULL ? slash + 1 : shown_name);
    }
    dt_list_push(e->arena, &e->files, file);
    file->syntax = dt_parse(e->arena, e->diagnostics, file->source, text);
    file->incomplete = file->syntax->incomplete;
    file->tops = DT_NEW_ARRAY(e->arena, dt_top, file->syntax->declarations.n);
    for (size_t i = 0; i < file->syntax->declarations.n; i++) {
        const dt_declaration *d = file->syntax->declarations.items[i];
        file->tops[i].declaration = d;
        int first = dt_names_find(&file->by_name, d->name);
        dt_names_add(e->arena, &file->by_name, d->name, (int)i);
        if (first >= 0) {
            const dt_declaration *other = file->syntax->declarations.items[first];
            dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, d->span, "%s is declared twice", d->name);
            dt_diagnostic_note(error, "the first time in line %d", other->span.line);
            dt_diagnostic_help(error, "a file is one name space: rename one of them");
        }
    }
    for (size_t i = 0; i < file->syntax->uses.n; i++) {
        dt_file *used = find_module(e, &file->syntax->uses.items[i]);
        file->incomplete |= used == NULL;
        if (used == NULL) continue;
        file->uses_own |= !used->is_library;
        if (used->is_library && !is_library) warn_of_namesake(e, &file->syntax->uses.items[i]);
        dt_list_push(e->arena, &file->uses, used);
    }
    return file;
}

/* ---- top-level names ---- */

static const char *const ambient[] = {"B", "training", "replicas", "epochs", "steps_per_epoch", "newaxis", "ops"};

dt_object dt_launch_too_early(dt_elaborator *e, const char *name) {
    dt_diagnostic *error = dt_elaborator_error(e, e->at, "%s is known only when a session starts, this is worked out at compile time", name);
    dt_diagnostic_help(error, "use %s inside a step", name);
    return dt_poison();
}

/* What surrounds every program. */
static bool find_ambient(dt_elaborator *e, const char *name, dt_object *object) {
    if (strcmp(name, "B") == 0) return *object = (dt_object){.kind = DT_OBJECT_BATCH}, true;
    if (strcmp(name, "newaxis") == 0) return *object = (dt_object){.kind = DT_OBJECT_NEWAXIS}, true;
    if (strcmp(name, "training") == 0) return *object = dt_object_bool(e->training), true;
    if (strcmp(name, "ops") == 0) return *object = (dt_object){.kind = DT_OBJECT_MODULE}, true;
    if (strcmp(name, "replicas") == 0 || strcmp(name, "epochs") == 0 || strcmp(name, "steps_per_epoch") == 0) {
        if (e->function == NULL) return *object = dt_launch_too_early(e, name), true;
        *object = dt_emit_launch(e, name);
        object->flexible = object->kind == DT_OBJECT_TENSOR;
        return true;
    }
    return false;
}

/* The value of -D for an option, if there is one. */
static const dt_expression *defined_value(dt_elaborator *e, const dt_declaration *d) {
    if (d->kind != DT_DECLARATION_OPTION || e->options == NULL || e->frame->file != e->program) return NULL;
    for (size_t i = 0; i < e->options->n_defines; i++) {
        const dt_dsl_define *define = &e->options->defines[i];
        if (strcmp(define->name, d->name) != 0) continue;
        int file = dt_diagnostics_add_file(e->diagnostics, dt_arena_format(e->arena, "-D %s", d->name), define->value);
        return dt_parse_lone_expression(e->arena, e->diagnostics, file, define->value);
    }
    return NULL;
}

/* An option keeps the kind of value it was declared with; an int may stand for a float. */
static dt_object check_option(dt_elaborator *e, const dt_declaration *d, dt_object given) {
    dt_object standard = dt_value_of(e, d->value);
    if (dt_is_poison(standard) || dt_is_poison(given) || standard.kind == given.kind) return given;
    if (standard.kind == DT_OBJECT_FLOAT && given.kind == DT_OBJECT_INT) return dt_object_float((double)given.i);
    dt_diagnostic *error = dt_elaborator_error(e, d->span, "option %s is %s, -D sets it to %s", d->name, dt_object_describe(e->arena, standard),
                                               dt_object_describe(e->arena, given));
    dt_diagnostic_help(error, "give a value of the same kind");
    return dt_poison();
}

/* `launch name = standard`: a variable that no step writes, whose initial value is the standard one. */
static dt_object declare_launch(dt_elaborator *e, dt_file *file, const dt_declaration *d) {
    if (file != e->program) {
        dt_diagnostic *error = dt_elaborator_error(e, d->span, "launch values are the whole program's, this is a module");
        dt_diagnostic_help(error, "declare %s in the program, and hand it to the module's function as an argument", d->name);
        return dt_poison();
    }
    dt_object standard = dt_value_of(e, d->value);
    e->at = d->value->span;
    dt_dtype dtype = standard.kind == DT_OBJECT_INT ? DT_I64 : standard.kind == DT_OBJECT_BOOL ? DT_BOOL : DT_F32;
    bool is_exact = standard.kind != DT_OBJECT_INT || (standard.i >= -DT_MOST_LAUNCH && standard.i <= DT_MOST_LAUNCH);
    bool is_finite = standard.kind != DT_OBJECT_FLOAT || isfinite((float)standard.f);
    if (dt_is_poison(standard)) return standard;
    if (!dt_is_number(standard) && standard.kind != DT_OBJECT_BOOL) {
        dt_diagnostic *error =
            dt_elaborator_error(e, e->at, "a launch value is a number or a bool, this is %s", dt_object_describe(e->arena, standard));
        dt_diagnostic_help(error, "what has a shape is a step's input, or a state of a layer");
        return dt_poison();
    }
    if (!is_exact || !is_finite) {
        dt_diagnostic *error = dt_elaborator_error(e, e->at, "launch %s does not hold %s", d->name, dt_object_describe(e->arena, standard));
        dt_diagnostic_help(error, is_finite ? "whole numbers go to 2 ** 53" : "it is an f32");
        return dt_poison();
    }
    e->function = e->init;
    dt_object initial = dt_emit_constant(e, dtype, standard, dt_shape_scalar());
    if (dt_is_poison(initial)) return initial;
    return (dt_object){.kind = DT_OBJECT_VARIABLE, .i = dt_variable_add(e, d->name, DT_VARIABLE_LAUNCH, initial, false, d->span)};
}

/* A top-level value means the same wherever it is first asked for, so nothing of that place is seen: no step, no model, no `training`. */
static dt_object work_out(dt_elaborator *e, dt_file *file, const dt_declaration *d) {
    dt_frame frame = {.file = file, .call = e->at, .stream = dt_hash_bytes(d->name, strlen(d->name), DT_HASH_SEED)};
    dt_function *function = e->function;
    dt_visit *visit = e->visit;
    dt_step_work *step = e->step;
    bool training = e->training, reporting = e->reporting;
    int recompute = e->recompute;
    e->recompute = 0;
    e->function = NULL;
    e->visit = NULL;
    e->step = NULL;
    e->training = e->reporting = false;
    dt_push_frame(e, &frame);
    const dt_expression *defined = defined_value(e, d);
    dt_object object;
    if (d->kind == DT_DECLARATION_LAUNCH)
        object = declare_launch(e, file, d);
    else if (defined == NULL)
        object = dt_value_of(e, d->value);
    else
        object = check_option(e, d, dt_value_of(e, defined));
    dt_pop_frame(e);
    e->function = function;
    e->visit = visit;
    e->step = step;
    e->training = training;
    e->reporting = reporting;
    e->recompute = recompute;
    return object;
}

static dt_object top_object(dt_elaborator *e, dt_file *file, dt_top *top) {
    const dt_declaration *d = top->declaration;
    if (top->state == DT_TOP_KNOWN) return top->object;
    if (d->callable != NULL) {
        dt_callee *callee = DT_NEW(e->arena, dt_callee);
        *callee = (dt_callee){.name = d->name, .kind = d->kind, .callable = d->callable, .span = d->span, .file = file};
        top->object = (dt_object){.kind = DT_OBJECT_FUNCTION, .callee = callee};
        top->state = DT_TOP_KNOWN;
        return top->object;
    }
    if (top->state == DT_TOP_BUSY) {
        dt_diagnostic *error = dt_elaborator_error(e, d->span, "%s is defined by itself", d->name);
        dt_diagnostic_help(error, "break the circle with a plain value");
        top->object = dt_poison();
    } else {
        top->state = DT_TOP_BUSY;
        top->object = work_out(e, file, d);
    }
    top->state = DT_TOP_KNOWN;
    return top->object;
}

static dt_top *find_top_of(dt_file *file, const char *name) {
    int i = dt_names_find(&file->by_name, name);
    return i >= 0 ? &file->tops[i] : NULL;
}

/* Of another file, what it does not keep to itself. */
static dt_top *find_visible(const dt_file *from, dt_file *file, const char *name) {
    dt_top *top = find_top_of(file, name);
    return top != NULL && top->declaration->is_private && from != file ? NULL : top;
}

bool dt_is_private(const dt_elaborator *e, dt_file *file, const char *name) {
    return find_top_of(file, name) != NULL && find_visible(e->frame->file, file, name) == NULL;
}

bool dt_find_in_file(dt_elaborator *e, dt_file *file, const char *name, dt_object *object) {
    dt_top *top = find_visible(e->frame->file, file, name);
    if (top != NULL) return *object = top_object(e, file, top), true;
    int i = file == e->core ? dt_names_find(&e->without_text_by_name, name) : -1;
    if (i >= 0) *object = (dt_object){.kind = DT_OBJECT_FUNCTION, .callee = e->without_text.items[i]};
    return i >= 0;
}

bool dt_find_constant(dt_elaborator *e, dt_file *file, const char *name, dt_object *object) {
    dt_top *top = find_top_of(file, name);
    if (top == NULL || (top->declaration->kind != DT_DECLARATION_CONST && top->declaration->kind != DT_DECLARATION_OPTION)) return false;
    *object = top_object(e, file, top);
    return true;
}

/* Of the modules that a file uses, its own or the library's. */
static bool find_in_uses(dt_elaborator *e, const dt_file *file, const char *name, bool of_library, dt_object *object) {
    for (size_t i = 0; i < file->uses.n; i++)
        if (file->uses.items[i]->is_library == of_library && dt_find_in_file(e, file->uses.items[i], name, object)) return true;
    return false;
}

static bool find_in_library(dt_elaborator *e, const dt_file *file, const char *name, dt_object *object) {
    if (find_in_uses(e, file, name, true, object)) return true;
    return e->core != NULL && (dt_find_in_file(e, e->core, name, object) || find_in_uses(e, e->core, name, true, object));
}

static void add_without_text(dt_elaborator *e, dt_callee callee) {
    callee.kind = DT_DECLARATION_FN;
    dt_names_add(e->arena, &e->without_text_by_name, callee.name, (int)e->without_text.n);
    dt_list_push(e->arena, &e->without_text, dt_arena_copy(e->arena, &callee, sizeof callee));
}

/* Functions of C, and elementwise ops of other names. */
static void list_without_text(dt_elaborator *e) {
    for (size_t i = 0; dt_builtin_at(i) != NULL; i++) add_without_text(e, (dt_callee){.name = dt_builtin_at(i)->name, .builtin = dt_builtin_at(i)});
    for (size_t i = 0; i < dt_n_ops; i++)
        if (dt_op_at(i)->class == DT_CLASS_MAP) add_without_text(e, (dt_callee){.name = dt_op_at(i)->name, .op = dt_op_at(i)});
}

bool dt_find_top(dt_elaborator *e, dt_file *file, const char *name, dt_object *object) {
    dt_top *top = find_top_of(file, name);
    if (top != NULL) return *object = top_object(e, file, top), true;
    if (find_ambient(e, name, object) || find_in_uses(e, file, name, false, object) || find_in_library(e, file, name, object)) return true;
    dt_dtype dtype = dt_dtype_from_name(name);
    if (dtype != DT_N_DTYPES) return *object = (dt_object){.kind = DT_OBJECT_DTYPE, .dtype = dtype}, true;
    for (size_t i = 0; i < file->uses.n; i++)
        if (strcmp(file->uses.items[i]->name, name) == 0) return *object = (dt_object){.kind = DT_OBJECT_MODULE, .file = file->uses.items[i]}, true;
    return false;
}

typedef DT_LIST(const char *) name_list;

static void list_file_names(dt_elaborator *e, const dt_file *file, name_list *names) {
    for (size_t i = 0; i < file->syntax->declarations.n; i++) {
        const dt_declaration *d = file->syntax->declarations.items[i];
        if (!d->is_private || file == e->frame->file) dt_list_push(e->arena, names, d->name);
    }
}

/* A name that a function of the program's own has, and the library too: said where a call of it is wrong. */
void dt_note_hidden(dt_elaborator *e, dt_diagnostic *error, const dt_callee *callee) {
    dt_object hidden;
    if (callee->is_lambda || callee->file == NULL || callee->file->is_library || find_top_of(callee->file, callee->name) == NULL) return;
    if (find_in_library(e, callee->file, callee->name, &hidden))
        dt_diagnostic_note(error, "%s is the program's own, declared in %s, not the library's", callee->name, dt_elaborator_place(e, callee->span));
}

/* What to write for a name of Keras's, PyTorch's or NumPy's; NULL: it is none. */
static const char *find_foreign(const char *name) {
    static const struct {
        const char *theirs, *help;
    } names[] = {
#define FOREIGN(theirs, ours) {#theirs, "here that is " ours},
#define FOREIGN_LINE(theirs, ours) {#theirs, "here that is a line of a step: " ours},
#define FOREIGN_TRAINING(theirs) {#theirs, "here minimize(loss, adam()) takes gradients and updates parameters"},
#define FOREIGN_MODULE(theirs) {#theirs, "functions stand alone here: relu(x), mean(x)"},
#define FOREIGN_PARAMETER(theirs, ours)
#include "frontends/dsl/foreign_names.def"
#undef FOREIGN
#undef FOREIGN_LINE
#undef FOREIGN_TRAINING
#undef FOREIGN_MODULE
#undef FOREIGN_PARAMETER
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].theirs, name) == 0) return names[i].help;
    return NULL;
}

const char *dt_foreign_parameter(const char *name) {
    static const struct {
        const char *theirs, *ours;
    } names[] = {
#define FOREIGN(theirs, ours)
#define FOREIGN_LINE(theirs, ours)
#define FOREIGN_TRAINING(theirs)
#define FOREIGN_MODULE(theirs)
#define FOREIGN_PARAMETER(theirs, ours) {#theirs, #ours},
#include "frontends/dsl/foreign_names.def"
#undef FOREIGN
#undef FOREIGN_LINE
#undef FOREIGN_TRAINING
#undef FOREIGN_MODULE
#undef FOREIGN_PARAMETER
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].theirs, name) == 0) return names[i].ours;
    return NULL;
}

/* A class's name as that of a function: "MaxPool2D" is "max_pool2d", with `parted`, or "maxpool2d". */
static const char *without_capitals(dt_elaborator *e, const char *name, bool parted) {
    dt_text text = {.arena = e->arena};
    for (const char *at = name; *at != '\0'; at++) {
        if (parted && at > name && isupper((unsigned char)*at) && islower((unsigned char)at[-1])) dt_text_append(&text, "_");
        char small = (char)tolower((unsigned char)*at);
        dt_text_append_bytes(&text, &small, 1);
    }
    return text.data;
}

const char *dt_foreign_help(dt_elaborator *e, const char *name) {
    const char *forms[] = {name, without_capitals(e, name, true), without_capitals(e, name, false)}, *help = NULL;
    for (size_t i = 0; i < sizeof forms / sizeof *forms && help == NULL; i++) help = find_foreign(forms[i]);
    return help;
}

/* The names that are known where the elaborator is. */
static name_list list_known_names(dt_elaborator *e) {
    name_list names = {0};
    for (const dt_binding *b = e->frame->scope; b != NULL; b = b->outer)
        if (!b->unknown) dt_list_push(e->arena, &names, b->name);
    const dt_file *file = e->frame->file;
    list_file_names(e, file, &names);
    for (size_t i = 0; i < file->uses.n; i++) list_file_names(e, file->uses.items[i], &names);
    if (e->core != NULL) list_file_names(e, e->core, &names);
    for (size_t i = 0; e->core != NULL && i < e->core->uses.n; i++) list_file_names(e, e->core->uses.items[i], &names);
    for (size_t i = 0; i < sizeof ambient / sizeof *ambient; i++) dt_list_push(e->arena, &names, ambient[i]);
    for (int d = 0; d < DT_N_DTYPES; d++) dt_list_push(e->arena, &names, dt_dtype_name((dt_dtype)d));
    for (size_t i = 0; i < e->without_text.n; i++) dt_list_push(e->arena, &names, e->without_text.items[i]->name);
    return names;
}

/* The module of the library that declares it; NULL: none. */
static const char *find_library_module(dt_elaborator *e, const char *name) {
    const char *heads[] = {"fn ", "layer ", "optimizer "};
    for (size_t i = 0; i < dt_n_library_modules; i++)
        for (int h = 0; h < 3; h++)
            if (strstr(dt_library_modules[i].text, dt_arena_format(e->arena, "\n%s%s(", heads[h], name)) != NULL) return dt_library_modules[i].name;
    return NULL;
}

/* Whether the name is what somebody else calls a thing, one that is known but for capitals, or in a module that is not used: then that is said. */
static bool suggest_exactly(dt_elaborator *e, dt_diagnostic *diagnostic, const char *name, const name_list *known) {
    const char *help = find_foreign(name), *module;
    if (help != NULL) return dt_diagnostic_help(diagnostic, "%s", help), true;
    for (size_t i = 0; i < known->n; i++)
        if (strcmp(known->items[i], name) == 0) return dt_diagnostic_help(diagnostic, "did you mean %s?", name), true;
    if ((module = find_library_module(e, name)) == NULL) return false;
    dt_diagnostic_help(diagnostic, "%s is in the module %s: add it to the file's use", name, module);
    return true;
}

void dt_suggest_name(dt_elaborator *e, dt_diagnostic *diagnostic, const char *name) {
    name_list names = list_known_names(e);
    const char *forms[] = {name, without_capitals(e, name, true), without_capitals(e, name, false)};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (suggest_exactly(e, diagnostic, forms[i], &names)) return;
    const dt_file *file = e->frame->file;
    for (size_t i = 0; i < file->uses.n; i++) {
        if (!dt_is_private(e, file->uses.items[i], name)) continue;
        dt_diagnostic_note(diagnostic, "the module %s has one of its own, which is private", file->uses.items[i]->name);
        return;
    }
    const char *nearest = dt_text_nearest(name, names.items, names.n);
    if (nearest == NULL) nearest = dt_text_nearest(forms[1], names.items, names.n);
    if (nearest != NULL)
        dt_diagnostic_help(diagnostic, "did you mean %s?", nearest);
    else
        dt_diagnostic_help(diagnostic, "bind it before it is used: %s = …", name);
}

/* A name that two modules of the program's own have: neither is taken. */
static bool report_clash(dt_elaborator *e, dt_file *file, const char *name, dt_span span) {
    const dt_file *first = NULL, *second = NULL;
    for (size_t i = 0; i < file->uses.n && find_top_of(file, name) == NULL; i++) {
        dt_file *used = file->uses.items[i];
        if (used->is_library || used == first || find_visible(file, used, name) == NULL) continue;
        if (first == NULL)
            first = used;
        else
            second = used;
    }
    if (second == NULL) return false;
    dt_diagnostic *error = dt_elaborator_error(e, span, "%s is in the modules %s and %s", name, first->name, second->name);
    dt_diagnostic_help(error, "say which: %s.%s", first->name, name);
    return true;
}

dt_object dt_lookup(dt_elaborator *e, const char *name, dt_span span) {
    e->at = span;
    dt_binding *binding = dt_find_binding(e->frame->scope, name);
    if (binding != NULL && binding->conditional) {
        dt_diagnostic *error = dt_elaborator_error(e, span, "%s is bound on one path only", name);
        dt_diagnostic_note(error, "it is bound in %s, under an if", dt_elaborator_place(e, binding->span));
        dt_diagnostic_help(error, "bind %s before the if, or on both paths", name);
        return dt_poison();
    }
    if (binding != NULL) return binding->object;
    dt_object object;
    if (e->frame->file->uses_own && report_clash(e, e->frame->file, name, span)) return dt_poison();
    if (dt_find_top(e, e->frame->file, name, &object)) return object;
    bool may_be_missing =
        e->frame->file->incomplete || (e->frame->callee != NULL && e->frame->callee->callable != NULL && e->frame->callee->callable->broken);
    if (!may_be_missing) dt_suggest_name(e, dt_elaborator_error(e, span, "unknown name %s", name), name);
    e->frame->scope = dt_bind(e->arena, e->frame->scope, name, dt_poison(), span); /* said once in a body */
    e->frame->scope->unknown = true;
    return dt_poison();
}

/* ---- the whole ---- */

static bool is_of_language(const char *name) {
    for (size_t i = 0; i < sizeof ambient / sizeof *ambient; i++)
        if (strcmp(ambient[i], name) == 0) return true;
    return dt_dtype_from_name(name) != DT_N_DTYPES;
}

static void check_top_names(dt_elaborator *e, dt_file *file) {
    for (size_t i = 0; i < file->syntax->declarations.n; i++) {
        const dt_declaration *d = file->syntax->declarations.items[i];
        if (!is_of_language(d->name)) continue;
        dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, d->span, "%s is a name of the language", d->name);
        dt_diagnostic_help(error, "choose another name");
        file->tops[i].object = dt_poison(); /* which of the two is meant where it is used? */
        file->tops[i].state = DT_TOP_KNOWN;
    }
}

static void check_defines(dt_elaborator *e) {
    const dt_syntax *syntax = e->program->syntax;
    name_list names = {0};
    for (size_t k = 0; k < syntax->declarations.n; k++)
        if (syntax->declarations.items[k]->kind == DT_DECLARATION_OPTION) dt_list_push(e->arena, &names, syntax->declarations.items[k]->name);
    for (size_t i = 0; e->options != NULL && i < e->options->n_defines; i++) {
        const char *name = e->options->defines[i].name;
        bool known = false;
        for (size_t k = 0; k < names.n; k++) known |= strcmp(names.items[k], name) == 0;
        if (known) continue;
        dt_span nowhere = {.line = 0};
        dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, nowhere, "-D %s: the program has no option %s", name, name);
        dt_diagnostic_suggest(error, name, names.items, names.n);
        for (size_t k = 0; k < syntax->declarations.n; k++)
            if (syntax->declarations.items[k]->kind == DT_DECLARATION_LAUNCH && strcmp(syntax->declarations.items[k]->name, name) == 0)
                dt_diagnostic_help(error, "%s is a launch value, which a run is given: dtrun train --set %s=…", name, name);
        if (strcmp(name, "precision") == 0) dt_diagnostic_help(error, "the language's own is set with --precision");
    }
}

/* One of those that there are. */
static void set_precision(dt_elaborator *e, const char *name) {
    const char *between = dt_mixed_type_name(name);
    e->precision = between != NULL ? DT_PRECISION_F32 : dt_precision_from_name(name);
    e->between_layers = between != NULL ? dt_dtype_from_name(between) : DT_F32;
}

static void read_precision(dt_elaborator *e, const dt_language_option *option) {
    if (dt_is_precision_option(option->value)) {
        set_precision(e, option->value);
        return;
    }
    static const char *const names[] = {
#define X(enumerator, name, meaning) name,
        DT_PRECISIONS(X)
#undef X
#define X(name, type) name,
            DT_MIXED_PRECISIONS(X)
#undef X
    };
    if (strcmp(option->value, dt_dtype_name(DT_F16)) == 0) {
        dt_diagnostic *error =
            dt_diagnostics_add(e->diagnostics, option->value_span, "precision f16 needs losses that are scaled, for its small range");
        dt_diagnostic_help(error, "mixed_f16 scales them; bf16 has the range of f32");
    } else {
        dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, option->value_span, "precision is " DT_PRECISION_CHOICES ", not %s", option->value);
        dt_diagnostic_suggest(error, option->value, names, sizeof names / sizeof *names);
    }
}

static void read_recompute(dt_elaborator *e, const dt_language_option *option) {
    e->recomputes_layers = strcmp(option->value, "layers") == 0;
    if (e->recomputes_layers) return;
    dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, option->value_span, "recompute is layers, not %s", option->value);
    dt_diagnostic_help(error, "without the option gradients keep what they need; of one call: f(x, recompute: true)");
}

static const struct {
    const char *name;
    void (*read)(dt_elaborator *e, const dt_language_option *option);
} language_options[] = {{"precision", read_precision}, {"recompute", read_recompute}};
enum {
    N_LANGUAGE_OPTIONS = sizeof language_options / sizeof *language_options
};

/* `option name: value`: the whole program's, so the program itself says it, once. */
static void set_language_option(dt_elaborator *e, const dt_file *file, const dt_language_option *option, const dt_language_option **said) {
    int i = 0;
    while (i < N_LANGUAGE_OPTIONS && strcmp(option->name, language_options[i].name) != 0) i++;
    if (i == N_LANGUAGE_OPTIONS) {
        dt_diagnostic *error =
            dt_diagnostics_add(e->diagnostics, option->span, "the language has no option %s, only precision and recompute", option->name);
        dt_diagnostic_help(error, "an option of the program's own has a value: option %s = …", option->name);
    } else if (file != e->program) {
        dt_diagnostic *error =
            dt_diagnostics_add(e->diagnostics, option->span, "%s is an option of the whole program, this is a module", option->name);
        dt_diagnostic_help(error, "say it in the program");
    } else if (said[i] != NULL) {
        dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, option->span, "%s is said twice", option->name);
        dt_diagnostic_note(error, "first in %s", dt_elaborator_place(e, said[i]->span));
    } else {
        said[i] = option;
        language_options[i].read(e, option);
    }
}

static void set_language_options(dt_elaborator *e) {
    const dt_language_option *said[N_LANGUAGE_OPTIONS] = {NULL};
    for (size_t f = 0; f < e->files.n; f++)
        for (size_t i = 0; i < e->files.items[f]->syntax->options.n; i++)
            set_language_option(e, e->files.items[f], &e->files.items[f]->syntax->options.items[i], said);
    if (e->options != NULL && e->options->precision != NULL) set_precision(e, e->options->precision);
}

/* Where there are mistakes, a function may not have been called because of one: its own are looked for all the same. */
static void elaborate_uncalled(dt_elaborator *e) {
    for (size_t i = 0; i < e->program->syntax->declarations.n && dt_diagnostics_n_errors(e->diagnostics) > 0; i++) {
        const dt_declaration *d = e->program->syntax->declarations.items[i];
        bool is_called = d->callable == NULL || d->kind == DT_DECLARATION_STEP;
        for (size_t k = 0; k < e->run.n; k++) is_called |= e->run.items[k] == d->callable;
        dt_object object = is_called ? dt_poison() : top_object(e, e->program, &e->program->tops[i]);
        if (!dt_is_poison(object)) dt_elaborate_uncalled(e, object);
    }
}

/* `mesh model = M`: how many shards the model has. */
static void set_shards(dt_elaborator *e, dt_file *file, const dt_declaration *mesh) {
    e->at = mesh->value->span;
    dt_object n = dt_settle(e, work_out(e, file, mesh));
    if (dt_is_poison(n)) return;
    dt_span span = mesh->value->span;
    if (n.kind != DT_OBJECT_INT) {
        dt_diagnostic *error = dt_elaborator_error(e, span, "mesh model is the number of shards, an int, not %s", dt_object_describe(e->arena, n));
        dt_diagnostic_help(error, "give it a power of two from 1 to %d", DT_MOST_SHARDS);
    } else if (!dt_shards_are_valid(n.i)) {
        dt_diagnostic *error =
            dt_elaborator_error(e, span, "mesh model is %lld: a model has a power of two of shards, from 1 to %d", (long long)n.i, DT_MOST_SHARDS);
        dt_diagnostic_help(error, "their values are combined pair by pair, in a binary tree: 1, 2, 4, 8, …");
    } else {
        e->module->n_shards = n.i;
    }
}

/* The whole program's, so the program itself says it, once. */
static void elaborate_meshes(dt_elaborator *e) {
    const dt_declaration *first = NULL;
    for (size_t f = 0; f < e->files.n; f++) {
        dt_file *file = e->files.items[f];
        for (size_t i = 0; i < file->syntax->meshes.n; i++) {
            const dt_declaration *mesh = file->syntax->meshes.items[i];
            if (file != e->program) {
                dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, mesh->span, "the mesh is the whole program's, this is a module");
                dt_diagnostic_help(error, "say mesh model = … in the program");
            } else if (first != NULL) {
                dt_diagnostic *error = dt_diagnostics_add(e->diagnostics, mesh->span, "mesh model is said twice");
                dt_diagnostic_note(error, "first in %s", dt_elaborator_place(e, first->span));
            } else {
                first = mesh;
                set_shards(e, file, mesh);
            }
        }
    }
}

static void elaborate_declarations(dt_elaborator *e) {
    dt_file *file = e->program;
    dt_frame frame = {.file = file};
    dt_push_frame(e, &frame);
    elaborate_meshes(e);
    bool has_step = false;
    for (size_t i = 0; i < file->syntax->declarations.n; i++) {
        const dt_declaration *d = file->syntax->declarations.items[i];
        dt_object object = dt_poison();
        if (d->callable == NULL) object = top_object(e, file, &file->tops[i]);
        has_step |= d->kind == DT_DECLARATION_STEP;
        if (d->kind != DT_DECLARATION_DATA || dt_is_poison(object)) continue;
        if (object.kind == DT_OBJECT_PIPELINE)
            dt_elaborate_data(e, d, object.pipeline);
        else
            dt_diagnostic_help(dt_elaborator_error(e, d->value->span, "data %s is %s, not a pipeline", d->name, dt_object_describe(e->arena, object)),
                               "begin with a source: %s", dt_list_sources(e));
    }
    for (size_t i = 0; i < file->syntax->declarations.n; i++)
        if (file->syntax->declarations.items[i]->kind == DT_DECLARATION_STEP) dt_elaborate_step(e, file->syntax->declarations.items[i]);
    elaborate_uncalled(e);
    dt_span whole = {.file = file->source, .line = 1, .column = 1, .length = 1};
    if (!has_step && dt_diagnostics_n_errors(e->diagnostics) == 0)
        dt_diagnostic_help(dt_diagnostics_add(e->diagnostics, whole, "the program has no step"), "add: step train(…) from … { … }");
    dt_pop_frame(e);
}

static const char *program_name(dt_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(base, '.');
    return dot != NULL && dot != base ? dt_arena_substring(arena, base, (size_t)(dot - base)) : dt_arena_string(arena, base);
}

/* With the slash at its end. */
static const char *folder_of_modules(dt_arena *arena, const char *path, const dt_dsl_options *options) {
    if (options != NULL && options->folder != NULL) return dt_arena_format(arena, "%s/", options->folder);
    const char *slash = strrchr(path, '/');
    return slash != NULL ? dt_arena_substring(arena, path, (size_t)(slash - path) + 1) : "";
}

dt_status *dt_dsl_compile(dt_arena *arena, const char *path, const char *source, const dt_dsl_options *options, dt_diagnostics *diagnostics,
                          dt_module **module) {
    *module = NULL;
    dt_elaborator e = {.arena = arena, .diagnostics = diagnostics, .options = options};
    e.between_layers = DT_F32;
    e.module = dt_module_create(arena, program_name(arena, path));
    e.folder = folder_of_modules(arena, path, options);
    list_without_text(&e);
    const char *name = dt_arena_string(arena, path);
    const char *text = dt_arena_string(arena, source);
    add_source(&e, name, text);
    e.program = load_text(&e, "", name, text, false);
    dt_use core = {.name = "core"};
    e.core = find_module(&e, &core);
    if (e.core == NULL) return dt_error(DT_INTERNAL, "the library has no module core");
    for (size_t i = 0; i < e.files.n; i++)
        if (!e.files.items[i]->is_library) check_top_names(&e, e.files.items[i]);
    check_defines(&e);
    set_language_options(&e);
    e.init = dt_module_add_function(e.module, "init", DT_ROLE_INIT);
    elaborate_declarations(&e);
    if (dt_diagnostics_n_errors(diagnostics) > 0) return NULL;
    dt_warn_of_uncalled_layers(&e);
    dt_settle_trainable(&e);
    dt_finish_warnings(&e);
    e.module->capacity = options != NULL && options->capacity > 0 ? options->capacity : e.largest_batch > 0 ? e.largest_batch : 1;
    for (size_t i = 0; i < e.module->functions.n; i++) dt_function_renumber(e.module->functions.items[i]);
    *module = e.module;
    return NULL;
}
