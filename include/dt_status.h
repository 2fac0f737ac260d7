/* dt_status: what dtc.h and dtrt.h share: how a function says that it failed, and how structs of options grow.
 *
 * Errors. A function that can fail returns dt_status *. NULL is success; anything else belongs to the caller, who frees it with
 * dtc_status_free or dtrt_status_free, that of the library which returned it. Nothing of ours prints, exits or installs a handler.
 *
 * Structs of options begin with their size, which the caller sets to sizeof. Zeros are the defaults. So a program that was compiled with an
 * older header runs with a newer library: what its smaller struct lacks has the default. A larger struct, of a newer header, is refused if
 * what this library does not know of is not zero. What a library fills in (dt_status too) only ever grows at its end.
 *
 * Callbacks run on the thread that called, while it waits, and without a lock held. What is not 0 stops the call: that of
 * dtc.h returns DT_ABORTED, that of dtrt.h says what it has done until then.
 *
 * Texts are UTF-8 and end with a 0. */
#ifndef DT_STATUS_H
#define DT_STATUS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the libraries export; all else in them is hidden. */
#define DT_API __attribute__((visibility("default")))

typedef enum dt_code {
    DT_OK = 0,
    DT_INVALID_ARGUMENT,    /* the caller asked for something that makes no sense, or the program has mistakes */
    DT_NOT_FOUND,           /* a file, a name or a variable that should exist does not */
    DT_ALREADY_EXISTS,      /* refusing to overwrite */
    DT_OUT_OF_RANGE,        /* the end of an epoch, an index past the end */
    DT_DATA_LOSS,           /* input that is truncated, altered or inconsistent */
    DT_FAILED_PRECONDITION, /* right request, wrong state: a checkpoint of another model, another version */
    DT_RESOURCE_EXHAUSTED,  /* memory, disk, file descriptors */
    DT_UNIMPLEMENTED,       /* a part of the language, or of a vendor's library, that is not there */
    DT_ABORTED,             /* a callback, a peer or a signal asked for the end */
    DT_IO,                  /* the operating system refused: the message holds its reason */
    DT_INTERNAL             /* a bug of ours */
} dt_code;

typedef struct dt_status {
    dt_code code;
    int line, column;     /* where in `file`, from 1, columns in bytes; 0: not known */
    const char *message;  /* a sentence: what was wrong, where, and what to do next, with members of structs in backquotes; it says the place too */
    const char *file;     /* that it is about: the program, or what was read or written; "" where there is none */
    const char *variable; /* that it is about, by its path: "Net/dense/kernel"; "" where there is none */
} dt_status;

#ifdef __cplusplus
}
#endif
#endif
