/* syntax: a program as a tree, as it was written. Nothing is resolved here; names are text. All of it lives in the arena of the compilation. */
#ifndef DT_FRONTENDS_DSL_SYNTAX_H
#define DT_FRONTENDS_DSL_SYNTAX_H

#include "frontends/dsl/lexer.h"

typedef struct dt_expression dt_expression;
typedef struct dt_statement dt_statement;
typedef struct dt_declaration dt_declaration;

typedef DT_LIST(dt_expression *) dt_expression_list;
typedef DT_LIST(dt_statement *) dt_block;

/* `name: value`, or a positional one. */
typedef struct dt_argument {
    const char *name; /* NULL: positional */
    dt_span span;     /* of the name, or of the value */
    dt_expression *value;
} dt_argument;
typedef DT_LIST(dt_argument) dt_argument_list;

/* What a parameter or result may be: a word (f32, float, int, schedule, …) with or without dimensions, or the choices of an enum. */
typedef struct dt_type_syntax {
    dt_span span;
    const char *word; /* NULL for an enum */
    bool has_dims;
    dt_expression_list dims; /* expressions; ELLIPSIS for the run */
    DT_LIST(const char *) choices;
} dt_type_syntax;

/* `>= 0`, of what a parameter is given. */
typedef struct dt_bound {
    dt_token_kind operator; /* LESS, LESS_EQUAL, GREATER, GREATER_EQUAL */
    dt_expression *limit;   /* which may name other parameters */
} dt_bound;

typedef struct dt_parameter {
    const char *name;
    dt_span span;
    dt_type_syntax *type; /* NULL: anything */
    DT_LIST(dt_bound) bounds;
    dt_expression *standard; /* NULL: must be given */
} dt_parameter;

/* The callable part that fn, lambda, layer, model, optimizer, update and step share. */
typedef struct dt_callable {
    DT_LIST(dt_parameter) parameters;
    DT_LIST(dt_type_syntax *) results; /* empty: not stated */
    dt_block body;
    bool broken; /* its head, or its end, was not understood, which was said: there may be parameters that are not here */
} dt_callable;

typedef enum dt_expression_kind {
    DT_EXPRESSION_INT,
    DT_EXPRESSION_FLOAT,
    DT_EXPRESSION_BOOL,
    DT_EXPRESSION_STRING,
    DT_EXPRESSION_NONE,
    DT_EXPRESSION_NAME,
    DT_EXPRESSION_LIST,          /* items */
    DT_EXPRESSION_COMPREHENSION, /* [… for … in … if …]: body is the FOR, around further ones, an IF, and in the end an ITEM */
    DT_EXPRESSION_CALL,          /* a(arguments) */
    DT_EXPRESSION_INDEX,         /* a[items] */
    DT_EXPRESSION_SLICE,         /* a:b:c within an index, each may be NULL */
    DT_EXPRESSION_ELLIPSIS,      /* ... within an index or a type */
    DT_EXPRESSION_FIELD,         /* a.text */
    DT_EXPRESSION_UNARY,         /* operator a: MINUS, NOT */
    DT_EXPRESSION_BINARY,        /* a operator b */
    DT_EXPRESSION_CONDITIONAL,   /* b if a else c */
    DT_EXPRESSION_RANGE,         /* a..b */
    DT_EXPRESSION_LAMBDA,        /* callable, whose body is one return */
    DT_EXPRESSION_PIPE,          /* a | b */
    DT_EXPRESSION_AS,            /* a as text */
    DT_EXPRESSION_LAYER,         /* layer a, a CALL without what flows through the layer */
    DT_EXPRESSION_BROKEN         /* not understood, which was said: poison */
} dt_expression_kind;

struct dt_expression {
    dt_expression_kind kind;
    dt_span span; /* what to underline: the whole, the callee of a call, the operator's left side */
    dt_expression *a, *b, *c;
    dt_expression_list items;
    dt_argument_list arguments;
    dt_callable *callable;
    dt_block body;    /* COMPREHENSION */
    const char *text; /* NAME, STRING, FIELD, AS */
    dt_token_kind operator;
    int64_t i; /* INT, BOOL */
    double f;  /* FLOAT */
};

typedef enum dt_statement_kind {
    DT_STATEMENT_ASSIGN,     /* targets = value */
    DT_STATEMENT_WRITE,      /* targets[0] := value */
    DT_STATEMENT_PARAM,      /* param name: type = value, trainable: …, shard: …, of: … */
    DT_STATEMENT_STATE,      /* state name[: type] = value */
    DT_STATEMENT_IF,         /* value, body, otherwise */
    DT_STATEMENT_FOR,        /* targets in value, body */
    DT_STATEMENT_RETURN,     /* arguments */
    DT_STATEMENT_REPORT,     /* arguments, all named */
    DT_STATEMENT_EXPRESSION, /* value */
    DT_STATEMENT_UPDATE,     /* callable: in an optimizer */
    DT_STATEMENT_ITEM        /* value: the next item of the comprehension around it */
} dt_statement_kind;

typedef struct dt_assignment_target {
    const char *name; /* "_" binds nothing */
    dt_span span;
} dt_assignment_target;

struct dt_statement {
    dt_statement_kind kind;
    dt_span span; /* its first word */
    DT_LIST(dt_assignment_target) targets;
    dt_expression *value;
    dt_type_syntax *type;
    dt_expression *trainable; /* PARAM; NULL: true */
    dt_expression *shard;     /* PARAM: the dimension that shards split; NULL: none */
    dt_expression *of;        /* PARAM: how many tensors stand side by side in it; NULL: 1 */
    dt_argument_list arguments;
    dt_block body, otherwise;
    dt_callable *callable;
    bool broken; /* not understood, which was said: targets are all the names that it may have bound */
};

typedef enum dt_declaration_kind {
    DT_DECLARATION_CONST,
    DT_DECLARATION_OPTION,
    DT_DECLARATION_LAUNCH,
    DT_DECLARATION_MESH,
    DT_DECLARATION_FN,
    DT_DECLARATION_LAYER,
    DT_DECLARATION_MODEL,
    DT_DECLARATION_OPTIMIZER,
    DT_DECLARATION_DATA,
    DT_DECLARATION_STEP
} dt_declaration_kind;

struct dt_declaration {
    dt_declaration_kind kind;
    const char *name;
    bool is_private;      /* only its own file sees it */
    dt_span span;         /* of the name */
    dt_expression *value; /* CONST, OPTION, DATA, MESH */
    dt_callable *callable;
    const char *from; /* STEP: its data, or NULL */
    dt_span from_span;
    int64_t every; /* STEP: after how many epochs of training it is run */
    dt_span every_span;
    bool is_repeated; /* `every` is said */
};

typedef struct dt_use {
    const char *name;
    dt_span span;
} dt_use;

/* `option name: value`, of the language's own options; those of the program are declarations. */
typedef struct dt_language_option {
    const char *name, *value;
    dt_span span, value_span;
} dt_language_option;

typedef struct dt_syntax {
    DT_LIST(dt_use) uses;
    DT_LIST(dt_language_option) options;
    DT_LIST(dt_declaration *) meshes; /* `mesh model = value`: they declare no name */
    DT_LIST(dt_declaration *) declarations;
    bool incomplete; /* something was not understood, which was said, and what it would have declared is not known */
} dt_syntax;

#endif
