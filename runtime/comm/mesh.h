/* mesh: a run's processes along the axes of what they share out. Along `data` they divide the microbatches, each with all of what it has of the
 * model; along `model` each has some of its logical shards, along `stages` some of its layers, and all have the same microbatches.
 *
 * Process (stage * n_data + data) * n_shards_over + model of the run is number `stage`, `data` and `model` along these: what is exchanged most often
 * is exchanged by neighbours. Along each axis a process is in one group, of those that differ from it there alone, so that two processes have at most
 * one group in common, but for that of all. */
#ifndef DT_RUNTIME_COMM_MESH_H
#define DT_RUNTIME_COMM_MESH_H

#include "runtime/comm/microbatches.h"

typedef enum dt_mesh_axis {
    DT_AXIS_DATA,
    DT_AXIS_MODEL,
    DT_AXIS_STAGES,
    DT_N_AXES
} dt_mesh_axis;

typedef struct dt_mesh {
    dt_process_roles axes[DT_N_AXES]; /* the group along each that this process is in, of one process where nothing is shared out so */
} dt_mesh;

/* Of all processes, whose number shards_over times n_stages divides. Where both are 1, or 0, all divide the microbatches, with the roles they have.
 */
static inline dt_mesh dt_mesh_of(dt_process_roles all, int64_t shards_over, int64_t n_stages) {
    int over = shards_over > 1 ? (int)shards_over : 1, stages = n_stages > 1 ? (int)n_stages : 1;
    int n_data = all.n_processes / (over * stages), p = all.process;
    dt_process_roles alone = {.n_processes = 1};
    dt_mesh made = {{all, alone, alone}};
    if (over * stages > 1)
        made.axes[DT_AXIS_DATA] = (dt_process_roles){
            .n_processes = n_data, .process = p / over % n_data, .stride = over, .offset = p / (over * n_data) * over * n_data + p % over};
    if (over > 1) made.axes[DT_AXIS_MODEL] = (dt_process_roles){.n_processes = over, .process = p % over, .stride = 1, .offset = p / over * over};
    if (stages > 1)
        made.axes[DT_AXIS_STAGES] =
            (dt_process_roles){.n_processes = stages, .process = p / (over * n_data), .stride = over * n_data, .offset = p % (over * n_data)};
    return made;
}

/* Number `process` of the run, as one of those that divide the microbatches. */
static inline int dt_mesh_data_of(const dt_mesh *mesh, int process) {
    const dt_process_roles *data = &mesh->axes[DT_AXIS_DATA];
    return data->stride > 0 ? process / data->stride % data->n_processes : process;
}

/* Whether this process is the one of those with the same microbatches that speaks for all. */
static inline bool dt_mesh_leads(const dt_mesh *mesh) { return mesh->axes[DT_AXIS_MODEL].process == 0 && mesh->axes[DT_AXIS_STAGES].process == 0; }

#endif
