/* Included by chain.c, once with REAL float and once with REAL double. */

INLINE REAL NAME(magnitude)(REAL x) { return x < 0 ? -x : x; }

INLINE REAL NAME(sigmoid)(REAL t) {
    REAL e = NAME(exp)(-NAME(magnitude)(t)), r = 1 / (1 + e);
    return t < 0 ? e * r : r;
}

/* Gates that must not take the mass: before the first part of the true class, or between two of its parts.
 * Writes factor * q_j, and returns the sum of -log(1 - q_j) = softplus(theta_j), less the log1p of `left`, which
 * whoever has several such calls takes side by side. Of `room` numbers all may be read and written over, the better to
 * work on LANES at a time.
 * With e = exp(-|theta|): q is 1 / (1 + e) or e / (1 + e), softplus is max(theta, 0) + log(1 + e), and the product of
 * all (1 + e) less one, p <- p + e (1 + p), keeps the digits of small e that 1 + e would lose. */
INLINE double NAME(reject)(
    const REAL *restrict theta, int64_t count, int64_t room, REAL factor, REAL *restrict out, double *left
) {
    double loss = 0;
    *left = 0;
    for (int64_t first = 0; first < count; first += BLOCK) {
        int64_t end = count - first < BLOCK ? count : first + BLOCK;
        double product[LANES] = {0}, hinge[LANES] = {0};
        REAL e[LANES], h[LANES];
        for (int64_t at = first; at < end; at += LANES) {
            if (at + LANES <= room) {
                for (int l = 0; l < LANES; l++) {
                    REAL t = theta[at + l];
                    e[l] = NAME(exp)(-NAME(magnitude)(t));
                    h[l] = t < 0 ? 0 : t;
                    REAL r = 1 / (1 + e[l]);
                    out[at + l] = factor * (t < 0 ? e[l] * r : r);
                }
                INTEGER more = end - at < LANES ? end - at : LANES;
                if (more < LANES)
                    for (INTEGER l = 0; l < LANES; l++) e[l] = l < more ? e[l] : 0, h[l] = l < more ? h[l] : 0;
            } else {
                for (int l = 0; l < LANES; l++) e[l] = h[l] = 0;
                for (int64_t l = 0; l < end - at; l++) {
                    REAL t = theta[at + l];
                    e[l] = NAME(exp)(-NAME(magnitude)(t));
                    h[l] = t < 0 ? 0 : t;
                    out[at + l] = factor * NAME(sigmoid)(t);
                }
            }
            for (int l = 0; l < LANES; l++) {
                product[l] += e[l] * (1 + product[l]);
                hinge[l] += h[l];
            }
        }
        for (int half = LANES / 2; half; half /= 2) {
            for (int l = 0; l < half; l++) {
                product[l] += product[l + half] * (1 + product[l]);
                hinge[l] += hinge[l + half];
            }
        }
        loss += hinge[0] + log1p(*left);
        *left = product[0];
    }
    return loss;
}

/* -log of what a sigmoid gate takes; of an infinite argument, 0. */
INLINE double NAME(cost_of_taking)(REAL t) {
    double e = exp_double(t < 0 ? t : -t);
    return (t < 0 ? -(double)t : 0) + log1p_double(e);
}

/* One part: the gates before it must reject, its own must accept, and what comes after it never matters.
 * Returns the loss, less the log1p of `left` and less what it costs that its own gate, of argument `own`, takes. */
INLINE double NAME(one_part)(
    const REAL *theta, int64_t part, int64_t gates, REAL scale, REAL *gradient, double *left, REAL *own
) {
    double loss = NAME(reject)(theta, part, gates, scale, gradient, left);
    *own = part < gates ? theta[part] : INFINITY;
    if (part < gates) {
        gradient[part] = -scale * NAME(sigmoid)(-theta[part]);
        memset(gradient + part + 1, 0, (gates - part - 1) * sizeof(REAL));
    }
    return loss;
}

/* What a row with several parts writes down on its way, each an array with room for as many numbers as parts. */
typedef struct {
    double *before; /* -log of what the gates between a part and the one before it let through */
    double *take;   /* -log of what its own gate takes */
    double *pass;   /* -log of what its own gate lets through */
    double *share;  /* of the class's mass; on the way to it, what the logarithms are taken of */
} NAME(notes);

