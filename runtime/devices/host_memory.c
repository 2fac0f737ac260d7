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
#include <sys/resource.h>

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

/* ---- how much is free ---- */

enum {
    MOST_PATH = 4096
};

/* The number that follows `key` at the beginning of a line of the file, "" for the first line; -1 where there is none. */
static int64_t read_number(const char *root, const char *path, const char *key) {
    char whole[MOST_PATH], line[256];
    if (snprintf(whole, sizeof whole, "%s%s", root, path) >= (int)sizeof whole) return -1;
    FILE *file = fopen(whole, "re");
    if (file == NULL) return -1;
    int64_t number = -1;
    while (number < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%" SCNd64, &number) != 1) number = -1;
    fclose(file);
    return number;
}

static int64_t left_of(int64_t limit, int64_t used) { return used < 0 ? limit : used < limit ? limit - used : 0; }

static void bound_by(int64_t bytes, const char *reason, int64_t *least, const char **bound) {
    if (bytes >= *least) return;
    *least = bytes;
    *bound = reason;
}

/* How the two versions of control groups call their files. */
typedef struct group_files {
    const char *folder, *limit, *used, *inactive, *active;
} group_files;

/* Of one group. Pages of files count as used, though they are given back to who needs memory. */
static void look_at_group(const char *root, const group_files *files, const char *group, int64_t *least, const char **bound) {
    char path[MOST_PATH];
    snprintf(path, sizeof path, "%s%s/%s", files->folder, group, files->limit);
    int64_t limit = read_number(root, path, "");
    if (limit < 0) return; /* "max", or no such group where this process looks */
    snprintf(path, sizeof path, "%s%s/%s", files->folder, group, files->used);
    int64_t used = read_number(root, path, "");
    snprintf(path, sizeof path, "%s%s/memory.stat", files->folder, group);
    int64_t inactive = read_number(root, path, files->inactive), active = read_number(root, path, files->active);
    used -= (inactive > 0 ? inactive : 0) + (active > 0 ? active : 0);
    bound_by(left_of(limit, used > 0 ? used : 0), " in its control group", least, bound);
}

/* Of the group that a line of /proc/self/cgroup names, ID:CONTROLLERS:PATH, and of those that it is in. */
static void look_at_groups(const char *root, char *line, int64_t *least, const char **bound) {
    static const group_files versions[] = {
        {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
        {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ", "active_file "},
    };
    char *controllers = strchr(line, ':'), *group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (group == NULL) return;
    *group++ = '\0';
    group[strcspn(group, "\n")] = '\0';
    bool is_second = controllers[1] == '\0';
    if (!is_second && strstr(controllers, "memory") == NULL) return;
    for (char *end = group + strlen(group); end != NULL; end = strrchr(group, '/')) {
        *end = '\0';
        look_at_group(root, &versions[is_second], group, least, bound);
    }
}

int64_t dt_host_memory_find_free(const char *root, const char **bound) {
    int64_t kilobytes = read_number(root, "/proc/meminfo", "MemAvailable:"), least = kilobytes >= 0 ? kilobytes * 1024 : INT64_MAX;
    char line[MOST_PATH];
    *bound = "";
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *groups = fopen(line, "re");
    while (groups != NULL && fgets(line, sizeof line, groups) != NULL) look_at_groups(root, line, &least, bound);
    if (groups != NULL) fclose(groups);

    static const struct {
        int resource;
        const char *key, *bound;
    } limits[] = {{RLIMIT_AS, "VmSize:", " under `ulimit -v`"}, {RLIMIT_DATA, "VmData:", " under `ulimit -d`"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        if (getrlimit(limits[i].resource, &limit) != 0 || limit.rlim_cur > INT64_MAX) continue;
        int64_t used = read_number(root, "/proc/self/status", limits[i].key);
        bound_by(left_of((int64_t)limit.rlim_cur, used >= 0 ? used * 1024 : 0), limits[i].bound, &least, bound);
    }
    return least;
}

int64_t dt_host_memory_free_bytes(void) {
    const char *bound;
    return dt_host_memory_find_free("", &bound);
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
