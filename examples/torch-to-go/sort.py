import dlbridge, torch

go = dlbridge.load("build/libsort.so")
sort = dlbridge.wrap(go.sort, torch.from_dlpack, args=["tensor", "error"], returns="tensor")
x = torch.tensor([3.0, 1.0, 2.0])
y = sort(x)
print(x, y.data_ptr() == x.data_ptr())

for wrong in x.double(), x[::2], torch.nn.Parameter(x), torch.ones(2, dtype=torch.complex64).conj().imag:
    try:
        sort(wrong)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
