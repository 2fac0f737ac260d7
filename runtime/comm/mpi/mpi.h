/* mpi: the transport between the processes that a launcher started, through whichever MPI the launcher is of. */
#ifndef DT_RUNTIME_COMM_MPI_MPI_H
#define DT_RUNTIME_COMM_MPI_MPI_H

#include "runtime/comm/transport.h"

/* Loads the MPI that the launcher belongs to, and its plugin: the file that DT_MPI_PLUGIN names, or libdt_mpi_NAME.so beside the library or
 * program that this is in, beside the program, or in ../lib from there. Once in a process; the thread that calls it makes all calls of the
 * transport, closing included.
 *
 * transport   NULL where no launcher started this process, or started it alone: then nothing is loaded.
 * Returns     NULL, or what is missing, where it was looked for and what to install; or that MPI failed, or sees other processes than the launcher.
 */
dt_status *dt_transport_open(dt_transport **transport);

#endif
