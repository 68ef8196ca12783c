/* A fixed amount of work below main -> work -> {spin_long, spin_short}, 3 to 1; prints its CPU time in seconds. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned long sink;

void spin_long(long n) { for (long i = 0; i < n; i++) sink += i * 31; }
void spin_short(long n) { for (long i = 0; i < n; i++) sink += i * 17; }
void work(long n) { spin_long(3 * n); spin_short(n); }

int main(int argc, char **argv)
{
    long turns = argc > 1 ? atol(argv[1]) : 1000;
    for (long i = 0; i < turns; i++)
        work(10000);
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    if (argc > 2)
        printf("%.6f\n", t.tv_sec + t.tv_nsec / 1e9);
    return 0;
}
