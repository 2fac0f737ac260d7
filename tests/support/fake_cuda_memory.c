/* fake_cuda_memory: device memory and pinned memory of the fake driver.
 *
 * Device addresses are addresses, so that a pointer within a structure works as it does on a GPU; what keeps them apart from the host's is that their
 * pages are closed but while kernels and copies run. Each allocation ends where a page does, or nearly, with a closed page behind it; what is left of
 * its pages is a border that nobody may write. New memory is all ones, which is NaN. Addresses are never given out twice, and those of freed memory
 * stay closed. */
#include "tests/support/fake_cuda.h"

#include <string.h>
#include <sys/mman.h>

enum {
    PAGE = 4096,
    ALIGNMENT = 256,
    PATTERN = 0xff
};

static char *region;                          /* addresses alone */
static size_t region_bytes = (size_t)1 << 38; /* or a part of it, where there is no room for all, as under Valgrind */
static size_t region_used;

size_t fake_used_bytes(const fake_context *context) {
    size_t sum = 0;
    for (const fake_object *o = fake_first(FAKE_DEVICE_MEMORY); o != NULL; o = o->next)
        if (o->is_live && o->context->device == context->device) sum += ((const fake_memory *)o)->bytes;
    return sum;
}

bool fake_is_device_address(uint64_t address) {
    return region != NULL && address >= (uint64_t)(uintptr_t)region && address < (uint64_t)(uintptr_t)region + region_bytes;
}

static void set_open(fake_memory *memory, bool open) {
    if (memory->is_open != open) mprotect(memory->from, memory->whole_bytes, open ? PROT_READ | PROT_WRITE : PROT_NONE);
    memory->is_open = open;
}

/* Pages of the region for `bytes`, filled; NULL: none are left. */
static fake_memory *allocate(fake_kind kind, char *pages, size_t whole, size_t bytes) {
    if (mprotect(pages, whole, PROT_READ | PROT_WRITE) != 0) return NULL;
    memset(pages, PATTERN, whole);
    fake_memory *memory = fake_new(kind, sizeof *memory);
    memory->from = pages;
    memory->whole_bytes = whole;
    memory->bytes = bytes;
    memory->is_open = true;
    memory->address = (uint64_t)(uintptr_t)(pages + whole - (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    return memory;
}

static size_t whole_pages(size_t bytes) { return (bytes + PAGE - 1) / PAGE * PAGE; }

/* Addresses, closed; NULL: there are not so many. */
static char *reserve(size_t bytes) {
    void *pages = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) return NULL;
    return pages;
}

int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_memory *memory = NULL;
    if (error == 0 && fake_capture_forbids()) error = FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (error == 0 && bytes == 0) error = fake_misuse(FAKE_ERROR_INVALID_VALUE, "no bytes are asked for");
    if (error == 0 && bytes > fake.memory_bytes[fake_current()->device] - fake_used_bytes(fake_current())) error = FAKE_ERROR_OUT_OF_MEMORY;
    if (error == 0 && region == NULL)
        while ((region = reserve(region_bytes)) == NULL && region_bytes > PAGE) region_bytes /= 2;
    if (error == 0) {
        size_t whole = whole_pages(bytes);
        if (region != NULL && whole + 2 * PAGE <= region_bytes - region_used)
            memory = allocate(FAKE_DEVICE_MEMORY, region + region_used + PAGE, whole, bytes);
        if (memory == NULL) error = FAKE_ERROR_OUT_OF_MEMORY;
    }
    if (memory != NULL) {
        region_used += memory->whole_bytes + PAGE;
        *address = memory->address;
        set_open(memory, false);
    }
    return fake_end(error, "d%d bytes %zu of GPU %d", memory != NULL ? memory->object.number : 0, bytes,
                    memory != NULL ? memory->object.context->device : 0);
}

int cuMemAllocHost_v2(void **address, size_t bytes) {
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT);
    fake_memory *memory = NULL;
    if (error == 0 && fake_capture_forbids()) error = FAKE_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (error == 0 && bytes == 0) error = fake_misuse(FAKE_ERROR_INVALID_VALUE, "no bytes are asked for");
    if (error == 0) {
        size_t whole = whole_pages(bytes);
        char *pages = reserve(whole + 2 * PAGE);
        if (pages != NULL) memory = allocate(FAKE_PINNED_MEMORY, pages + PAGE, whole, bytes);
        if (memory == NULL) error = FAKE_ERROR_OUT_OF_MEMORY;
    }
    if (memory != NULL) *address = (void *)(uintptr_t)memory->address;
    return fake_end(error, "h%d bytes %zu", memory != NULL ? memory->object.number : 0, bytes);
}

/* ---- borders ---- */

static bool is_pattern(const char *from, const char *end) {
    for (; from < end; from++)
        if ((unsigned char)*from != PATTERN) return false;
    return true;
}

static void check_borders(const fake_memory *memory, const char *who) {
    char *begin = (char *)(uintptr_t)memory->address, *end = begin + memory->bytes, *last = memory->from + memory->whole_bytes;
    bool before = is_pattern(memory->from, begin), behind = is_pattern(end, last);
    if (before && behind) return;
    fake_misuse(0, "%s: there was a write %s %c%d of %zu bytes", who, before ? "behind" : "in front of",
                memory->object.kind == FAKE_DEVICE_MEMORY ? 'd' : 'h', memory->object.number, memory->bytes);
    memset(memory->from, PATTERN, (size_t)(begin - memory->from));
    memset(end, PATTERN, (size_t)(last - end));
}

