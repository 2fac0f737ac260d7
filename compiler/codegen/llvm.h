/* llvm: what the files llvm_*.c share: how a loop nest is rendered as LLVM IR, as its choices (kernel/choices.h) say.
 *
 * The code is emitted in final form: explicit vectors, hoisted instructions, register tiles as SSA values. LLVM is left with cleaning up, choosing
 * instructions and registers. Its own vectoriser and loop passes would take ten times as long and decide less well, since all they could find out
 * is known here.
 *
 *   llvm.c                 threads, target machines, passes, objects
 *   llvm_build.c           types, vectors, intrinsics, loops
 *   llvm_routine.c         nests that are written once and called
 *   llvm_kernel.c          a kernel: its function, the loops over rows and blocks that nests share
 *   llvm_timer.c           where it reads the clock
 *   llvm_nest.c            a nest: where each instruction goes, and the loops
 *   llvm_scalar.c          one instruction, on one element or on a vector of them
 *   llvm_remainder.c       the remainder of floats
 *   llvm_memory.c          addresses, loads, stores
 *   llvm_stream.c          stores past the caches
 *   llvm_reduce.c          accumulators
 *   llvm_tile.c            sums of products in register tiles
 *   llvm_packing.c         their operands laid out for the cache
 *   llvm_zeros.c           those that leave out products with zeros
 *   llvm_unroll_and_jam.c  sums of products for several results at a time */
#ifndef DT_CODEGEN_LLVM_H
#define DT_CODEGEN_LLVM_H

#include "abi/launch.h"
#include "compiler/codegen/codegen.h"
#include "compiler/kernel/analysis.h"
#include "compiler/kernel/repeats.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

/* ---- one level's module ---- */

typedef struct dt_llvm_target {
    char *cpu, *features; /* as LLVM names them */
    int vector_bytes;     /* of a register; vectors are wider where choices are for another target, with wider ones */
} dt_llvm_target;

/* The kernel that a function is of. */
typedef struct dt_llvm_function {
    const dt_plan *plan;
    const dt_kernel_function *kernel;
    const dt_nest_choices *choices; /* [n_nests] */
} dt_llvm_function;

/* What is known while a module is emitted. Carried values are those that loops hand from one iteration to the next: dt_llvm_loop_begin makes them
 * phis, dt_llvm_loop_end closes them. */
typedef struct dt_llvm_emitter {
    dt_arena *arena;
    const dt_llvm_target *target;
    const dt_choices *choices;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTypeRef void_type, pointer, i1, i8, i16, i32, i64, f16, f32, f64;

    const dt_repeats *repeats;
    LLVMValueRef *routines;    /* [repeats->n_routines] functions; NULL: not written yet */
    LLVMValueRef call_all;     /* the function that calls those of a list; NULL: not written yet */
    const dt_routine *routine; /* at work is its function; NULL: a kernel's */
    LLVMValueRef *parameters;  /* [routine->n_parameters] i64 */
    dt_llvm_function at_work;
    LLVMValueRef function, launch, rows, valid, bad_index;
    LLVMValueRef part, n_parts, share, n_shares, meeting; /* of a divided kernel */
    LLVMValueRef *buffers;                                /* the kernel's arguments */
    LLVMValueRef packed;                                  /* llvm_packing.c: packed operands, on the function's stack; NULL: none yet */
    LLVMValueRef lists;                                   /* llvm_zeros.c: what is listed of operands, on the function's stack; NULL: none yet */
    LLVMValueRef timers, clock;                           /* llvm_timer.c: counters of the launch, and the last reading; NULL: none */
    bool streams;                                         /* at work is the copy of a kernel whose stores may stream (llvm_stream.c) */

    int n_carried;
    LLVMValueRef *carried;
} dt_llvm_emitter;

/* ---- llvm_build.c ---- */

void dt_llvm_emitter_begin(dt_llvm_emitter *e, dt_arena *arena, const dt_llvm_target *target, const char *triple, LLVMTargetDataRef layout);
void dt_llvm_emitter_end(dt_llvm_emitter *e); /* frees module and context */

