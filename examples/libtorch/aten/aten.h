/* aten.h: the little of libtorch that package aten calls, as C. See aten.cc.
 *
 * A function that can fail returns NULL or -1 then, with the reason in error, a buffer of the caller's of
 * AT_ERROR_SIZE bytes, ended by '\0'. On error nothing has moved. Any thread may call any function; what is
 * written to a tensor meanwhile is for its users to agree on. */
#ifndef EXAMPLES_LIBTORCH_ATEN_H_
#define EXAMPLES_LIBTORCH_ATEN_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { AT_ERROR_SIZE = 256 };

typedef struct at_tensor at_tensor; /* a reference to a tensor of libtorch's */
typedef struct at_model at_model;   /* a TorchScript module */
struct DLManagedTensorVersioned;

/* Takes over a managed tensor, whose deleter runs when libtorch's last reference to the memory is gone. On error
 * the caller still owns the managed tensor. libtorch checks almost nothing, so the caller must check the managed
 * tensor first, as the function check in aten.go does. */
at_tensor *at_from_dlpack(struct DLManagedTensorVersioned *managed, char *error);

/* A managed tensor on the memory, which keeps it. */
struct DLManagedTensorVersioned *at_to_dlpack(const at_tensor *tensor, char *error);

void at_tensor_free(at_tensor *tensor);

/* Each makes a tensor, which is the caller's. */
at_tensor *at_matmul(const at_tensor *a, const at_tensor *b, char *error);
at_tensor *at_softmax(const at_tensor *tensor, int64_t dim, char *error);

/* Adds value to each element, in place. */
int at_add_scalar(at_tensor *tensor, double value, char *error);

at_model *at_model_load(const char *path, char *error);
at_tensor *at_model_run(at_model *model, const at_tensor *input, char *error);
void at_model_free(at_model *model);

#ifdef __cplusplus
}
#endif

#endif