void fake_open_memory(const fake_context *context) {
    for (fake_object *o = fake_first(FAKE_DEVICE_MEMORY); o != NULL; o = o->next)
        if (o->is_live) set_open((fake_memory *)o, context != NULL && fake_can_access(context, o->context));
}

void fake_check_memory(const char *who) {
    for (int kind = FAKE_DEVICE_MEMORY; kind <= FAKE_PINNED_MEMORY; kind++)
        for (const fake_object *o = fake_first(kind); o != NULL; o = o->next)
            if (o->is_live && ((const fake_memory *)o)->is_open) check_borders((const fake_memory *)o, who);
}

/* ---- giving back ---- */

/* The driver waits for all work of the context before memory goes, and so does this. The object is not live afterwards, whatever went wrong. */
static int release(fake_kind kind, uint64_t address) {
    const fake_context *here = fake_current();
    for (fake_object *o = fake_first(kind); o != NULL; o = o->next) {
        fake_memory *memory = (fake_memory *)o;
        if (memory->address != address) continue;
        if (!o->is_live) return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%c%d is freed twice", kind == FAKE_DEVICE_MEMORY ? 'd' : 'h', o->number);
        if (kind == FAKE_DEVICE_MEMORY && here != NULL && o->context != here)
            return fake_misuse(FAKE_ERROR_INVALID_VALUE, "d%d is GPU %d's, and the thread's context is GPU %d's", o->number, o->context->device,
                               here->device);
        if (here != NULL) fake_await((fake_goal){.context = here});
        set_open(memory, true);
        check_borders(memory, "until it was freed");
        o->is_live = false;
        set_open(memory, false);
        madvise(memory->from, memory->whole_bytes, MADV_DONTNEED);
        return 0;
    }
    char place[FAKE_TEXT];
    return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s is freed as %s", fake_place(place, address),
                       kind == FAKE_DEVICE_MEMORY ? "device memory" : "pinned memory");
}

int cuMemFree_v2(uint64_t address) {
    char place[FAKE_TEXT];
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT), other = release(FAKE_DEVICE_MEMORY, address);
    return fake_end(error != 0 ? error : other, "%s", fake_place(place, address));
}

int cuMemFreeHost(void *address) {
    char place[FAKE_TEXT];
    int error = fake_begin(__func__, FAKE_NEEDS_CONTEXT), other = release(FAKE_PINNED_MEMORY, (uint64_t)(uintptr_t)address);
    return fake_end(error != 0 ? error : other, "%s", fake_place(place, (uint64_t)(uintptr_t)address));
}

/* ---- what an address is ---- */

/* The allocation whose pages hold `address`, live or not, or half of the closed page on either side. */
static const fake_memory *around(fake_kind kind, uint64_t address) {
    for (const fake_object *o = fake_first(kind); o != NULL; o = o->next) {
        const fake_memory *memory = (const fake_memory *)o;
        uint64_t from = (uint64_t)(uintptr_t)memory->from;
        if (address >= from - PAGE / 2 && address < from + memory->whole_bytes + PAGE / 2) return memory;
    }
    return NULL;
}

const char *fake_place(char text[FAKE_TEXT], uint64_t address) {
    for (int kind = FAKE_DEVICE_MEMORY; kind <= FAKE_PINNED_MEMORY; kind++) {
        const fake_memory *memory = around(kind, address);
        if (memory == NULL) continue;
        snprintf(text, FAKE_TEXT, "%c%d%+lld", kind == FAKE_DEVICE_MEMORY ? 'd' : 'h', memory->object.number, (long long)(address - memory->address));
        return text;
    }
    snprintf(text, FAKE_TEXT, "%s", address == 0 ? "NULL" : "host");
    return text;
}

static bool holds(const fake_memory *memory, uint64_t address, size_t bytes) {
    return address >= memory->address && address - memory->address <= memory->bytes && bytes <= memory->bytes - (address - memory->address);
}

int fake_check_device(const char *what, const fake_context *context, uint64_t address, size_t bytes) {
    const fake_memory *memory = fake_is_device_address(address) ? around(FAKE_DEVICE_MEMORY, address) : NULL;
    char place[FAKE_TEXT];
    fake_place(place, address);
    if (memory == NULL) return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s: %s is not on the device", what, place);
    if (!memory->object.is_live) return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s: %s is used after it was freed", what, place);
    if (!holds(memory, address, bytes))
        return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s: %s, %zu bytes, is outside of an allocation of %zu", what, place, bytes, memory->bytes);
    if (!fake_can_access(context, memory->object.context))
        return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s: %s is memory of GPU %d, to which GPU %d was given no access", what, place,
                           memory->object.context->device, context->device);
    return 0;
}

int fake_check_host(const char *what, const void *pointer, size_t bytes, bool *is_pinned) {
    uint64_t address = (uint64_t)(uintptr_t)pointer;
    const fake_memory *memory = around(FAKE_PINNED_MEMORY, address);
    char place[FAKE_TEXT];
    fake_place(place, address);
    *is_pinned = memory != NULL;
    if (address == 0 || fake_is_device_address(address)) return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s: %s is not on the host", what, place);
    if (memory == NULL) return 0;
    if (!memory->object.is_live) return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s: %s is used after it was freed", what, place);
    if (!holds(memory, address, bytes))
        return fake_misuse(FAKE_ERROR_INVALID_VALUE, "%s: %s, %zu bytes, is outside of an allocation of %zu", what, place, bytes, memory->bytes);
    return 0;
}
