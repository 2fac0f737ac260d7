/* option_rows: words for rows of options.h, whose members are of the struct that is DT_ROWS_OF: FLAG(json), WHOLE(keep, 1). */
#ifndef DT_RUNTIME_OPTION_ROWS_H
#define DT_RUNTIME_OPTION_ROWS_H

#include "runtime/options.h"

#define DT_MEMBER(type, name) .member = _Generic(((DT_ROWS_OF *)NULL)->name, type : offsetof(DT_ROWS_OF, name))
#define FLAG(name) .kind = DT_OPTION_FLAG, DT_MEMBER(bool, name)
#define CHOICE(name) .kind = DT_OPTION_CHOICE, DT_MEMBER(bool, name)
#define LEVEL(name, number) .kind = DT_OPTION_LEVEL, DT_MEMBER(dt_by_rows, name), .least = (number)
#define TEXT(name) .kind = DT_OPTION_TEXT, DT_MEMBER(const char *, name)
#define PATH(name) .kind = DT_OPTION_PATH, DT_MEMBER(const char *, name)
#define LIST(name, n) .kind = DT_OPTION_LIST, DT_MEMBER(const char *const *, name), .said = offsetof(DT_ROWS_OF, n)
#define WHOLE(name, number) .kind = DT_OPTION_WHOLE, DT_MEMBER(int64_t, name), .least = (number)
#define COUNT(name, number) .kind = DT_OPTION_COUNT, DT_MEMBER(int, name), .most = (number)
#define SECONDS(name, number) .kind = DT_OPTION_SECONDS, DT_MEMBER(double, name), .least = (number)
#define NUMBER(name) .kind = DT_OPTION_NUMBER, DT_MEMBER(double, name)
#define DEFAULT(number) .otherwise = (number)
#define SAID(name) .said = offsetof(DT_ROWS_OF, name)

#endif
