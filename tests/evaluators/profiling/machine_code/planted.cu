// Kernels, each with one defect, to be compiled without a device; test_planted.py names the defect of each.
#include <cuda_fp16.h>

extern "C" __global__ void transpose_conflicts(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float tile[32][32];
    int column = threadIdx.x & 31, row = threadIdx.x >> 5;
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        for (int k = 0; k < 32; k += 8)
            tile[row + k][column] = x[(size_t)i * 1024 + (row + k) * 32 + column];
        __syncthreads();
        for (int k = 0; k < 32; k += 8)
            y[(size_t)i * 1024 + (row + k) * 32 + column] = tile[column][row + k];
        __syncthreads();
    }
}

extern "C" __global__ void transpose_padded(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float tile[32][33];
    int column = threadIdx.x & 31, row = threadIdx.x >> 5;
    for (int i = blockIdx.x; i < n; i += gridDim.x) {
        for (int k = 0; k < 32; k += 8)
            tile[row + k][column] = x[(size_t)i * 1024 + (row + k) * 32 + column];
        __syncthreads();
        for (int k = 0; k < 32; k += 8)
            y[(size_t)i * 1024 + (row + k) * 32 + column] = tile[column][row + k];
        __syncthreads();
    }
}

extern "C" __global__ void narrow_copy(const float *__restrict__ x, float *__restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] * 2.0f;
}

extern "C" __global__ void half_copy(const __half *__restrict__ x, __half *__restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = __hmul(x[i], __float2half(2.0f));
}

extern "C" __global__ void wide_copy(const float4 *__restrict__ x, float4 *__restrict__ y, int n) {
    int step = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += 4 * step) {
        float4 part[4];
#pragma unroll
        for (int k = 0; k < 4; k++) part[k] = x[i + k * step];
#pragma unroll
        for (int k = 0; k < 4; k++) {
            part[k].x *= 2.0f;
            y[i + k * step] = part[k];
        }
    }
}

extern "C" __global__ void column_walk(const float *__restrict__ x, float *__restrict__ y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < n; k++) sum += x[(size_t)row * n + k];
    y[row] = sum;
}

extern "C" __global__ void column_store(const float *__restrict__ x, float *__restrict__ y, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; k++) y[(size_t)row * n + k] = x[(size_t)k * gridDim.x * blockDim.x + row];
}

extern "C" __global__ void chase(const int *__restrict__ x, int *__restrict__ y, int n) {
    __shared__ int next[512];
    next[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    int at = threadIdx.x;
#pragma unroll 1
    for (int i = 0; i < n; i++) at = next[at];
    y[blockIdx.x * blockDim.x + threadIdx.x] = at;
}

extern "C" __global__ void product_on_vector_units(const __half *__restrict__ a, const __half *__restrict__ b,
                                        float *__restrict__ c, int n) {
    int row = blockIdx.y * 8 + (threadIdx.x >> 5), column = blockIdx.x * 32 + (threadIdx.x & 31);
    float sum = 0;
    for (int k = 0; k < n; k++) sum += __half2float(a[(size_t)row * n + k]) * __half2float(b[(size_t)k * n + column]);
    c[(size_t)row * n + column] = sum;
}

extern "C" __global__ void double_constant(const float4 *__restrict__ x, float4 *__restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        v.x = v.x * 1.7 + 0.3, v.y = v.y * 1.7 + 0.3, v.z = v.z * 1.7 + 0.3, v.w = v.w * 1.7 + 0.3;
        y[i] = v;
    }
}

extern "C" __global__ void staged_by_hand(const float4 *__restrict__ x, float4 *__restrict__ y, int n) {
    __shared__ float4 tile[256];
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        tile[threadIdx.x] = x[(size_t)(i * gridDim.x + blockIdx.x) * 256 + threadIdx.x];
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float4 v = tile[(threadIdx.x + k * 32) & 255];
            sum.x += v.x * v.y, sum.y += v.y * v.z, sum.z += v.z * v.w, sum.w += v.w * v.x;
        }
        __syncthreads();
    }
    y[blockIdx.x * 256 + threadIdx.x] = sum;
}

extern "C" __global__ void one_counter(const float4 *__restrict__ x, float *__restrict__ total, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        atomicAdd(total, v.x + v.y + v.z + v.w);
    }
}

extern "C" __global__ void one_lane(const float4 *__restrict__ x, float *__restrict__ total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i];
    if (threadIdx.x == 0) atomicAdd(total, v.x + v.y + v.z + v.w);
}

extern "C" __global__ void exponentials(const float4 *__restrict__ x, float4 *__restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
#pragma unroll
        for (int k = 0; k < 8; k++) v.x = __sinf(v.x), v.y = __sinf(v.y), v.z = __sinf(v.z), v.w = __sinf(v.w);
        y[i] = v;
    }
}

extern "C" __global__ void one_load_at_a_time(const float4 *__restrict__ x, float4 *__restrict__ y, int n) {
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll 1
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = __ldg(x + i);
        sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void first_lanes(const float *__restrict__ x, float *__restrict__ y, int n) {
    int lane = threadIdx.x & 31, warp = (blockIdx.x * blockDim.x + threadIdx.x) >> 5;
    if (lane < 4)
        for (int k = 0; k < n; k++) y[(size_t)(warp * n + k) * 4 + lane] = x[(size_t)(warp * n + k) * 4 + lane] * 2.0f;
}

extern "C" __global__ void index_by_division(const float4 *__restrict__ x, float4 *__restrict__ y, int n, int a, int b, int c) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        int p = i % a, q = i / a % b, r = i / a / b % c, s = i / a / b / c;
        y[i] = x[((p * b + q) * c + r) * 16 + s];
    }
}

extern "C" __global__ void large_tile(const float4 *__restrict__ x, float4 *__restrict__ y, int n) {
    extern __shared__ float4 tile[];
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        float4 v = x[(size_t)(i * gridDim.x + blockIdx.x) * blockDim.x + threadIdx.x];
        v.x += tile[threadIdx.x].x;
        tile[threadIdx.x] = v;
    }
    y[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];
}