/* The type that values of `dtype` have in registers (f16 and bf16 are f32, bool is i1) and in memory (bf16 is i16, bool is i8). */
LLVMTypeRef dt_llvm_type(dt_llvm_emitter *e, dt_dtype dtype);
LLVMTypeRef dt_llvm_memory_type(dt_llvm_emitter *e, dt_dtype dtype);
LLVMTypeRef dt_llvm_vector(LLVMTypeRef element, int width); /* width 1: the element */
int dt_llvm_width(LLVMValueRef value);
LLVMTypeRef dt_llvm_element(LLVMValueRef value);                   /* type of the element, or of the scalar */
LLVMTypeRef dt_llvm_like(LLVMValueRef value, LLVMTypeRef element); /* `element` in the width of `value` */

LLVMValueRef dt_llvm_i64(dt_llvm_emitter *e, int64_t value);
LLVMValueRef dt_llvm_integer(LLVMTypeRef type, int64_t value); /* scalar or vector type */
LLVMValueRef dt_llvm_real(LLVMTypeRef type, double value);
LLVMValueRef dt_llvm_splat(dt_llvm_emitter *e, LLVMValueRef value, int width);        /* vectors stay as they are */
LLVMValueRef dt_llvm_lane(dt_llvm_emitter *e, LLVMValueRef value, int lane);          /* of a scalar: itself */
LLVMValueRef dt_llvm_lanes(dt_llvm_emitter *e, LLVMValueRef value, int first, int n); /* n lanes from first; 1: a scalar */
LLVMValueRef dt_llvm_iota(LLVMTypeRef element, int width);                            /* 0, 1, 2, … */
LLVMValueRef dt_llvm_prefix(dt_llvm_emitter *e, int n, int width);                    /* mask with the first n lanes set */
LLVMValueRef dt_llvm_prefix_at_run_time(dt_llvm_emitter *e, LLVMValueRef n, int width);
/* Calls the intrinsic `name` overloaded on `type`. */
LLVMValueRef dt_llvm_intrinsic(dt_llvm_emitter *e, const char *name, LLVMTypeRef *types, int n_types, LLVMValueRef *arguments, int n);
LLVMValueRef dt_llvm_unary(dt_llvm_emitter *e, const char *name, LLVMValueRef x); /* of one operand, overloaded on its type */

LLVMBasicBlockRef dt_llvm_block(dt_llvm_emitter *e, const char *name);

typedef struct dt_llvm_loop {
    LLVMValueRef index; /* i64 */
    LLVMValueRef end, step;
    bool may_be_empty;
    LLVMBasicBlockRef before, body, exit;
    LLVMValueRef *outside, *phis; /* carried values */
} dt_llvm_loop;
/* for (index = start; index < end; index += step): the code up to loop_end is the body. Without may_be_empty there is at least one iteration. */
dt_llvm_loop dt_llvm_loop_begin(dt_llvm_emitter *e, LLVMValueRef start, LLVMValueRef end, int64_t step, bool may_be_empty);
void dt_llvm_loop_end(dt_llvm_emitter *e, dt_llvm_loop *loop);

/* if (condition) { … }: the code up to if_end; nothing may be carried out of it. */
LLVMBasicBlockRef dt_llvm_if_begin(dt_llvm_emitter *e, LLVMValueRef condition, bool is_likely);
void dt_llvm_if_end(dt_llvm_emitter *e, LLVMBasicBlockRef join);

/* ---- llvm_timer.c ---- */

void dt_llvm_timers_begin(dt_llvm_emitter *e); /* of the kernel at work, which is loaded */
/* Behind nests that end before `end`, or, where rows are done, behind their loop over rows: reads the clock if they have a timer there. */
void dt_llvm_read_timer(dt_llvm_emitter *e, int end, bool rows_are_done);

/* ---- llvm_nest.c: one nest ---- */

