/* In place of the library of the driver: it checks what it is given, and keeps a record. With WITH_HEADER, against the prototypes of a toolkit. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#ifdef WITH_HEADER
#include <cuda.h>
#else
typedef int CUresult;
typedef void *CUmodule, *CUfunction, *CUgraph, *CUgraphNode, *CUgraphExec, *CUstream, *CUkernel, *CUcontext;
typedef struct {
  CUfunction func;
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  void **kernelParams, **extra;
#ifndef OLD
  CUkernel kern;
  CUcontext ctx;
#endif
} CUDA_KERNEL_NODE_PARAMS;
#ifndef OLD
#define cuGraphAddKernelNode cuGraphAddKernelNode_v2
#endif
#define cuGraphInstantiate cuGraphInstantiateWithFlags
#define CUDAAPI
#endif

static char record[1 << 16], failing[64];
static uintptr_t made;
static int open_graphs, executables, modules;

const char *stand_in_record(void) { return record; }
void stand_in_fail(const char *name) { strncpy(failing, name, sizeof failing - 1); }
int stand_in_open(void) { return open_graphs * 10000 + executables * 100 + modules; }
void stand_in_reset(void) { record[0] = failing[0] = 0; made = open_graphs = executables = modules = 0; }

#define SAY(...) snprintf(record + strlen(record), sizeof record - strlen(record), __VA_ARGS__)
#define CALLED(name) if (!strcmp(failing, name)) { SAY("%s fails\n", name); return (CUresult)801; }
static void *handle(void) { return (void *)(0x7f0000000000 + 16 * ++made); } /* more than 32 bits */
#define NUMBER(handle) ((int)(((uintptr_t)(handle) - 0x7f0000000000) / 16))

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text) { *text = "CUDA_ERROR_NOT_SUPPORTED"; return 0; }
CUresult CUDAAPI cuCtxSynchronize(void) { SAY("wait\n"); return 0; }
CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image) {
  CALLED("cuModuleLoadData")
  *module = handle(), ++modules;
  SAY("module %d of %s\n", NUMBER(*module), (const char *)image);
  return 0;
}
CUresult CUDAAPI cuModuleUnload(CUmodule module) { --modules; SAY("unload %d\n", NUMBER(module)); return 0; }
CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  CALLED("cuModuleGetFunction")
  *function = handle();
  SAY("function %d of %d is %s\n", NUMBER(*function), NUMBER(module), name);
  return 0;
}
CUresult CUDAAPI cuGraphCreate(CUgraph *graph, unsigned flags) {
  CALLED("cuGraphCreate")
  *graph = handle(), ++open_graphs;
  SAY("graph %d, flags %u\n", NUMBER(*graph), flags);
  return 0;
}
CUresult CUDAAPI cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *before, size_t count, const CUDA_KERNEL_NODE_PARAMS *how) {
  CALLED("cuGraphAddKernelNode")
  *node = handle();
  SAY("node %d of %d after", NUMBER(*node), NUMBER(graph));
  for (size_t k = 0; k < count; ++k) SAY(" %d", NUMBER(before[k]));
  SAY(": function %d, blocks %u %u %u, threads %u %u %u, shared %u, arguments", NUMBER(how->func), how->gridDimX, how->gridDimY, how->gridDimZ,
      how->blockDimX, how->blockDimY, how->blockDimZ, how->sharedMemBytes);
  for (int k = 0; k < 2; ++k) SAY(" %llx", (unsigned long long)*(uint64_t *)how->kernelParams[k]);
  if (how->extra) SAY(", extra");
#ifndef OLD
  if (how->kern || how->ctx) SAY(", kernel");
#endif
  SAY("\n");
  return 0;
}
#ifndef ANCIENT
CUresult CUDAAPI cuGraphInstantiate(CUgraphExec *executable, CUgraph graph, unsigned long long flags) {
  CALLED("cuGraphInstantiateWithFlags")
  *executable = handle(), ++executables;
  SAY("executable %d of %d, flags %llu\n", NUMBER(*executable), NUMBER(graph), flags);
  return 0;
}
#endif
CUresult CUDAAPI cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  CALLED("cuGraphLaunch")
  SAY("launch %d on %p\n", NUMBER(executable), (void *)stream);
  return 0;
}
CUresult CUDAAPI cuGraphDestroy(CUgraph graph) { --open_graphs; SAY("destroy graph %d\n", NUMBER(graph)); return 0; }
CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec executable) { --executables; SAY("destroy executable %d\n", NUMBER(executable)); return 0; }
