//go:build cgo

package safetensors_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/safetensors"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/must"
	"github.com/dlbridge/dlbridge/dlpack/dlpacktest/vectors"
	"github.com/dlbridge/dlbridge/dlpack/layout"
)

func TestMain(m *testing.M) { dlpacktest.Main(m) }

func Example() {
	w, _ := dlpack.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	defer w.Close()
	data, _, err := safetensors.AppendTensors(nil, map[string]*dlpack.Tensor{"layer.weight": w}, map[string]string{"format": "go"})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := safetensors.DecodeFile(data)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, v := range f.Tensors {
		t, err := v.Tensor()
		if err != nil {
			fmt.Println(err)
			return
		}
		defer t.Close()
		fmt.Println(v.Name, v.DType, t)
	}
	fmt.Println(f.Metadata)
	// Output:
	// layer.weight F32 float32[2 3] on cpu, read-only
	// [[1 2 3]
	//  [4 5 6]]
	// map[format:go]
}

// tensors returns the tensors of a file.
func tensors(t *testing.T, data []byte) (map[string]*dlpack.Tensor, *safetensors.File) {
	f := must.Do(safetensors.DecodeFile(data))(t)
	all := map[string]*dlpack.Tensor{}
	for _, v := range f.Tensors {
		all[v.Name] = must.Own(v.Tensor())(t)
	}
	return all, f
}

func TestTensorsLieInTheFile(t *testing.T) {
	vectors.Each(t, "safetensors", func(t *testing.T, m manifest) {
		for _, file := range m.Files {
			data := m.File(t, file.File)
			f := must.Do(safetensors.DecodeFile(data))(t)
			whole := must.Own(dlpack.FromSlice(data))(t)
			for i := range f.Tensors {
				v := &f.Tensors[i]
				for _, x := range []*dlpack.Tensor{must.Own(v.Tensor(nil))(t), must.Own(v.Tensor(safetensors.Writable()))(t), must.Own(v.TensorFrom(whole, nil))(t)} {
					assert.Equal(t, v.DType.DataType(), x.DType())
					assert.Equal(t, v.Shape, x.Shape())
					assert.Equal(t, v.Data, must.Do(x.AppendBytes([]byte{}))(t))
					assert.Zero(t, x.Flags()&dlpack.IsCopied)
					if len(v.Data) > 0 {
						assert.Equal(t, uintptr(unsafe.Pointer(&data[v.Offset])), x.Data())
					}
				}
				assert.True(t, must.Own(v.Tensor())(t).ReadOnly())
				assert.False(t, must.Own(v.Tensor(safetensors.Writable()))(t).ReadOnly())
				assert.False(t, must.Own(v.TensorFrom(whole))(t).ReadOnly())
			}
		}
	})
}

func TestATensorOutlivesTheFile(t *testing.T) {
	m := vectors.Read[manifest](t, "safetensors")[0]
	data := m.File(t, "numpy.safetensors")
	released := make(chan bool)
	whole := must.Do(dlpack.FromReadOnly(data))(t)
	require.NoError(t, whole.OnRelease(func() { close(released) }))
	f := must.Do(safetensors.DecodeFile(data))(t)
	x := must.Do(must.Do(f.Find("weight"))(t).TensorFrom(whole))(t)
	require.NoError(t, whole.Close())
	select {
	case <-released:
		t.Fatal("the memory was given back while a tensor was open")
	default:
	}
	assert.True(t, x.ReadOnly())
	assert.Equal(t, float32(-1), must.Do(dlpack.At[float32](x, 0, 0))(t))
	require.NoError(t, x.Close())
	<-released
}

