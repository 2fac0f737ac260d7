/* host_memory: the memory of devices that compute in this process: aligned, zeroed, in huge pages where it is large. */
#ifndef DT_RUNTIME_DEVICES_HOST_MEMORY_H
#define DT_RUNTIME_DEVICES_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

void *dt_host_memory_allocate(size_t bytes); /* aligned to 64, zeroed; NULL when there is none */
void dt_host_memory_release(void *memory, size_t bytes);

/* What the machine, or the container that it is, has free. INT64_MAX when it does not say. */
int64_t dt_host_memory_free_bytes(void);

#endif
