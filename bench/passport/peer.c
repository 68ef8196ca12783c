/* Peers of `metier device bench`, as a compiler makes them from plain C: reading memory, STREAM's triad, and a chain of accesses.
   peer read|triad|chase BYTES THREADS SECONDS: best rate in bytes/s of all threads together, or seconds of one access. */

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static volatile double sink;

#define SLICES 5

/* The best of some slices of time, in each of which all threads read at once: threads that were fast at different times do not add up. */
static double reading(size_t bytes, double seconds) {
    size_t n = bytes / sizeof(double), turns = 1 + (8 << 20) / bytes;
    double rates[SLICES] = {0}, best = 0;
#pragma omp parallel
    {
        double *a = aligned_alloc(64, (bytes + 63) / 64 * 64);
        for (size_t i = 0; i < n; i++) a[i] = 1;
        for (int slice = 0; slice < SLICES; slice++) {
#pragma omp barrier
            double start = now(), spent, done = 0;
            do {
                double sum = 0;
                for (size_t turn = 0; turn < turns; turn++) {
                    for (size_t i = 0; i < n; i++) sum += a[i];
                    __asm__ volatile("" ::: "memory");
                }
                sink = sum;
                done += turns * (double)bytes;
                spent = now() - start;
            } while (spent < seconds / SLICES);
#pragma omp atomic
            rates[slice] += done / spent;
        }
        free(a);
    }
    for (int slice = 0; slice < SLICES; slice++)
        if (rates[slice] > best) best = rates[slice];
    return best;
}

static double triad(size_t bytes, double seconds) {
    size_t n = bytes / sizeof(double) / 3;
    double *a = malloc(n * 8), *b = malloc(n * 8), *c = malloc(n * 8), best = 0, end = now() + seconds;
#pragma omp parallel for
    for (size_t i = 0; i < n; i++) a[i] = 0, b[i] = 1, c[i] = 2;
    do {
        double start = now();
#pragma omp parallel for
        for (size_t i = 0; i < n; i++) a[i] = b[i] + 3 * c[i];
        double one = 24.0 * n / (now() - start);
        if (one > best) best = one;
    } while (now() < end);
    sink = a[n / 2];
    return best;
}

static double chase(size_t bytes, double seconds) {
    size_t n = bytes / 64;
    uint32_t *order = malloc(n * sizeof *order);
    char *lines = aligned_alloc(64, n * 64);
    for (size_t i = 0; i < n; i++) order[i] = i;
    srandom(7);
    for (size_t i = n - 1; i > 0; i--) {
        size_t j = ((size_t)random() << 16 ^ random()) % i;
        uint32_t t = order[i];
        order[i] = order[j], order[j] = t;
    }
    for (size_t i = 0; i < n; i++) *(void **)(lines + 64 * i) = lines + 64 * (size_t)order[i];
    void **at = (void **)lines;
    double best = 1, end = now() + seconds;
    for (size_t i = 0; i < (n < 1 << 20 ? n : 1 << 20); i++) at = *at;
    do {
        double start = now();
        for (int i = 0; i < 100000; i++) at = *at;
        double one = (now() - start) / 100000;
        if (one < best) best = one;
    } while (now() < end);
    sink = (double)(uintptr_t)at;
    return best;
}

int main(int count, char **word) {
    if (count != 5) return fprintf(stderr, "peer read|triad|chase BYTES THREADS SECONDS\n"), 2;
    size_t bytes = strtoull(word[2], 0, 10);
    omp_set_num_threads(atoi(word[3]));
    double seconds = atof(word[4]);
    printf("%.9g\n", !strcmp(word[1], "read") ? reading(bytes, seconds) : !strcmp(word[1], "triad") ? triad(bytes, seconds) : chase(bytes, seconds));
    return 0;
}
