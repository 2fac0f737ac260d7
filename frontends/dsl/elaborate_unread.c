/* elaborate_unread: names that nobody reads, and `# allow:` comments that silence nothing.
 *
 * Both are judged by the text, not by what was elaborated: a name that another value of an option would have read is read. */
#include "frontends/dsl/elaborator.h"

#include <string.h>

/* ---- which names a text reads ---- */

typedef DT_LIST(const char *) name_list;

static bool holds(const name_list *names, const char *name) {
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->items[i], name) == 0) return true;
    return false;
}

static void add(dt_arena *arena, name_list *names, const char *name) {
    if (!holds(names, name)) dt_list_push(arena, names, name);
}

static void read_block(dt_arena *arena, const dt_block *block, name_list *names);
static void read_callable(dt_arena *arena, const dt_callable *callable, name_list *names);

/* Names of fields too: a module's constant is read as module.name. */
static void read_expression(dt_arena *arena, const dt_expression *x, name_list *names) {
    if (x == NULL) return;
    if (x->kind == DT_EXPRESSION_NAME || x->kind == DT_EXPRESSION_FIELD) add(arena, names, x->text);
    read_expression(arena, x->a, names);
    read_expression(arena, x->b, names);
    read_expression(arena, x->c, names);
    for (size_t i = 0; i < x->items.n; i++) read_expression(arena, x->items.items[i], names);
    for (size_t i = 0; i < x->arguments.n; i++) read_expression(arena, x->arguments.items[i].value, names);
    read_block(arena, &x->body, names);
    if (x->callable != NULL) read_callable(arena, x->callable, names);
}

static void read_type(dt_arena *arena, const dt_type_syntax *type, name_list *names) {
    for (size_t i = 0; type != NULL && i < type->dims.n; i++) read_expression(arena, type->dims.items[i], names);
}

static void read_callable(dt_arena *arena, const dt_callable *callable, name_list *names) {
    for (size_t i = 0; i < callable->parameters.n; i++) {
        read_type(arena, callable->parameters.items[i].type, names);
        read_expression(arena, callable->parameters.items[i].standard, names);
    }
    for (size_t i = 0; i < callable->results.n; i++) read_type(arena, callable->results.items[i], names);
    read_block(arena, &callable->body, names);
}

/* What a statement reads of itself, its blocks left out. */
static void read_statement(dt_arena *arena, const dt_statement *s, name_list *names) {
    read_expression(arena, s->value, names);
    read_expression(arena, s->trainable, names);
    read_expression(arena, s->shard, names);
    read_expression(arena, s->of, names);
    read_type(arena, s->type, names);
    for (size_t i = 0; i < s->arguments.n; i++) read_expression(arena, s->arguments.items[i].value, names);
    if (s->callable != NULL) read_callable(arena, s->callable, names);
}

static void read_block(dt_arena *arena, const dt_block *block, name_list *names) {
    for (size_t i = 0; i < block->n; i++) {
        read_statement(arena, block->items[i], names);
        read_block(arena, &block->items[i]->body, names);
        read_block(arena, &block->items[i]->otherwise, names);
    }
}

/* ---- names of bodies ---- */

static dt_diagnostic *warn(dt_elaborator *e, dt_span span, const char *what, const char *name) {
    return dt_diagnostics_warn(e->diagnostics, DT_WARN_NEVER_READ, span, "%s%s is never read", what, name);
}

static name_list copy(dt_arena *arena, const name_list *names) {
    name_list copy = {0};
    for (size_t i = 0; i < names->n; i++) dt_list_push(arena, &copy, names->items[i]);
    return copy;
}

static void drop(name_list *names, const char *name) {
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->items[i], name) == 0) names->items[i--] = names->items[--names->n];
}

static void check_block(dt_elaborator *e, const dt_block *block, name_list *live);

/* Of `a, b = f(x)` somebody reads one, or all would be written for nothing; `_` is there to say so. */
static void check_binding(dt_elaborator *e, const dt_statement *s, name_list *live) {
    bool is_read = s->targets.n == 0;
    for (size_t i = 0; i < s->targets.n; i++) is_read |= holds(live, s->targets.items[i].name) || s->targets.items[i].name[0] == '_';
    if (!is_read) dt_diagnostic_help(warn(e, s->targets.items[0].span, "", s->targets.items[0].name), "leave it out, or write _ = …");
    for (size_t i = 0; i < s->targets.n; i++) drop(live, s->targets.items[i].name);
}

