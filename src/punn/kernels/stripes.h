/* What all kernels share: one copy per processor, and rows that are divided between the threads of torch. */
#include <stdint.h>

/* One copy for the processors of the last ten years, one for all: the loader chooses. */
#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif
#define INLINE static inline __attribute__((always_inline))

/* Works on rows from first to before end of a job; 0 if there was no memory for it. */
typedef int stripe(const void *job, int64_t first, int64_t end);

/* What threads share that work on a job: each takes the next `size` rows until there are none. */
typedef struct {
    stripe *work;
    const void *job;
    int64_t rows, size, next;
    int done;
} shared;

static void take_stripes(void *memory) {
    shared *all = memory;
    for (;;) {
        int64_t first = __atomic_fetch_add(&all->next, all->size, __ATOMIC_RELAXED);
        if (first >= all->rows) return;
        int64_t end = all->rows - first < all->size ? all->rows : first + all->size;
        if (!all->work(all->job, first, end)) __atomic_store_n(&all->done, 0, __ATOMIC_RELAXED);
    }
}

/* The threads are those of the OpenMP that torch has brought along, if there is one: threads of our own would have to
 * share the cores with torch's, which go on spinning for a while when they have nothing to do. */
#ifdef __linux__
extern void GOMP_parallel(void (*work)(void *), void *memory, unsigned threads, unsigned flags) __attribute__((weak));
#else
#define GOMP_parallel ((void (*)(void (*)(void *), void *, unsigned, unsigned))0)
#endif

/* All rows, in stripes small enough that no thread is left with much more than the others. */
static int in_stripes(stripe *work, const void *job, int64_t rows, int64_t threads) {
    if (threads < 2 || !GOMP_parallel) return work(job, 0, rows);
    shared all = {work, job, rows, (rows - 1) / (4 * threads) + 1, 0, 1};
    GOMP_parallel(take_stripes, &all, (unsigned)threads, 0);
    return all.done;
}
