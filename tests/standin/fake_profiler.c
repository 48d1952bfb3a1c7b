// What NVTX_INJECTION64_PATH loads in the place of a profiler: writes each range to the
// file FAKE_PROFILER_LOG, "thread + name" where it begins and "thread -" where it ends.
#define _GNU_SOURCE  // gettid
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static FILE* file;

static int begin_range(const char* name) {
  fprintf(file, "%d + %s\n", (int)gettid(), name);
  return 0;
}

static int end_range(void) {
  fprintf(file, "%d -\n", (int)gettid());
  return 0;
}

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* const callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table;
  unsigned size = 0;
  const char* const path = getenv("FAKE_PROFILER_LOG");
  file = path ? fopen(path, "w") : 0;
  if (!file || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &size))
    return 0;
  *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)begin_range;
  *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)end_range;
  return 1;
}