func TestTensorsThatAreNotAlignedSayItAndAlignCopiesThem(t *testing.T) {
	m := vectors.Read[manifest](t, "safetensors")[0]
	data := append(make([]byte, 0, 256), m.File(t, "unaligned.safetensors")...)
	v := must.Do(must.Do(safetensors.DecodeFile(data))(t).Find("w"))(t)
	whole := must.Own(dlpack.FromReadOnly(data))(t)
	for _, options := range [][]safetensors.Option{{safetensors.Align(8)}, {safetensors.Align(64), safetensors.Writable()}} {
		for _, x := range []*dlpack.Tensor{must.Own(v.Tensor(options...))(t), must.Own(v.TensorFrom(whole, options...))(t)} {
			assert.NoError(t, x.RequireAlign(64))
			assert.NotZero(t, x.Flags()&dlpack.IsCopied)
			assert.False(t, x.ReadOnly())
			assert.Equal(t, v.Data, must.Do(x.AppendBytes(nil))(t))
		}
	}
	assert.ErrorIs(t, must.Own(v.Tensor())(t).RequireAlign(4), dlpack.ErrUnaligned)
	assert.Less(t, v.Alignment(), 4)
	for _, n := range []int{3, -1, 8192} {
		must.Fail(v.Tensor(safetensors.Align(n)))(t, dlpack.ErrUnaligned)
	}
}

func TestViewsThatDoNotFitTheirFileAreRefused(t *testing.T) {
	v := safetensors.View{Name: "a", DType: safetensors.F32, Shape: []int64{2}, Offset: 8, Data: make([]byte, 8)}
	whole := must.Own(dlpack.New(dlpack.Uint8, 16))(t)
	must.Own(v.TensorFrom(whole))(t)
	must.Fail(v.TensorFrom(must.Own(dlpack.New(dlpack.Uint8, 15))(t)))(t, dlpack.ErrLayout)
	must.Fail(v.TensorFrom(must.Own(dlpack.New(dlpack.Int8, 16))(t)))(t, dlpack.ErrLayout)
	must.Fail(v.TensorFrom(nil))(t, dlpack.ErrClosed)
	short, untyped := v, v
	short.Data, untyped.DType = v.Data[:7], 0
	_, err := short.Tensor()
	assert.Error(t, err)
	must.Fail(untyped.Tensor())(t, elements.ErrDType)
	must.Fail((*safetensors.View)(nil).Tensor())(t, elements.ErrNil)
	must.Fail((*safetensors.View)(nil).TensorFrom(whole))(t, elements.ErrNil)
}

func TestTensorsAreWrittenAsTheReferenceWritesThem(t *testing.T) {
	vectors.Each(t, "safetensors", func(t *testing.T, m manifest) {
		for _, file := range m.Files {
			if file.Align == nil {
				continue
			}
			data := m.File(t, file.File)
			all, f := tensors(t, data)
			out, views, err := safetensors.AppendTensors([]byte("before"), all, f.Metadata, safetensors.Align(*file.Align))
			require.NoError(t, err)
			assert.Equal(t, "before"+string(data), string(out), file.ID)
			var written bytes.Buffer
			again := must.Do(safetensors.WriteTensors(&written, all, f.Metadata, safetensors.Align(*file.Align)))(t)
			assert.Equal(t, string(data), written.String(), file.ID)
			assert.Equal(t, views, again)
			for i, v := range views {
				want := f.Tensors[i]
				want.Data = nil
				assert.Equal(t, want, v)
			}
		}
	})
}

func TestNewMemoryIsAligned(t *testing.T) {
	x := must.Own(dlpack.FromSlice([]float32{1, 2, 3}))(t)
	out, views, err := safetensors.AppendTensors(nil, map[string]*dlpack.Tensor{"x": x}, nil)
	require.NoError(t, err)
	assert.Zero(t, uintptr(unsafe.Pointer(&out[views[0].Offset]))%64)
}