/* Several parts: forwards the log of each one's mass, backwards q_j times the share of the parts after j.
 * All logarithms that the parts' own gates need are taken side by side. */
INLINE double NAME(several_parts)(
    const REAL *theta, const int64_t *parts, int64_t count, int64_t gates, REAL scale, REAL *gradient,
    NAME(notes) notes
) {
    double *restrict before = notes.before, *restrict take = notes.take, *restrict pass = notes.pass;
    double *restrict share = notes.share;
    int64_t at = 0;
    for (int64_t p = 0; p < count; at = parts[p++] + 1) {
        before[p] = NAME(reject)(theta + at, parts[p] - at, gates - at, 1, gradient + at, &share[p]);
        take[p] = parts[p] < gates ? theta[parts[p]] : INFINITY; /* the last function has no gate and takes all */
    }
    for (int64_t p = 0; p < count; p++) {
        double t = take[p], both = log1p_double(exp_double(t < 0 ? t : -t));
        take[p] = (t < 0 ? -t : 0) + both;
        pass[p] = (t < 0 ? 0 : t) + both;
        before[p] += log1p_from_zero(share[p]);
    }
    double taken = 0, top = -INFINITY, total = 0, later = 0;
    for (int64_t p = 0; p < count; p++) {
        taken += before[p];
        share[p] = -taken - take[p];
        if (parts[p] < gates) taken += pass[p];
        top = share[p] > top ? share[p] : top;
    }
    if (at < gates) memset(gradient + at, 0, (gates - at) * sizeof(REAL));
    /* Nothing at all reaches any part, which takes arguments near the largest number: the first one is the nearest. */
    int lost = top == -INFINITY;
    for (int64_t p = 0; p < count; p++) share[p] = lost ? p == 0 : exp_double(share[p] - top);
    for (int64_t p = 0; p < count; p++) total += share[p];
    for (int64_t p = count - 1; p >= 0; p--) {
        double mine = share[p] / total;
        int64_t part = parts[p], first = p ? parts[p - 1] + 1 : 0;
        if (part < gates) {
            gradient[part] = (REAL)(scale * (NAME(sigmoid)(theta[part]) * later - NAME(sigmoid)(-theta[part]) * mine));
        }
        later += mine;
        REAL factor = (REAL)(scale * later);
        for (int64_t j = first; j < part; j++) gradient[j] *= factor;
    }
    return lost ? taken : -top - log(total);
}

typedef struct {
    const REAL *theta;
    int64_t gates;
    const int64_t *target, *offsets, *positions;
    const REAL *scales;
    REAL one_scale;
    int64_t most; /* parts of a class */
    REAL *gradient;
    double *loss;
} NAME(loss_job);

FOR_EACH_PROCESSOR static int NAME(loss_of_rows)(const void *of, int64_t from, int64_t to) {
    const NAME(loss_job) job = *(const NAME(loss_job) *)of;
    double *memory = malloc((4 * job.most + 1) * sizeof(double));
    if (!memory) return 0;
    NAME(notes) notes = {memory, memory + job.most, memory + 2 * job.most, memory + 3 * job.most};
    const REAL *theta = job.theta + from * job.gates;
    REAL *gradient = job.gradient + from * job.gates;
    for (int64_t first = from; first < to; first += LANES) {
        int64_t end = to - first < LANES ? to : first + LANES;
        double left[LANES] = {0}, rest[LANES];
        REAL own[LANES];
        for (int l = 0; l < LANES; l++) own[l] = INFINITY;
        for (int64_t row = first; row < end; row++, theta += job.gates, gradient += job.gates) {
            const int64_t *parts = job.positions + job.offsets[job.target[row]];
            int64_t count = job.offsets[job.target[row] + 1] - job.offsets[job.target[row]], l = row - first;
            REAL scale = job.scales ? job.scales[row] : job.one_scale;
            job.loss[row] = count == 1
                ? NAME(one_part)(theta, parts[0], job.gates, scale, gradient, &left[l], &own[l])
                : NAME(several_parts)(theta, parts, count, job.gates, scale, gradient, notes);
        }
        for (int l = 0; l < LANES; l++) rest[l] = log1p_from_zero(left[l]) + NAME(cost_of_taking)(own[l]);
        for (int64_t row = first; row < end; row++) {
            job.loss[row] = (job.scales ? job.scales[row] : job.one_scale) * (job.loss[row] + rest[row - first]);
        }
    }
    free(memory);
    return 1;
}