/* live: the names that are read after the statement; afterwards those that are read from it on. */
static void check_statement(dt_elaborator *e, const dt_statement *s, name_list *live) {
    if (s->kind == DT_STATEMENT_ASSIGN) check_binding(e, s, live);
    if (s->kind == DT_STATEMENT_IF) {
        name_list otherwise = copy(e->arena, live);
        check_block(e, &s->body, live);
        check_block(e, &s->otherwise, &otherwise);
        for (size_t i = 0; i < otherwise.n; i++) add(e->arena, live, otherwise.items[i]);
    }
    if (s->kind == DT_STATEMENT_FOR) {
        read_block(e->arena, &s->body, live); /* the next iteration reads them */
        name_list after = copy(e->arena, live);
        check_block(e, &s->body, &after);
    }
    if (s->kind == DT_STATEMENT_UPDATE) {
        name_list none = {0};
        check_block(e, &s->callable->body, &none);
    }
    read_statement(e->arena, s, live);
}

static void check_block(dt_elaborator *e, const dt_block *block, name_list *live) {
    for (size_t i = block->n; i-- > 0;) check_statement(e, block->items[i], live);
}

/* ---- all ---- */

static void check_inputs(dt_elaborator *e, const dt_declaration *step) {
    name_list read = {0};
    read_block(e->arena, &step->callable->body, &read);
    for (size_t i = 0; i < step->callable->parameters.n; i++) {
        const dt_parameter *input = &step->callable->parameters.items[i];
        if (holds(&read, input->name) || input->name[0] == '_') continue;
        dt_diagnostic_help(warn(e, input->span, "the input ", input->name),
                           "where the data has a component that nobody wants, begin its name with _: _%s", input->name);
    }
}

/* A name of the top level; functions may be there for who uses the file as a module, and data for --from. */
static void check_top(dt_elaborator *e, const dt_declaration *d, const name_list *read) {
    bool is_option = d->kind == DT_DECLARATION_OPTION, is_launch = d->kind == DT_DECLARATION_LAUNCH;
    if ((!is_option && !is_launch && d->kind != DT_DECLARATION_CONST) || holds(read, d->name)) return;
    dt_diagnostic *warning = warn(e, d->span, is_option ? "the option " : is_launch ? "the launch value " : "", d->name);
    dt_diagnostic_help(warning, is_option || is_launch ? "what sets it changes nothing: use it, or leave it out" : "use it, or leave it out");
}

static void check_unread(dt_elaborator *e) {
    name_list read = {0};
    for (size_t f = 0; f < e->files.n; f++) {
        const dt_syntax *syntax = e->files.items[f]->syntax;
        for (size_t i = 0; i < syntax->meshes.n; i++) read_expression(e->arena, syntax->meshes.items[i]->value, &read);
        for (size_t i = 0; i < syntax->declarations.n && !e->files.items[f]->is_library; i++) {
            const dt_declaration *d = syntax->declarations.items[i];
            read_expression(e->arena, d->value, &read);
            if (d->callable != NULL) read_callable(e->arena, d->callable, &read);
        }
    }
    for (size_t f = 0; f < e->files.n; f++) {
        const dt_file *file = e->files.items[f];
        for (size_t i = 0; i < file->syntax->declarations.n && !file->is_library; i++) {
            const dt_declaration *d = file->syntax->declarations.items[i];
            name_list none = {0};
            if (file == e->program) check_top(e, d, &read);
            if (d->kind == DT_DECLARATION_STEP) check_inputs(e, d);
            if (d->callable != NULL) check_block(e, &d->callable->body, &none);
        }
    }
}

/* What passes may still warn of is the module's; of the rest all is known now. */
static void check_allowances(dt_elaborator *e) {
    size_t n;
    const dt_allowed *allowed = dt_diagnostics_allowed(e->diagnostics, &n);
    for (size_t i = 0; i < n; i++) {
        int file = -1;
        for (size_t f = 0; f < e->files.n; f++)
            if (e->files.items[f]->source == allowed[i].span.file) file = e->files.items[f]->module_file;
        if (dt_warning_source_of(allowed[i].warning) == DT_WARNS_PASS && file >= 0) {
            dt_location location = {file, allowed[i].line, allowed[i].span.column};
            dt_allowance allowance = {.warning = allowed[i].warning, .location = location, .word_line = allowed[i].span.line};
            dt_list_push(e->arena, &e->module->allowances, allowance);
        } else if (!allowed[i].silences) {
            dt_diagnostics_warn(e->diagnostics, DT_WARN_NEEDLESS_ALLOW, allowed[i].span, DT_NEEDLESS_ALLOW, dt_warning_name(allowed[i].warning));
        }
    }
}

void dt_finish_warnings(dt_elaborator *e) {
    dt_check_states(e);
    check_unread(e);
    check_allowances(e);
}
