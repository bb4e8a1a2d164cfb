/* A stand-in for libcudart, of which candle-core needs no function: only its kernels for quantized
   models do, which are linked statically. They are not compiled for the software device, which does
   not support the runtime library. The functions that launch them end the program. */

#include <stdio.h>
#include <stdlib.h>

#define MISSING(name)                                                                      \
    void name(void) {                                                                      \
        fprintf(stderr, "stand-in: %s needs the runtime library of CUDA, which the software " \
                        "device does not support\n", #name);                               \
        abort();                                                                           \
    }

#define PRODUCTS(type)                       \
    MISSING(launch_mmq_gguf_##type)          \
    MISSING(launch_mmvq_gguf_##type##_bf16_plain) \
    MISSING(launch_mmvq_gguf_##type##_f16_plain)  \
    MISSING(launch_mmvq_gguf_##type##_f32_plain)

PRODUCTS(q4_0)
PRODUCTS(q4_1)
PRODUCTS(q5_0)
PRODUCTS(q5_1)
PRODUCTS(q8_0)
PRODUCTS(q2_k)
PRODUCTS(q3_k)
PRODUCTS(q4_k)
PRODUCTS(q5_k)
PRODUCTS(q6_k)
MISSING(launch_mmvq_gguf_quantize_q8_1_bf16)
MISSING(launch_mmvq_gguf_quantize_q8_1_f16)
MISSING(launch_mmvq_gguf_quantize_q8_1_f32)
MISSING(launch_mmq_quantize_q8_1_D4)
MISSING(launch_mmq_quantize_q8_1_DS4)
MISSING(launch_mmq_quantize_q8_1_D2S6)