/* Loss of every row, or all of them added up, and the gradient, all times the row's scale or one for all.
 * The functions of class c are positions[offsets[c]] to positions[offsets[c + 1] - 1], rising.
 * Returns the first row whose target is no class, rows if there is none, and -1 without memory. */
int64_t NAME(punn_chain_loss)(
    const REAL *theta, int64_t rows, int64_t gates, const int64_t *target, int64_t classes, const int64_t *offsets,
    const int64_t *positions, const REAL *scales, double one_scale, REAL *gradient, REAL *loss, int64_t added,
    int64_t threads
) {
    int64_t most = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (target[row] < 0 || target[row] >= classes) return row;
        int64_t count = offsets[target[row] + 1] - offsets[target[row]];
        most = count > most ? count : most;
    }
    double *losses = malloc((rows + 1) * sizeof(double));
    NAME(loss_job) job = {theta, gates, target, offsets, positions, scales, (REAL)one_scale, most, gradient, losses};
    int done = losses && in_stripes(NAME(loss_of_rows), &job, rows, threads);
    double total = 0;
    for (int64_t row = 0; row < rows && done; row++) {
        total += losses[row];
        if (!added) loss[row] = (REAL)losses[row];
    }
    if (added) *loss = (REAL)total;
    free(losses);
    return done ? rows : -1;
}

/* A running sum of doubles that is as good as new at every block: what rounding takes away is kept beside it. */
INLINE void NAME(carry)(double *sum, double *rest, double more) {
    if (sizeof(REAL) < sizeof(double)) {
        *sum += more;
        return;
    }
    double next = *sum + more, part = next - *sum;
    if (isfinite(next)) *rest += (*sum - (next - part)) + (more - part);
    *sum = next;
}

/* Log of what the sigmoid gates of LANES arguments accept and reject. */
INLINE void NAME(log_gates)(const REAL *theta, REAL *restrict accept, REAL *restrict reject) {
    for (int l = 0; l < LANES; l++) {
        REAL t = theta[l], both = NAME(log1p)(NAME(exp)(-NAME(magnitude)(t)));
        accept[l] = (t < 0 ? t : 0) - both;
        reject[l] = (t < 0 ? 0 : -t) - both;
    }
}

/* LANES partition functions: accept, plus what all rejected before, which `sum` and `rest` hold together.
 * Four sums are formed at a time, by adding the neighbour and then the neighbour's neighbour. */
INLINE void NAME(add_up)(const REAL *accept, const REAL *reject, double *sum, double *rest, REAL *restrict out) {
    const four none = {0};
    four within = {0};
    for (int l = 0; l < LANES; l += 4) {
        four a, r;
        for (int i = 0; i < 4; i++) a[i] = accept[l + i], r[i] = reject[l + i];
        r += SHUFFLE(r, none, 4, 0, 1, 2);
        r += SHUFFLE(r, none, 4, 5, 0, 1);
        a += *sum + (*rest + (within + SHUFFLE(r, none, 4, 0, 1, 2)));
        within += SHUFFLE(r, none, 3, 3, 3, 3);
        for (int i = 0; i < 4; i++) out[l + i] = (REAL)a[i];
    }
    NAME(carry)(sum, rest, within[0]);
}

/* The first `left` of LANES numbers, and any after them; a copy of fixed length takes a fraction of the time. */
INLINE void NAME(lanes_at)(const REAL *x, INTEGER left, int roomy, REAL *out) {
    if (roomy) {
        memcpy(out, x, LANES * sizeof(REAL));
    } else {
        for (INTEGER l = 0; l < LANES; l++) out[l] = l < left ? x[l] : 0;
    }
}

/* Log of the partition functions of one row, gates + 1 of them; from the arguments of sigmoid gates, or if theta is NULL
 * from the logs of any gates. `roomy`: LANES numbers past the last whole ones may be read, and written over. */
