// The functions of CUDA's runtime that exported projects call, on the host: memory of the device is memory of the host, and kernels
// run through the shim. Streams run at once.
#include <stdio.h>
typedef int cudaError_t;
typedef void* cudaStream_t;
typedef long cudaEvent_t;
enum { cudaSuccess, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
struct dim3 { unsigned x, y, z; dim3(unsigned x, unsigned y, unsigned z) : x(x), y(y), z(z) {} };
static cudaError_t cudaMalloc(void** memory, size_t bytes) { return posix_memalign(memory, 256, bytes); }
static cudaError_t cudaMemset(void* memory, int value, size_t bytes) { memset(memory, value, bytes); return 0; }
static cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, int) { memcpy(to, from, bytes); return 0; }
static cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, cudaStream_t) { memcpy(to, from, bytes); return 0; }
static cudaError_t cudaGetLastError() { return 0; }
static cudaError_t cudaDeviceSynchronize() { return 0; }
static const char* cudaGetErrorString(cudaError_t) { return "an error"; }
static cudaError_t cudaEventCreate(cudaEvent_t* event) { *event = 0; return 0; }
static cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return 0; }
static cudaError_t cudaEventSynchronize(cudaEvent_t) { return 0; }
static cudaError_t cudaEventElapsedTime(float* spent, cudaEvent_t, cudaEvent_t) { *spent = 1; return 0; }
typedef const char* (*shim_entry)(void* const*, const unsigned*, uint64_t);
template <class... Pointers> void started(shim_entry entry, dim3 grid, unsigned threads, Pointers... pointers) {
  void* const buffers[] = {(void*)pointers...};
  const unsigned sizes[] = {grid.x, grid.y, grid.z, threads, 1, 1};
  const char* problem = entry(buffers, sizes, 1);
  if (problem) { fprintf(stderr, "%s\n", problem); exit(3); }
}
