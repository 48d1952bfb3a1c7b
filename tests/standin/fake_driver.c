// libcuda.so.1 of a machine that the test makes up.
#include <stdlib.h>

int cuInit(unsigned flags) {
  (void)flags;
  const char* answer = getenv("FAKE_CUINIT");
  return answer ? atoi(answer) : 0;
}