INLINE void NAME(partition_row)(
    const REAL *theta, const REAL *accept, const REAL *reject, int64_t gates, int roomy, REAL *restrict out
) {
    int64_t whole = gates - gates % LANES;
    INTEGER left = gates % LANES;
    REAL yes[LANES], no[LANES], last[LANES];
    double sum = 0, rest = 0;
    for (int64_t first = 0; first < whole; first += LANES) {
        if (theta) {
            NAME(log_gates)(theta + first, yes, no);
            NAME(add_up)(yes, no, &sum, &rest, out + first);
        } else {
            NAME(add_up)(accept + first, reject + first, &sum, &rest, out + first);
        }
    }
    if (theta) {
        NAME(lanes_at)(theta + whole, left, roomy, last);
        NAME(log_gates)(last, yes, no);
    } else {
        NAME(lanes_at)(accept + whole, left, roomy, yes);
        NAME(lanes_at)(reject + whole, left, roomy, no);
    }
    /* The lanes past the end reject nothing, so the last function is the first of them. */
    for (INTEGER l = 0; l < LANES; l++) yes[l] = l < left ? yes[l] : 0, no[l] = l < left ? no[l] : 0;
    NAME(add_up)(yes, no, &sum, &rest, last);
    if (roomy) {
        memcpy(out + whole, last, sizeof last);
    } else {
        for (INTEGER l = 0; l <= left; l++) out[whole + l] = last[l];
    }
}

/* Numbers of a processor's vector, and the answers to a comparison of them. */
typedef REAL NAME(some) __attribute__((vector_size(32)));
typedef INTEGER NAME(answers) __attribute__((vector_size(32)));

/* In every lane the largest of the numbers at x, x + step, ..., as far as they are before `end`. */
INLINE void NAME(largest)(const REAL *x, int64_t step, const REAL *end, REAL *out) {
    NAME(some) top[LANES * sizeof(REAL) / 32], next;
    memcpy(top, x, sizeof top);
    for (x += step; x < end; x += step) {
        for (size_t i = 0; i < sizeof top / sizeof next; i++) {
            memcpy(&next, x + i * (sizeof next / sizeof *x), sizeof next);
            NAME(answers) larger = next > top[i];
            top[i] = (NAME(some))(((NAME(answers))next & larger) | ((NAME(answers))top[i] & ~larger));
        }
    }
    memcpy(out, top, sizeof top);
}

/* Log of the sums of one row's functions that take turns, 0, 1, ..., 0, 1, ...: LANES classes at a time. What a lane past
 * the last class reads is of no use and not kept, but LANES numbers past the end of log_h must be there to be read. */
INLINE void NAME(sums_by_turns)(const REAL *restrict log_h, int64_t k, int64_t classes, REAL *restrict out) {
    for (int64_t c = 0; c < classes; c += LANES) {
        REAL top[LANES], shift[LANES], e[LANES], result[LANES];
        double sums[LANES];
        four total[LANES / 4] = {{0}};
        NAME(largest)(log_h + c, classes, log_h + k, top);
        for (int l = 0; l < LANES; l++) shift[l] = top[l] == -INFINITY ? 0 : top[l];
        for (const REAL *h = log_h + c; h < log_h + k; h += classes) {
            for (int l = 0; l < LANES; l++) e[l] = NAME(exp_roughly)(h[l] - shift[l]);
            for (int i = 0; i < LANES / 4; i++) total[i] += (four){e[4 * i], e[4 * i + 1], e[4 * i + 2], e[4 * i + 3]};
        }
        memcpy(sums, total, sizeof sums);
        for (int l = 0; l < LANES; l++) result[l] = (REAL)(top[l] + log_from_one(sums[l]));
        memcpy(out + c, result, (classes - c < LANES ? classes - c : LANES) * sizeof(REAL));
    }
}

