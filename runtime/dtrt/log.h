/* log: the events of a run (runtime/log.h), as a callback of the session gets them. */
#ifndef DT_RUNTIME_DTRT_LOG_H
#define DT_RUNTIME_DTRT_LOG_H

#include "runtime/dtrt/session.h"
#include "runtime/log.h"

enum {
    DTRT_MOST_PATH = 4096
};

typedef struct dt_api_log {
    dt_log_listener listener; /* first: it is what is heard */
    dtrt_session *session;
    dt_log *log;
    atomic_int stop; /* not 0: the callback has asked for the end */
} dt_api_log;

dt_status *dt_api_open_log(dtrt_session *session, dt_api_log *log);
void dt_api_close_log(dt_api_log *log);

#endif
