// What the function of cuda_fold.c is made of: an element of what leaves have left, folded in the order of the tree over all leaves.

struct fold_sum {
    template <class T> static __device__ T of(T a, T b) { return T(a + b); }
    static __device__ int of(int a, int b) { return sum_of(a, b); }
    static __device__ i64 of(i64 a, i64 b) { return sum_of(a, b); }
};
struct fold_max {  // NaN if either is
    template <class T> static __device__ T of(T a, T b) { return b > a || b != b ? b : a; }
};
struct fold_min {
    template <class T> static __device__ T of(T a, T b) { return b < a || b != b ? b : a; }
};

template <class T> struct fold_plain {
    typedef T memory, value;
    static __device__ T load(T x) { return x; }
    static __device__ T store(T x) { return x; }
};
struct fold_f16 {
    typedef u16 memory;
    typedef float value;
    static __device__ float load(u16 x) { return from_f16(x); }
    static __device__ u16 store(float x) { return to_f16(x); }
};
struct fold_bf16 {
    typedef u16 memory;
    typedef float value;
    static __device__ float load(u16 x) { return from_bf16(x); }
    static __device__ u16 store(float x) { return to_bf16(x); }
};

template <class T> INLINE void copy_element(const dt_fold_part *part, i64 i) {
    ((T *)part->target)[i] = ((const T *)((const dt_fold_leaf *)part->leaves)->values)[i];
}

// Two sums of as many leaves are the halves of a subtree, and become one; what is left at the end is folded from the right.
template <class Type, class Combiner> INLINE void fold_element(const dt_fold_part *part, i64 i) {
    typename Type::value sums[FOLD_DEPTH];
    i64 spans[FOLD_DEPTH];
    int n = 0;
    for (i64 l = 0; l < part->n_leaves; l++) {
        const dt_fold_leaf *leaf = (const dt_fold_leaf *)part->leaves + l;
        typename Type::value sum = Type::load(((const typename Type::memory *)leaf->values)[i]);
        i64 span = leaf->span;
        for (; n > 0 && spans[n - 1] == span; span *= 2) sum = Combiner::of(sums[--n], sum);
        sums[n] = sum;
        spans[n++] = span;
    }
    for (; n > 1; n--) sums[n - 2] = Combiner::of(sums[n - 2], sums[n - 1]);
    ((typename Type::memory *)part->target)[i] = Type::store(sums[0]);
}

// The part that holds element e of all.
INLINE const dt_fold_part *fold_part(const dt_fold_work *work, i64 e) {
    const dt_fold_part *parts = (const dt_fold_part *)work->parts;
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