/* The same for any map; `h` has room for k numbers, `total` for one per class. */
INLINE void NAME(sums_by_map)(
    const REAL *restrict log_h, int64_t k, const int64_t *class_of, int64_t classes, REAL *restrict h,
    double *restrict total, REAL *restrict out
) {
    for (int64_t c = 0; c < classes; c++) out[c] = -INFINITY, total[c] = 0;
    for (int64_t i = 0; i < k; i++) out[class_of[i]] = log_h[i] > out[class_of[i]] ? log_h[i] : out[class_of[i]];
    for (int64_t i = 0; i < k; i++) h[i] = log_h[i] - (out[class_of[i]] == -INFINITY ? 0 : out[class_of[i]]);
    for (int64_t i = 0; i < k; i++) h[i] = NAME(exp)(h[i]);
    for (int64_t i = 0; i < k; i++) total[class_of[i]] += h[i];
    for (int64_t c = 0; c < classes; c++) out[c] = (REAL)(out[c] + log_from_one(total[c]));
}

/* What is known of every row, one of three: arguments of sigmoid gates, logs of what any gates accept and reject, or
 * logs of the functions themselves. */
typedef struct {
    const REAL *theta, *accept, *reject, *log_h;
    int64_t k;
    const int64_t *class_of;
    int64_t classes, turns;
    REAL *out;
} NAME(job);

/* Log of the partition functions of row `row` of those before `end`, of which other threads may be at work on the next. */
INLINE void NAME(functions_of_row)(const NAME(job) *job, int64_t row, int64_t end, REAL *out) {
    int64_t gates = job->k - 1, at = row * gates;
    int roomy = (end - row) * gates - gates + gates % LANES >= LANES;
    if (job->theta) {
        NAME(partition_row)(job->theta + at, NULL, NULL, gates, roomy, out);
    } else if (job->accept) {
        NAME(partition_row)(NULL, job->accept + at, job->reject + at, gates, roomy, out);
    } else {
        memcpy(out, job->log_h + row * job->k, job->k * sizeof(REAL));
    }
}

FOR_EACH_PROCESSOR static int NAME(partition_of_rows)(const void *of, int64_t first, int64_t end) {
    const NAME(job) *job = of;
    for (int64_t row = first; row < end; row++) NAME(functions_of_row)(job, row, end, job->out + row * job->k);
    return 1;
}

/* Log of the partition functions, (rows, k); from theta, or if it is NULL from accept and reject. */
int64_t NAME(punn_chain_partition)(
    const REAL *theta, const REAL *accept, const REAL *reject, int64_t rows, int64_t k, REAL *out, int64_t threads
) {
    NAME(job) job = {theta, accept, reject, NULL, k, NULL, 0, 0, out};
    return in_stripes(NAME(partition_of_rows), &job, rows, threads) ? rows : -1;
}

FOR_EACH_PROCESSOR static int NAME(class_sums_of_rows)(const void *of, int64_t first, int64_t end) {
    const NAME(job) *job = of;
    int64_t k = job->k, classes = job->classes;
    /* Calloc: lanes past the end of a row read numbers, though nobody wants them. */
    REAL *row_h = calloc(2 * k + LANES, sizeof(REAL)), *h = row_h ? row_h + k + LANES : NULL;
    double *total = malloc(classes * sizeof(double));
    for (int64_t row = first; row < end && h && total; row++) {
        NAME(functions_of_row)(job, row, end, row_h);
        if (job->turns) {
            NAME(sums_by_turns)(row_h, k, classes, job->out + row * classes);
        } else {
            NAME(sums_by_map)(row_h, k, job->class_of, classes, h, total, job->out + row * classes);
        }
    }
    int done = h && total;
    free(row_h);
    free(total);
    return done;
}

/* Log of the sum of every class's functions, (rows, classes): of the functions that theta, or accept and reject, make,
 * or if all are NULL of log_h. Returns -1 without memory. */
int64_t NAME(punn_chain_class_sums)(
    const REAL *theta, const REAL *accept, const REAL *reject, const REAL *log_h, int64_t rows, int64_t k,
    const int64_t *class_of, int64_t classes, REAL *out, int64_t threads
) {
    int64_t turns = k % classes == 0;
    for (int64_t i = 0; i < k && turns; i++) turns = class_of[i] == i % classes;
    NAME(job) job = {theta, accept, reject, log_h, k, class_of, classes, turns, out};
    return in_stripes(NAME(class_sums_of_rows), &job, rows, threads) ? rows : -1;
}
