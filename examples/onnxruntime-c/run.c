/* run MODEL: runs a model of ONNX Runtime, y = x + x, on tensors of dlbridge, without a copy. */
#include <dlbridge.h>
#include <onnxruntime_c_api.h>
#include <stdio.h>
#include <stdlib.h>

static const OrtApi *ort;
static const OrtMemoryInfo *host;

static void check(OrtStatus *status) {
  if (status == NULL) return;
  fprintf(stderr, "%s\n", ort->GetErrorMessage(status));
  exit(1);
}

/* What ONNX Runtime calls an allocator gives the memory of one tensor back. It must outlive the value. */
typedef struct {
  OrtAllocator ort; /* comes first, so that a pointer to it is a pointer to the owner */
  DLManagedTensorVersioned *tensor;
} owner;

static const OrtMemoryInfo *ORT_API_CALL info(const OrtAllocator *self) { return (void)self, host; }
static void ORT_API_CALL release(OrtAllocator *self, void *data) {
  printf("ONNX Runtime releases the memory %s\n", data == ((owner *)self)->tensor->dl_tensor.data ? "of the tensor" : "?");
  dlb_tensor_release(((owner *)self)->tensor);
}

/* Makes a value on the memory of a row-major float32 tensor. The value takes the tensor over. */
static OrtValue *value(owner *o, DLManagedTensorVersioned *tensor) {
  const DLTensor *t = &tensor->dl_tensor;
  OrtValue *out;
  *o = (owner){{.version = ORT_API_VERSION, .Free = release, .Info = info}, tensor};
  check(ort->CreateTensorWithDataAndDeleterAsOrtValue(&o->ort, t->data, (size_t)t->shape[0] * sizeof(float), t->shape,
                                                      (size_t)t->ndim, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &out));
  return out;
}

int main(int argc, char **argv) {
  const int64_t shape[] = {3};
  DLManagedTensorVersioned *x, *y, *kept;
  dlb_error e;
  ort = OrtGetApiBase()->GetApi(ORT_API_VERSION); /* NULL if the library is older than its header */
  if (argc != 2 || ort == NULL) return fprintf(stderr, "usage: run MODEL, with ONNX Runtime 1.%d or later\n", ORT_API_VERSION), 1;
  if (dlb_tensor_alloc(&x, (DLDataType){kDLFloat, 32, 1}, 1, shape, &e) || dlb_tensor_alloc(&y, x->dl_tensor.dtype, 1, shape, &e) ||
      dlb_tensor_share(&kept, y, &e)) return fprintf(stderr, "%s\n", e.message), 1; /* kept is for us, y for ONNX Runtime */
  for (int i = 0; i < 3; i++) ((float *)x->dl_tensor.data)[i] = (float)i;
  OrtEnv *env; OrtSessionOptions *options; OrtSession *session; OrtMemoryInfo *memory; owner owners[2];
  check(ort->CreateEnv(ORT_LOGGING_LEVEL_WARNING, "run", &env)), check(ort->CreateSessionOptions(&options));
  check(ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory)), host = memory;
  check(ort->CreateSession(env, argv[1], options, &session)), ort->ReleaseSessionOptions(options);
  OrtValue *in = value(&owners[0], x), *out = value(&owners[1], y);
  check(ort->Run(session, NULL, (const char *[]){"x"}, (const OrtValue *const[]){in}, 1, (const char *[]){"y"}, 1, &out));
  ort->ReleaseSession(session), ort->ReleaseValue(in), ort->ReleaseValue(out), ort->ReleaseMemoryInfo(memory), ort->ReleaseEnv(env);
  for (int i = 0; i < 3; i++) printf("%g\n", ((float *)kept->dl_tensor.data)[i]);
  return dlb_tensor_release(kept), 0;
}
