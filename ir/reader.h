/* reader: the words of the text form, taken from a string one after another. Nothing here can fail but by saying "that is not what comes next". */
#ifndef DT_IR_READER_H
#define DT_IR_READER_H

#include "abi/dtype.h"
#include "ir/op.h"

typedef struct dt_reader {
    const char *name;        /* what errors call the text; NULL: no places in errors */
    const char *source, *at; /* terminated */
    dt_arena *arena;         /* for names and strings */
} dt_reader;

/* DT_INVALID_ARGUMENT "name:line:column: …" of where the reader is. */
dt_status *dt_reader_error(const dt_reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts the place in front of another's error; NULL stays NULL. */
dt_status *dt_reader_annotate(const dt_reader *reader, dt_status *status);

bool dt_read_end(dt_reader *reader); /* whether nothing but white space and comments is left */

/* Each takes what it names, spaces in front of it included, and says whether it was there; where not, nothing is taken. Ends of lines are no spaces.
 */
bool dt_read_symbol(dt_reader *reader, const char *symbol);  /* these characters */
bool dt_read_keyword(dt_reader *reader, const char *word);   /* this word, whole */
bool dt_read_word(dt_reader *reader, const char **word);     /* letters, digits, _ and whatever stands in names: / . - */
bool dt_read_name(dt_reader *reader, const char **name);     /* a word, or in quotes what is none */
bool dt_read_string(dt_reader *reader, const char **string); /* "…" with the escapes \" \\ \n \t \xNN */
bool dt_read_int(dt_reader *reader, int64_t *value);
bool dt_read_float(dt_reader *reader, double *value);
bool dt_read_number(dt_reader *reader, dt_attribute *number); /* an integer exactly, or a float */
bool dt_read_dim(dt_reader *reader, int64_t *dim);            /* a number, B or G */
bool dt_read_dtype(dt_reader *reader, dt_dtype *dtype);
bool dt_read_type(dt_reader *reader, dt_dtype *dtype, dt_shape *shape); /* f32[B, 3] */

/* "axes=[1, 2], keep=true" up to what is no attribute; `attributes` [op->n_attributes] gets all, missing ones their default. */
dt_status *dt_read_attributes(dt_reader *reader, const dt_op *op, dt_attribute *attributes);

/* The other direction. */
void dt_print_string(dt_text *text, const char *string);
void dt_print_name(dt_text *text, const char *name);
/* The shortest text that is read back as the same number of that type. */
void dt_print_number(dt_text *text, dt_dtype dtype, const dt_attribute *number);
/* "axes=[1, 2], keep=true": those of `value` that differ from their default, each with ", " in front where `comma` or another comes first. */
void dt_print_attributes(dt_text *text, const dt_value *value, bool comma);

#endif
