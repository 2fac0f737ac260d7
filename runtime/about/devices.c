/* devices: what this machine has, and what `--devices` calls it. */
#include "base/cpu.h"
#include "runtime/about/about.h"
#include "runtime/devices/cuda/driver.h"
#include "runtime/devices/device.h"
#include "runtime/devices/host_memory.h"

#include <unistd.h>

/* What GPUs there are, or in a sentence that there are none. */
static dt_status *list_gpus(dt_text *text) {
    dt_cuda_driver driver;
    bool present;
    DT_TRY(dt_cuda_driver_open(&driver, &present));
    dt_status *status = NULL;
    if (present)
        status = dt_cuda_driver_list(&driver, text);
    else
        dt_text_append(text, "no GPU: this machine has no NVIDIA driver, libcuda.so.1\n");
    dt_cuda_driver_close(&driver);
    return status;
}

void dt_about_devices(dt_text *text) {
    char name[80];
    int level = dt_cpu_level();
    dt_text_format(text, "%s, %ld cores, %s\n", dt_cpu_name(name), sysconf(_SC_NPROCESSORS_ONLN),
                   level > 0 ? dt_cpu_level_name(level) : "not x86-64");
    int64_t free_bytes = dt_host_memory_free_bytes();
    if (free_bytes != INT64_MAX) dt_text_format(text, "%.1f GiB of memory free\n", (double)free_bytes / (1 << 30));
    dt_status *status = list_gpus(text);
    if (status != NULL) dt_text_format(text, "%s\n", dt_status_message(status)); /* the other devices are there all the same */
    dt_status_free(status);
    for (int i = 0; dt_device_kinds[i] != NULL; i++)
        dt_text_format(text, "    --devices %-8s %s\n", dt_device_kinds[i]->name, dt_device_kinds[i]->about);
}
