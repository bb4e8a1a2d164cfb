// The result of a texture look-up at each point. A point is x, y, z, and w for a further operand.
#define LOOK(name, T, look)                                                                          \
    extern "C" __global__ void name(cudaTextureObject_t t, const float4 *at, T *out, unsigned n) {  \
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                          \
        if (i >= n) return;                                                                          \
        float4 p = at[i];                                                                            \
        out[i] = look;                                                                               \
    }

LOOK(line, float4, tex1D<float4>(t, p.x))
LOOK(line_int, int4, tex1D<int4>(t, p.x))
LOOK(plane, float4, tex2D<float4>(t, p.x, p.y))
LOOK(plane_int, int4, tex2D<int4>(t, p.x, p.y))
LOOK(plane_uint, uint4, tex2D<uint4>(t, p.x, p.y))
LOOK(space, float4, tex3D<float4>(t, p.x, p.y, p.z))
LOOK(lines, float4, tex1DLayered<float4>(t, p.x, (int)p.w))
LOOK(planes, float4, tex2DLayered<float4>(t, p.x, p.y, (int)p.w))
LOOK(cube, float4, texCubemap<float4>(t, p.x, p.y, p.z))
LOOK(cubes, float4, texCubemapLayered<float4>(t, p.x, p.y, p.z, (int)p.w))

LOOK(line_lod, float4, tex1DLod<float4>(t, p.x, p.w))
LOOK(plane_lod, float4, tex2DLod<float4>(t, p.x, p.y, p.w))
LOOK(space_lod, float4, tex3DLod<float4>(t, p.x, p.y, p.z, p.w))
LOOK(planes_lod, float4, tex2DLayeredLod<float4>(t, p.x, p.y, (int)p.z, p.w))
LOOK(cube_lod, float4, texCubemapLod<float4>(t, p.x, p.y, p.z, p.w))
// The gradient of x is z between points, and that of y is w between rows.
LOOK(plane_grad, float4,
     tex2DGrad<float4>(t, p.x, p.y, make_float2(p.z, 0.0f), make_float2(0.0f, p.w)))
LOOK(line_grad, float4, tex1DGrad<float4>(t, p.x, p.z, p.w))

LOOK(lines_lod, float4, tex1DLayeredLod<float4>(t, p.x, (int)p.z, p.w))
// w is 16 times the layer, plus the level.
LOOK(cubes_lod, float4,
     texCubemapLayeredLod<float4>(t, p.x, p.y, p.z, (int)p.w / 16, (float)((int)p.w % 16)))
// The gradient of x is w between points.
LOOK(space_grad, float4,
     tex3DGrad<float4>(t, p.x, p.y, p.z, make_float4(p.w, 0.0f, 0.0f, 0.0f),
                       make_float4(0.0f, 0.0f, p.w / 2, 0.0f)))
LOOK(planes_grad, float4,
     tex2DLayeredGrad<float4>(t, p.x, p.y, (int)p.z, make_float2(p.w, 0.0f), make_float2(0.0f, 0.0f)))
LOOK(lines_grad, float4, tex1DLayeredGrad<float4>(t, p.x, (int)p.z, p.w, p.w / 4))
LOOK(cube_grad, float4,
     texCubemapGrad<float4>(t, p.x, p.y, p.z, make_float4(0.1f, 0.0f, 0.0f, 0.0f),
                            make_float4(0.0f, 0.0f, 0.1f, 0.0f)))
LOOK(cubes_grad, float4,
     texCubemapLayeredGrad<float4>(t, p.x, p.y, p.z, (int)p.w, make_float4(0.1f, 0.0f, 0.0f, 0.0f),
                                   make_float4(0.0f, 0.0f, 0.1f, 0.0f)))

