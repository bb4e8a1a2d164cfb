// Launches as a program in C makes them: the values in variables, their addresses in an array.

#include <stddef.h>

typedef unsigned long long word;
typedef int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                      void **);

int twin_launch_0(launch launch, void *kernel, void *stream) {
    return launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL);
}

int twin_launch_4(launch launch, void *kernel, void *stream, const word *buffers, const word *numbers) {
    word a = buffers[0], b = buffers[1], c = numbers[0], d = numbers[1];
    void *arguments[] = {&a, &b, &c, &d};
    return launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

int twin_launch_12(launch launch, void *kernel, void *stream, const word *buffers, const word *numbers) {
    word a = buffers[0], b = buffers[1], c = buffers[2], d = buffers[3];
    word e = buffers[4], f = buffers[5], g = buffers[6], h = buffers[7];
    word s = numbers[0], t = numbers[1], u = numbers[2], v = numbers[3];
    void *arguments[] = {&a, &b, &c, &d, &e, &f, &g, &h, &s, &t, &u, &v};
    return launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}

int twin_launch_64(launch launch, void *kernel, void *stream, const word *buffers, const word *numbers) {
    word values[64];
    void *arguments[64];
    for (int i = 0; i < 64; ++i) {
        values[i] = i < 8 ? buffers[i] : numbers[i & 3];
        arguments[i] = &values[i];
    }
    return launch(kernel, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL);
}