/* An index or an address: a value known at run time (NULL: none) plus a constant, kept apart so that unrolled code shares the former. */
typedef struct dt_llvm_sum {
    LLVMValueRef variable;
    int64_t constant;
} dt_llvm_sum;

/* What differs between the copies of a body that are jammed together (llvm_unroll_and_jam.c). */
typedef struct dt_llvm_copy {
    LLVMValueRef *values, *splats;
    dt_llvm_sum *loops, *addresses;
    int *slots;
} dt_llvm_copy;

typedef struct dt_llvm_nest {
    dt_llvm_emitter *e;
    const dt_nest *nest;
    const dt_nest_choices *choices;

    /* Analysis. The level of an instruction is the number of loops, in order of execution, that are open where it is emitted. */
    int n_outer;       /* loops around the reduced ones */
    int width;         /* choices->width */
    uint64_t *depends; /* [n_instructions] set of loops, outer ones only after a reduction */
    int *levels;       /* [n_instructions] */
    bool *late;        /* emitted after the reduced loops */
    bool *needed;
    bool *splatted; /* a uniform value that vectors use */

    /* Emission */
    LLVMValueRef *values; /* [n_instructions] */
    LLVMValueRef *splats;
    dt_llvm_sum *loops;     /* [n_loops] current index; of the vector loop: that of lane 0 */
    dt_llvm_sum *addresses; /* [n_instructions + n_stores] without terms */
    int lanes;              /* lanes in use, when that is a constant: width but in a tail */
    LLVMValueRef mask;      /* lanes in use, or NULL: all */
    int *slots;             /* [n_reductions] first carried value of each */

    int n_copies; /* llvm_unroll_and_jam.c: at work; the members above are those of one */
    const dt_llvm_copy *copies;
    LLVMValueRef part_start, part_end; /* of a divided nest: iterations of dt_nest_part_loop, outside of all others; else NULL */
    const LLVMValueRef *numbers;       /* [dt_nest_n_numbers] i64, of those that are parameters of the code at work; the others NULL */

    int tile_level;                /* llvm_tile.c: the level at which dt_llvm_tile_rows takes over */
    int block_vectors, last_lanes; /* of the block at work: vectors, and lanes in use of the last one */
    LLVMValueRef last_mask;        /* where these are known at run time only; or NULL */

    LLVMValueRef depth_here; /* llvm_packing.c: iterations of this part, where that is known at run time only; or NULL */
    LLVMValueRef is_first;   /* whether this part begins the sums; NULL: there is one part */
    bool rows_are_copied;
    int64_t rows_here;      /* rows that tiles are made of now; 0: last_rows, or all */
    LLVMValueRef last_rows; /* where that is known at run time only; or NULL */
} dt_llvm_nest;

/* Does the instruction differ from lane to lane? */
bool dt_llvm_varies(const dt_llvm_nest *n, int instruction);
/* Value for use beside vectors: splatted when uniform. */
LLVMValueRef dt_llvm_operand(dt_llvm_nest *n, int instruction, bool as_vector);
bool dt_llvm_is_constant_extent(int64_t extent);
LLVMValueRef dt_llvm_extent(dt_llvm_emitter *e, int64_t extent);

/* Sets the current index of a loop and brings the addresses that depend on it up to date. Callers save and restore n->addresses. */
void dt_llvm_enter(dt_llvm_nest *n, int loop, dt_llvm_sum index);
dt_llvm_sum *dt_llvm_save_addresses(dt_llvm_nest *n);
void dt_llvm_restore_addresses(dt_llvm_nest *n, const dt_llvm_sum *saved);
LLVMValueRef dt_llvm_sum_value(dt_llvm_emitter *e, dt_llvm_sum sum);

/* Emits the instructions of one level: the early ones, or the late ones. Of one instruction; REDUCED has its value already. */
void dt_llvm_emit_level(dt_llvm_nest *n, int level, bool late);
void dt_llvm_emit(dt_llvm_nest *n, int instruction);
/* One iteration of the loop at `level`, with all that is inside of it. */
void dt_llvm_iteration(dt_llvm_nest *n, int level, dt_llvm_sum index);