func TestTensorsOfAnyLayoutAreWrittenRowMajor(t *testing.T) {
	x := must.Own(dlpack.FromSlice([]int16{1, 2, 3, 4, 5, 6}, 2, 3))(t)
	pairs := must.Own(dlpack.FromBytes([]byte{0x21, 0x43}, dlpack.Spec{DType: dlpack.Float4E2M1FNx2, Shape: []int64{1, 2}}))(t)
	all := map[string]*dlpack.Tensor{
		"transposed": must.Own(x.Transpose())(t),
		"reversed":   must.Own(x.Flip(1))(t),
		"repeated":   must.Own(must.Own(x.Narrow(0, 0, 1))(t).BroadcastTo(2, 3))(t),
		"pairs":      pairs,
	}
	data, _, err := safetensors.AppendTensors(nil, all, nil)
	require.NoError(t, err)
	var written bytes.Buffer
	must.Do(safetensors.WriteTensors(&written, all, nil))(t)
	assert.Equal(t, string(data), written.String())
	read, f := tensors(t, data)
	for name, want := range all {
		if name != "pairs" {
			assert.True(t, must.Do(dlpack.Equal(want, read[name]))(t), name)
		}
	}
	v := must.Do(f.Find("pairs"))(t)
	assert.Equal(t, safetensors.View{Name: "pairs", DType: safetensors.F4, Shape: []int64{1, 4}, Offset: v.Offset, Data: []byte{0x21, 0x43}}, *v)
}

func TestTensorsThatTheFormatLacksAreRefused(t *testing.T) {
	closed := must.Do(dlpack.New(dlpack.Uint8, 1))(t)
	require.NoError(t, closed.Close())
	for name, c := range map[string]struct {
		x    *dlpack.Tensor
		want error
	}{
		"complex128":       {must.Own(dlpack.New(dlpack.Complex128, 1))(t), elements.ErrDType},
		"int4":             {must.Own(dlpack.New(dlpack.Int4, 2))(t), elements.ErrDType},
		"lanes":            {must.Own(dlpack.New(dlpack.MakeDataType(dlpack.CodeFloat, 32, 4), 1))(t), elements.ErrDType},
		"pairs of rank 0":  {must.Own(dlpack.New(dlpack.Float4E2M1FNx2))(t), elements.ErrDType},
		"padded float4":    {must.Own(dlpack.FromBytes(make([]byte, 2), dlpack.Spec{DType: dlpack.Float4E2M1FN, Shape: []int64{2}, Padded: true}))(t), elements.ErrDType},
		"half a byte":      {must.Own(dlpack.New(dlpack.Float4E2M1FN, 3))(t), elements.ErrSize},
		"closed":           {closed, dlpack.ErrClosed},
		"nil":              {nil, dlpack.ErrClosed},
		"bool of 2":        {must.Own(dlpack.FromBytes([]byte{2}, dlpack.Spec{DType: dlpack.Bool, Shape: []int64{1}}))(t), dlpack.ErrValue},
		"memory of a GPU":  {must.Own(dlpack.Import(dlpacktest.Produce(t, dlpacktest.Config{DeviceType: int32(dlpack.CUDA)}).Managed()))(t), dlpack.ErrDevice},
		"shape of 2^80, 0": {must.Own(must.Own(dlpack.New(dlpack.Uint8, 1, 1, 0))(t).BroadcastTo(1<<40, 1<<40, 0))(t), layout.ErrOverflow},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[string]*dlpack.Tensor{"weight": c.x}
			out, views, err := safetensors.AppendTensors([]byte("before"), all, nil)
			require.ErrorIs(t, err, c.want)
			assert.Contains(t, err.Error(), `safetensors: tensor "weight"`)
			assert.Equal(t, "before", string(out))
			assert.Nil(t, views)
			var written bytes.Buffer
			_, err = safetensors.WriteTensors(&written, all, nil)
			require.ErrorIs(t, err, c.want)
			if !errors.Is(err, dlpack.ErrValue) {
				assert.Zero(t, written.Len())
			}
		})
	}
	must.Fail(safetensors.WriteTensors(nil, nil, nil))(t, elements.ErrNil)
}
