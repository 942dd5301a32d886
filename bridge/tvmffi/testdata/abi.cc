// abi.cc: where the content of objects lies, by upstream's c_api.h, which declares this for C++ only. The content must follow
// the header of abi.h.
#include <tvm/ffi/c_api.h>

#include "../abi.h"

int main() {
  ffi_object object[2];
  void *cell = object + 1;
  return TVMFFIBytesGetByteArrayPtr(object) == cell && TVMFFIErrorGetCellPtr(object) == cell &&
                 TVMFFITensorGetDLTensorPtr(object) == cell
             ? 0
             : 1;
}