// The fourth number is 1 for elements that are resident.
extern "C" __global__ void resident(cudaTextureObject_t t, const float4 *at, float4 *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    bool plain, level;
    float4 found = tex2D<float4>(t, at[i].x, at[i].y, &plain);
    tex2DLod<float4>(t, at[i].x, at[i].y, 0.0f, &level);
    found.w = plain && level ? 1.0f : 0.0f;
    out[i] = found;
}

LOOK(gather_0, float4, tex2Dgather<float4>(t, p.x, p.y, 0))
LOOK(gather_1, float4, tex2Dgather<float4>(t, p.x, p.y, 1))
LOOK(gather_2, float4, tex2Dgather<float4>(t, p.x, p.y, 2))
LOOK(gather_3, float4, tex2Dgather<float4>(t, p.x, p.y, 3))

LOOK(fetch, float4, tex1Dfetch<float4>(t, (int)p.x))
LOOK(fetch_int, int4, tex1Dfetch<int4>(t, (int)p.x))
LOOK(fetch_uint, uint4, tex1Dfetch<uint4>(t, (int)p.x))

// Copies elements from one surface to another, reversed in every dimension.
#define TURN(name, T, read, write)                                                                   \
    extern "C" __global__ void name(cudaSurfaceObject_t in, cudaSurfaceObject_t out, unsigned width, \
                                    unsigned height, unsigned depth) {                               \
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;                                          \
        if (i >= width * height * depth) return;                                                     \
        int x = i % width, y = i / width % height, z = i / width / height;                           \
        int s = sizeof(T), u = width - 1 - x, v = height - 1 - y, w = depth - 1 - z;                 \
        T value;                                                                                     \
        read;                                                                                        \
        write;                                                                                       \
    }

TURN(turn_line_char, unsigned char, surf1Dread(&value, in, x * s), surf1Dwrite(value, out, u * s))
TURN(turn_line_float2, float2, surf1Dread(&value, in, x * s), surf1Dwrite(value, out, u * s))
TURN(turn_plane_short, short, surf2Dread(&value, in, x * s, y), surf2Dwrite(value, out, u * s, v))
TURN(turn_plane_uchar4, uchar4, surf2Dread(&value, in, x * s, y), surf2Dwrite(value, out, u * s, v))
TURN(turn_plane_int4, int4, surf2Dread(&value, in, x * s, y), surf2Dwrite(value, out, u * s, v))
TURN(turn_plane_short4, short4, surf2Dread(&value, in, x * s, y), surf2Dwrite(value, out, u * s, v))
TURN(turn_space, float, surf3Dread(&value, in, x * s, y, z), surf3Dwrite(value, out, u * s, v, w))
TURN(turn_lines, int2, surf1DLayeredread(&value, in, x * s, z),
     surf1DLayeredwrite(value, out, u * s, w))
TURN(turn_planes, unsigned, surf2DLayeredread(&value, in, x * s, y, z),
     surf2DLayeredwrite(value, out, u * s, v, w))
TURN(turn_cube, float, surfCubemapread(&value, in, x * s, y, z),
     surfCubemapwrite(value, out, u * s, v, w))
TURN(turn_cubes, float, surfCubemapLayeredread(&value, in, x * s, y, z),
     surfCubemapLayeredwrite(value, out, u * s, v, w))

// Reads a plane at points in and around it: the nearest element, and zero outside.
extern "C" __global__ void around(cudaSurfaceObject_t in, const int2 *at, int2 *out, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int2 p = at[i], found;
    surf2Dread(&found.x, in, p.x * 4, p.y, cudaBoundaryModeClamp);
    surf2Dread(&found.y, in, p.x * 4, p.y, cudaBoundaryModeZero);
    out[i] = found;
}

// Writes the index of the thread at points in and around a plane; writes outside are dropped.
extern "C" __global__ void mark(cudaSurfaceObject_t out, const int2 *at, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    surf2Dwrite((int)i + 1, out, at[i].x * 4, at[i].y, cudaBoundaryModeZero);
}
