/* clock: seconds, for rates and for saying how long something took. Never for results. */
#ifndef DT_RUNTIME_THREADS_CLOCK_H
#define DT_RUNTIME_THREADS_CLOCK_H

double dt_seconds_now(void);        /* of a clock that only goes forward */
double dt_seconds_since_1970(void);  /* the time of day, which people may set */
double dt_seconds_since_exec(void); /* since the process began, to a hundredth; negative where the system does not say */

#endif
