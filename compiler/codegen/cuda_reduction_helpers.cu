// The helpers of cuda_reduction.c: one element, reduced over its sources in the order of the tree over all leaves.

struct reduction_sum {
    template <class T> static __device__ T of(T a, T b) { return T(a + b); }
    static __device__ int of(int a, int b) { return sum_of(a, b); }
    static __device__ i64 of(i64 a, i64 b) { return sum_of(a, b); }
};
struct reduction_max {  // NaN if either is
    template <class T> static __device__ T of(T a, T b) { return b > a || b != b ? b : a; }
};
struct reduction_min {
    template <class T> static __device__ T of(T a, T b) { return b < a || b != b ? b : a; }
};

// Types: of the sources in memory, of a sum, and of the targets in memory. f16 and bf16 are added up as float, which memory may hold as well.
template <class T> struct reduction_plain {
    typedef T source, value, target;
    static __device__ T load(T x) { return x; }
    static __device__ T store(T x) { return x; }
};
template <float FROM(u16), u16 TO(float), class Source, class Target> struct reduction_half {
    typedef Source source;
    typedef float value;
    typedef Target target;
    static __device__ float load(u16 x) { return FROM(x); }
    static __device__ float load(float x) { return x; }
    static __device__ u16 rounded(float x, u16) { return TO(x); }
    static __device__ float rounded(float x, float) { return x; }
    static __device__ Target store(float x) { return rounded(x, Target()); }
};
#define REDUCTION_HALVES(type)                                                      \
    typedef reduction_half<from_##type, to_##type, u16, u16> reduction_##type;            \
    typedef reduction_half<from_##type, to_##type, float, u16> reduction_##type##_from_f32; \
    typedef reduction_half<from_##type, to_##type, u16, float> reduction_##type##_to_f32;
REDUCTION_HALVES(f16)
REDUCTION_HALVES(bf16)

template <class T> INLINE void store_element(const dt_reduction_part *part, i64 i, T result) {
    ((T *)part->target)[i] = result;
    for (i64 t = 0; t < part->n_others; t++) ((T *)((const i64 *)part->others)[t])[i] = result;
}

template <class T> INLINE void copy_element(const dt_reduction_part *part, i64 i) {
    store_element<T>(part, i, ((const T *)((const dt_reduction_source *)part->sources)->values)[i]);
}

// Two sums over equally many leaves are the halves of a subtree and become one, as a binary counter carries. So there is at most one open sum over 2^k
// leaves for each k, and the bits of `open` are their spans. What is left at the end is reduced from the right. A thread keeps its open sums in a
// column of shared memory: an array of its own, indexed at run time, would lie in the GPU's memory.
template <class Type, class Combiner> INLINE void reduce_element(const dt_reduction_part *part, i64 i, void *open_sums) {
    typename Type::value *sums = (typename Type::value *)open_sums + threadIdx.x;
    i64 open = 0;
    int n = 0;
    for (i64 s = 0; s < part->n_sources; s++) {
        const dt_reduction_source *source = (const dt_reduction_source *)part->sources + s;
        typename Type::value sum = Type::load(((const typename Type::source *)source->values)[i]);
        open += source->span;
        for (i64 span = source->span; (open & span) == 0; span *= 2) sum = Combiner::of(sums[--n * REDUCTION_THREADS], sum);
        sums[n++ * REDUCTION_THREADS] = sum;
    }
    typename Type::value total = sums[--n * REDUCTION_THREADS];
    while (n > 0) total = Combiner::of(sums[--n * REDUCTION_THREADS], total);
    store_element<typename Type::target>(part, i, Type::store(total));
}

// The part that holds element e of all.
INLINE const dt_reduction_part *part_of(const dt_reduction_work *work, i64 e) {
    const dt_reduction_part *parts = (const dt_reduction_part *)work->parts;
    i64 low = 0, high = work->n_parts;
    while (high - low > 1) {
        const i64 middle = (low + high) / 2;
        if (parts[middle].first <= e)
            low = middle;
        else
            high = middle;
    }
    return parts + low;
}