/* Analysis, before anything is emitted. `group`: the nests that share a loop over rows with this one, itself among them; what one of them stores
 * another may load, row by row, so such loads stay inside the loop. */
dt_llvm_nest *dt_llvm_nest_prepare(dt_llvm_emitter *e, const dt_nest *nest, const dt_nest *group, int n_group);
/* The code, inside the first `level` loops, which the caller has opened and entered. */
void dt_llvm_nest_emit(dt_llvm_nest *n, int level);

/* ---- llvm_scalar.c ---- */

/* Emits instruction `i`; its operands have values. Not for LOAD and REDUCED. */
LLVMValueRef dt_llvm_instruction(dt_llvm_nest *n, int i);
LLVMValueRef dt_llvm_convert(dt_llvm_emitter *e, LLVMValueRef value, dt_dtype from, dt_dtype to);
LLVMValueRef dt_llvm_round(dt_llvm_emitter *e, LLVMValueRef factor, dt_precision precision); /* f32 */
LLVMValueRef dt_llvm_fused(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
LLVMValueRef dt_llvm_maximum(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, dt_dtype dtype); /* NaN if either is */
LLVMValueRef dt_llvm_minimum(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b, dt_dtype dtype);

/* ---- llvm_remainder.c ---- */

LLVMValueRef dt_llvm_remainder(dt_llvm_emitter *e, LLVMValueRef a, LLVMValueRef b); /* of floats, as C's fmod */

/* ---- llvm_memory.c ---- */

LLVMValueRef dt_llvm_load(dt_llvm_nest *n, int instruction);
/* Does store `s`; operands and guard have values. */
void dt_llvm_store(dt_llvm_nest *n, int store);
/* The `width` neighbours that lie `offset` elements after the address of store `store`. */
LLVMValueRef dt_llvm_load_stored(dt_llvm_nest *n, int store, int64_t offset, int width);
/* Brings the line `offset` elements after the address of store `store` into cache, to be written soon. */
void dt_llvm_prefetch(dt_llvm_nest *n, int store, int64_t offset);
/* The same for the address of load `load`, into the second cache, to be read. */
void dt_llvm_prefetch_load(dt_llvm_nest *n, int load, int64_t offset);
/* Loads `width` neighbours, or one element, without guard, `offset` elements after the address of load `instruction`. */
LLVMValueRef dt_llvm_load_plain(dt_llvm_nest *n, int instruction, dt_llvm_sum offset, int width);

/* ---- llvm_stream.c ---- */

/* Whether any store of the nest of the kernel at work goes past the caches. */
bool dt_llvm_nest_streams(const dt_llvm_emitter *e, int nest);
/* Are the kernel's buffers that streaming stores write at multiples of a cache line? NULL: it has no such stores. */
LLVMValueRef dt_llvm_stream_condition(dt_llvm_emitter *e);
void dt_llvm_stream_store(dt_llvm_emitter *e, LLVMValueRef value, LLVMValueRef pointer, int bytes);
void dt_llvm_stream_end(dt_llvm_emitter *e); /* after the last streaming store */

/* ---- llvm_reduce.c ---- */

/* Gives each reduction its identity as carried values; combines the current elements with them; replaces them by the results, values of REDUCED. */
void dt_llvm_reduce_begin(dt_llvm_nest *n);
void dt_llvm_reduce_step(dt_llvm_nest *n);
void dt_llvm_reduce_end(dt_llvm_nest *n);

/* ---- llvm_tile.c ---- */

/* As dt_llvm_load_plain, of a factor's load: what it is rounded to. */
LLVMValueRef dt_llvm_load_factor(dt_llvm_nest *n, int load, dt_llvm_sum offset, int width);
/* The vector loop, in blocks of vectors, at `level`; and what is inside of all outer loops but the row loop. */
void dt_llvm_tile_blocks(dt_llvm_nest *n, int level);
void dt_llvm_tile_rows(dt_llvm_nest *n);

/* Memory on the stack, allocated in the function's first block and so only once. */
LLVMValueRef dt_llvm_stack(dt_llvm_emitter *e, LLVMTypeRef type, int n_items, int alignment);

/* ---- llvm_zeros.c ---- */

/* Lists what is not zero of operand a, all of it that the nest reads in what has been entered: nothing, or an iteration of the loop over rows. */
void dt_llvm_fill_lists(dt_llvm_nest *n);
/* The products of a tile of one row, which has been entered. */
void dt_llvm_sum_list(dt_llvm_nest *n, const dt_tile *t);

/* ---- llvm_unroll_and_jam.c ---- */

/* A jammed loop, at `level`. */
void dt_llvm_unroll_and_jam_loop(dt_llvm_nest *n, int level);
/* Makes copy c the one at work, below n->n_copies. */
void dt_llvm_use_copy(dt_llvm_nest *n, int c);

/* ---- llvm_packing.c ---- */

/* blocks(n, level), once for each part of the reduced loop and of the rows. */
typedef void dt_llvm_blocks(dt_llvm_nest *n, int level);
void dt_llvm_packing_parts(dt_llvm_nest *n, int level, dt_llvm_blocks *blocks);
/* Copies this part of the block of b that begins at `start` of the vector loop. */
void dt_llvm_packing_fill(dt_llvm_nest *n, dt_llvm_sum start);
/* Vector v of the block, in the iteration of the reduced loop that has been entered. */
LLVMValueRef dt_llvm_packing_load(dt_llvm_nest *n, int v);
/* Row r of a, counted from the one that has been entered, where n->rows_are_copied. */
LLVMValueRef dt_llvm_packing_load_row(dt_llvm_nest *n, int64_t r);
/* Iterations of the reduced loop in this part. */
LLVMValueRef dt_llvm_packing_extent(dt_llvm_nest *n);

/* ---- llvm_kernel.c ---- */

/* What is at work from now on. */
void dt_llvm_begin_kernel(dt_llvm_emitter *e, const dt_plan *plan, const dt_kernel_function *kernel);
/* Starts a function whose first parameters are those of a kernel, or the loads of what a kernel is given. */
void dt_llvm_function_begin(dt_llvm_emitter *e, const char *name, LLVMTypeRef type);
void dt_llvm_load_launch(dt_llvm_emitter *e);
LLVMValueRef dt_llvm_launch_field(dt_llvm_emitter *e, LLVMTypeRef type, size_t offset);                  /* by its bytes from the launch's begin */
LLVMValueRef dt_llvm_item(dt_llvm_emitter *e, LLVMTypeRef type, LLVMValueRef array, LLVMValueRef index); /* of an array that nobody changes */
/* A piece of a kernel: by itself, or in the iteration `row` of the loop over rows, which has been opened. */
void dt_llvm_piece(dt_llvm_emitter *e, const dt_nest *nests, int n_nests, LLVMValueRef row);
void dt_llvm_kernel(dt_llvm_emitter *e, const dt_plan *plan, const dt_kernel_function *kernel, const dt_kernel_repeats *repeats);

/* ---- llvm_routine.c ---- */

/* Writes the functions that a kernel will call, before its own. */
void dt_llvm_write_routines(dt_llvm_emitter *e, const dt_kernel_function *kernel, const dt_kernel_repeats *repeats);
/* Calls them one after the other; row NULL: the code is not in a loop over rows. */
void dt_llvm_call_routines(dt_llvm_emitter *e, const dt_routine_use *const *uses, int n_uses, LLVMValueRef row);
/* dt_llvm_nest.numbers of a nest of the code at work. */
const LLVMValueRef *dt_llvm_numbers(const dt_llvm_emitter *e, const dt_nest *nest);

#endif
