package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/dlbridge/dlbridge/bridge/elements"
	"github.com/dlbridge/dlbridge/bridge/internal/errtext"
	"github.com/dlbridge/dlbridge/dlpack"
	"github.com/dlbridge/dlbridge/dlpack/layout"
	"github.com/dlbridge/dlbridge/tens/strictjson"
)

// An Option changes how tensors are made from a file, or how a file is written.
type Option func(*options)

type options struct {
	writable bool
	align    int
}

// Writable makes tensors writable. The caller must be free to write to the memory of the file. It does not affect
// [View.TensorFrom], whose tensors are read-only if the file is. It has no effect when a file is written.
func Writable() Option { return func(o *options) { o.writable = true } }

// Align aligns tensors to n bytes, a power of two: up to [dlpack.AllocAlignment] when a file is decoded, and up to 4096
// when a file is written.
//
// When a file is decoded, [View.Tensor] and [View.TensorFrom] copy each tensor that is not aligned in memory. The copy
// is writable and has the flag [dlpack.IsCopied].
//
// When a file is written, spaces after the header make the elements begin at a multiple of n bytes. Tensors whose size
// is a multiple of n come before the others. They are aligned, and so is the first of the other tensors.
// [View.Alignment] of the result returns the alignment of each tensor. Without Align the tensors are ordered by type
// and name, as in the reference.
func Align(n int) Option { return func(o *options) { o.align = n } }

func optionsOf(list []Option) (o options) {
	for _, option := range list {
		if option != nil { // a nil option changes nothing
			option(&o)
		}
	}
	return o
}

// AppendHeader appends the header of a file with the given tensors. It reads only the name, the type and the shape of
// each tensor. It returns the tensors with their offsets in the file. Their elements must follow the header in the
// order of the result, without gaps. Without options the header is the same as in the reference, except that names of
// the metadata are sorted; in the reference their order is random.
//
// Errors: [elements.ErrName], [elements.ErrDuplicate], [elements.ErrDType] for an invalid type, [elements.ErrSize] for elements that do not fill whole bytes,
// [layout.ErrNegative], [layout.ErrOverflow], [dlpack.ErrLayout] for more than 256 dimensions, [dlpack.ErrOverflow] for a
// header of more than [MaxHeader] bytes, [dlpack.ErrUnaligned] for an invalid alignment; dst is then returned unchanged.
func AppendHeader(dst []byte, tensors []View, metadata map[string]string, options ...Option) ([]byte, []View, error) {
	align := optionsOf(options).align
	if align < 0 || align&(align-1) != 0 || align > 1<<12 {
		return dst, nil, fmt.Errorf("safetensors: the alignment is %d, but must be a power of two up to 4096: %w", align, dlpack.ErrUnaligned)
	}
	sorted := slices.Clone(tensors)
	sizes := make(map[string]int64, len(sorted))
	for _, v := range sorted {
		size, err := v.check()
		if _, ok := sizes[v.Name]; ok {
			err = elements.ErrDuplicate
		}
		if err != nil {
			return dst, nil, fmt.Errorf("safetensors: tensor %s of %v%s: %w", errtext.Quote(v.Name), v.DType, errtext.Shape(v.Shape), err)
		}
		sizes[v.Name] = size
	}
	last := func(v *View) int { // 1 for a tensor after which the next tensor would not be aligned
		if align > 0 && sizes[v.Name]%int64(align) != 0 {
			return 1
		}
		return 0
	}
	slices.SortFunc(sorted, func(a, b View) int {
		return cmp.Or(cmp.Compare(last(&a), last(&b)), cmp.Compare(b.DType, a.DType), cmp.Compare(a.Name, b.Name))
	})
	start := len(dst)
	out := append(dst, make([]byte, lengthSize)...)
	out = append(out, '{')
	if metadata != nil {
		out = append(out, `"__metadata__":{`...)
		for i, name := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(name) || !utf8.ValidString(metadata[name]) {
				return dst, nil, fmt.Errorf("safetensors: metadata %s is not UTF-8: %w", errtext.Quote(name), elements.ErrName)
			}
			if i > 0 {
				out = append(out, ',')
			}
			out = append(strictjson.AppendString(out, name), ':')
			out = strictjson.AppendString(out, metadata[name])
		}
		out = append(out, '}')
	}
	end := int64(0)
	for i := range sorted {
		v := &sorted[i]
		begin, fits := end, false
		if end, fits = layout.Add(begin, sizes[v.Name]); !fits || end > math.MaxInt64-2*MaxHeader {
			return dst, nil, fmt.Errorf("safetensors: the size of all tensors: %w", layout.ErrOverflow)
		}
		if i > 0 || metadata != nil {
			out = append(out, ',')
		}
		out = append(strictjson.AppendString(out, v.Name), `:{"dtype":"`...)
		out = append(append(out, v.DType.String()...), `","shape":[`...)
		for d, dim := range v.Shape {
			if d > 0 {
				out = append(out, ',')
			}
			out = strconv.AppendInt(out, dim, 10)
		}
		out = strconv.AppendInt(append(out, `],"data_offsets":[`...), begin, 10)
		out = strconv.AppendInt(append(out, ','), end, 10)
		out = append(out, "]}"...)
		v.Offset = begin
	}
	out = append(out, '}')
	for (len(out)-start)%max(align, lengthSize) != 0 {
		out = append(out, ' ')
	}
	size := len(out) - start
	if size-lengthSize > MaxHeader {
		return dst, nil, fmt.Errorf("safetensors: a header of %d bytes is larger than %d: %w", size-lengthSize, MaxHeader, dlpack.ErrOverflow)
	}
	binary.LittleEndian.PutUint64(out[start:], uint64(size-lengthSize))
	for i := range sorted {
		sorted[i].Offset += int64(size)
	}
	return out, sorted, nil
}

// check returns the size of a tensor before it is written. The errors have no prefix.
func (v *View) check() (int64, error) {
	switch {
	case v.Name == metadataName:
		return 0, fmt.Errorf("a tensor must not have the name of the metadata: %w", elements.ErrName)
	case !utf8.ValidString(v.Name):
		return 0, fmt.Errorf("a name must be UTF-8: %w", elements.ErrName)
	case !v.DType.valid():
		return 0, elements.ErrDType
	case len(v.Shape) > maxRank:
		return 0, fmt.Errorf("rank %d is more than %d: %w", len(v.Shape), maxRank, dlpack.ErrLayout)
	}
	return v.numBytes()
}
