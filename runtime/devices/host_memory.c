/* host_memory: see host_memory.h.
 *
 * Small blocks come from the heap, with room before them for their own address; large ones are mapped, on a boundary of huge pages: the weights and
 * activations of a step are read in long runs, and a miss of the address cache each 4 KiB is what slows such runs down. */
#include "runtime/devices/host_memory.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SMALL ((size_t)256 << 10)
#define HUGE_PAGE ((size_t)2 << 20)

static void *align(void *memory, size_t alignment) { return (void *)(((uintptr_t)memory + alignment - 1) & ~(uintptr_t)(alignment - 1)); }

static void *allocate_small(size_t bytes) {
    char *block = dt_allocate_zeroed(1, bytes + sizeof block + 64);
    if (block == NULL) return NULL;
    char *memory = align(block + sizeof block, 64);
    memcpy(memory - sizeof block, &block, sizeof block);
    return memory;
}

/* Maps a huge page more than asked for, and gives back what lies around the aligned part. */
static void *allocate_large(size_t bytes) {
    size_t whole = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1), mapped = whole + HUGE_PAGE;
    if (whole < bytes || mapped < whole) return NULL;
    char *start = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) return NULL;
    char *memory = align(start, HUGE_PAGE);
    if (memory != start) munmap(start, (size_t)(memory - start));
    size_t after = mapped - whole - (size_t)(memory - start);
    if (after != 0) munmap(memory + whole, after);
    madvise(memory, whole, MADV_HUGEPAGE); /* advice: without huge pages it is as right, only slower */
    return memory;
}

void *dt_host_memory_allocate(size_t bytes) { return bytes < SMALL ? allocate_small(bytes) : allocate_large(bytes); }

void dt_host_memory_release(void *memory, size_t bytes) {
    if (memory == NULL) return;
    if (bytes >= SMALL) {
        munmap(memory, (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
        return;
    }
    char *block;
    memcpy(&block, (char *)memory - sizeof block, sizeof block);
    dt_release(block);
}

/* The first number of a line that begins with `key` ("" for the first line); -1 where there is none. */
static int64_t read_number(const char *path, const char *key) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return -1;
    char line[256];
    int64_t number = -1;
    while (number < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%" SCNd64, &number) != 1) number = -1;
    fclose(file);
    return number;
}

int64_t dt_host_memory_free_bytes(void) {
    int64_t kilobytes = read_number("/proc/meminfo", "MemAvailable:");
    int64_t limit = read_number("/sys/fs/cgroup/memory.max", ""), used = read_number("/sys/fs/cgroup/memory.current", "");
    int64_t bytes = kilobytes >= 0 ? kilobytes * 1024 : INT64_MAX;
    if (limit >= 0 && used >= 0 && limit - used < bytes) bytes = limit > used ? limit - used : 0;
    return bytes;
}

/* ---- as the memory of a device ---- */

int64_t dt_host_device_free_bytes(const dt_device *device) {
    (void)device;
    return dt_host_memory_free_bytes();
}

dt_status *dt_host_device_allocate(dt_device *device, size_t bytes, void **memory) {
    *memory = dt_host_memory_allocate(bytes);
    return *memory != NULL ? NULL : dt_error(DT_RESOURCE_EXHAUSTED, "%s: not enough memory for %zu bytes", device->name, bytes);
}

void dt_host_device_release(dt_device *device, void *memory, size_t bytes) {
    (void)device;
    dt_host_memory_release(memory, bytes);
}

dt_status *dt_host_device_write(dt_device *device, void *memory, const void *host, size_t bytes) {
    (void)device;
    memcpy(memory, host, bytes);
    return NULL;
}

dt_status *dt_host_device_read(dt_device *device, void *host, const void *memory, size_t bytes) {
    (void)device;
    memcpy(host, memory, bytes);
    return NULL;
}
